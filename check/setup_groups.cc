#include "check/setup_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "incengine/state/config.h"

namespace epic::check {
namespace {

constexpr uint32_t kMostGroups = 3;
constexpr uint32_t kMostSlices = 8;
constexpr uint32_t kMostPlaces = 64;

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

Status PlacePool(const Setup& setup, SystemConfig* config) {
  constexpr std::array<std::string_view, 4> kPolicies = {"priority", "fcfs", "always", "coin"};
  const auto policy = std::ranges::find(kPolicies, setup.pool_policy);
  if (policy == kPolicies.end())
    return Invalid(
        fmt::format("pool-policy: '{}' is none of priority, fcfs, always, coin", setup.pool_policy));
  const Mode mode = config->mode.At(0);
  if (setup.pool == 0 && IsInPool(mode))
    return Invalid(fmt::format("pool: mode {} needs one of 1 to {} places", NumeralOf(mode), kMostPlaces));
  if (setup.pool != 0 && !IsInPool(mode))
    return Invalid(
        fmt::format("pool: mode {} has none, mode {} has", NumeralOf(mode), NumeralOf(ModeInPool())));
  if (setup.pool == 0)
    return setup.faults.evictions == 0 ? absl::OkStatus() : Invalid("evictions: there is no pool");
  if (setup.pool > kMostPlaces) return Invalid(fmt::format("pool: 1 to {} places", kMostPlaces));
  config->pool = {.places = setup.pool,
                  .policy = static_cast<engine::PoolPolicy>(policy - kPolicies.begin())};
  if (config->tree.switch_parent.size() != 1) return Invalid("pool: of one switch");
  if (setup.faults.crashes > 0 || setup.faults.regroups > 0)
    return Invalid("pool: without crashes and regroups");
  const System system(*config);
  if (const Status valid = engine::Validate(system.GroupOf(0), system.ports(0)); !valid.ok())
    return Invalid(fmt::format("pool: {}", std::string(valid.message())));
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
