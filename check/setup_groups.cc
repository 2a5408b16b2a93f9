#include "check/setup_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "incengine/state/config.h"

namespace epic::check {
namespace {

constexpr uint32_t kMostGroups = 3;
constexpr uint32_t kMostSlices = 8;

Status Invalid(const std::string& message) { return MakeStatus(StatusCode::kInvalidArgument, message); }

}  // namespace

Status CheckGroups(const Setup& setup, const SystemConfig& config) {
  if (setup.groups < 1 || setup.groups > kMostGroups)
    return Invalid(fmt::format("groups: 1 to {}", kMostGroups));
  if (setup.groups == 1) return absl::OkStatus();
  // Not every mode has blocks: the engine says which.
  const System system(config);
  for (int s = 0; s < system.switches(); ++s) {
    if (const Status valid = engine::Validate(system.GroupOf(s), system.ports(s)); !valid.ok())
      return Invalid(fmt::format("groups: {}", std::string(valid.message())));
  }
  if (setup.faults.crashes > 0) return Invalid("crashes: not of several groups");
  if (setup.faults.regroups > 0) return Invalid("regroups: not of several groups");
  return absl::OkStatus();
}

Status CutCalls(const Setup& setup, SystemConfig* config) {
  if (setup.slices < 1 || setup.slices > kMostSlices)
    return Invalid(fmt::format("slices: 1 to {}", kMostSlices));
  if (setup.slices == 1) return absl::OkStatus();
  for (const ControlHeader& call : config->calls) {
    if (CallBytes(call) == 0) continue;
    if (IsInlined(call)) return Invalid("slices: not beside a call in one message (+)");
    config->invocation_bytes = std::min(config->invocation_bytes, CallBytes(call) / setup.slices);
  }
  for (const Invocation& slice : System(*config).Invocations()) {
    const uint64_t bytes = slice.header.count * ElementBytes(slice.header.type);
    if (bytes % kPathMtu != 0)
      return Invalid(fmt::format("slices: {} messages do not make {} slices of whole packets", setup.messages,
                                 setup.slices));
  }
  return absl::OkStatus();
}

}  // namespace epic::check
