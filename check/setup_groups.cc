#include "check/setup_groups.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "incengine/state/config.h"

namespace epic::check {
namespace {

constexpr uint32_t kMostGroups = 3;
constexpr size_t kMostCalls = 20;

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

Status AskForMemory(std::vector<ControlHeader>* calls) {
  if (calls->size() > kMostCalls)
    return Invalid(fmt::format("collective: of several groups at most {} calls", kMostCalls));
  std::vector<ControlHeader> invocations;
  for (ControlHeader call : *calls) {
    if (CallBytes(call) > 0) {
      ControlHeader request = call;
      request.flags = kRequestFlag;
      request.turn = 0;
      invocations.push_back(request);
      call.flags |= kGrantedFlag;
    }
    invocations.push_back(call);
  }
  *calls = std::move(invocations);
  return absl::OkStatus();
}

}  // namespace epic::check
