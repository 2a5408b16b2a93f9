#include "incmanager/groups/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace epic::manager {

const char* Name(GroupPhase phase) {
  switch (phase) {
    case GroupPhase::kReserved:
      return "reserved";
    case GroupPhase::kJoining:
      return "joining";
    case GroupPhase::kInstalling:
      return "installing";
    case GroupPhase::kRunning:
      return "running";
    case GroupPhase::kLeaving:
      return "leaving";
    case GroupPhase::kFailed:
      return "failed";
  }
  return "unknown";
}

TimeShare ShareOf(const GroupSpec& spec) {
  return {.duty = spec.duty == 0 ? kWholeTime : spec.duty, .job = spec.job, .phase = spec.phase};
}

GroupSpec WithDefaults(GroupSpec spec, Policy policy) {
  if (spec.mode == Mode::kUnspecified) spec.mode = kDefaultMode;
  if (spec.path == Path::kUnspecified) spec.path = Path::kAuto;
  // No other policy places groups whose payloads lie in a pool.
  if (spec.policy == Policy::kUnspecified) spec.policy = IsInPool(spec.mode) ? Policy::kShortest : policy;
  return spec;
}

Abilities NeedsOf(const GroupSpec& spec) {
  Abilities needs = spec.needs;
  if (spec.int8) {
    needs.Add(DataType::kBlock8);
    needs.Add(ReduceOp::kSum);
  }
  if (spec.scale == 0) return needs;
  needs = {};
  for (const TypeInfo& row : kDataTypes) {
    if (row.type != DataType::kFloat32 && spec.needs.Has(row.type)) needs.Add(row.type);
  }
  for (const OpInfo& row : kReduceOps) {
    if (spec.needs.Has(row.op)) needs.Add(row.op);
  }
  needs.Add(DataType::kInt32);
  needs.Add(ReduceOp::kSaturatingSum);
  return needs;
}

uint32_t AccumulatorMtus(const GroupSpec& spec) {
  if (spec.int8) return AccumulatorFactor(DataType::kBlock8);
  uint32_t most = spec.needs.HasTypes() ? 1 : 2;
  for (const TypeInfo& row : kDataTypes) {
    if (spec.needs.Has(row.type)) most = std::max(most, AccumulatorFactor(row.type));
  }
  return most;
}

bool AsksForMulticast(const Group& group) {
  return std::ranges::any_of(group.members, [](const auto& member) {
    return member.second.join.datagram_qpn != 0 && !member.second.join.datagrams_offered;
  });
}

std::vector<NodeId> HostsOf(const Group& group) {
  std::vector<NodeId> hosts;
  for (const auto& [rank, member] : group.members) hosts.push_back(member.host);
  return hosts;
}

std::string WhereIs(const Member& member) {
  return fmt::format("{} (pid {})",
                     member.join.host_name.empty() ? ToString(member.join.ip) : member.join.host_name,
                     member.join.pid);
}

Failure RankGone(const Member& member, const std::string& why) {
  const uint32_t rank = member.join.rank;
  if (member.refused.ok())
    return RankFailure(ErrorCode::kRankLost, rank,
                       fmt::format("rank {} on {} is gone: {}", rank, WhereIs(member), why));
  return RankFailure(member.refused.code, rank,
                     fmt::format("rank {} on {} is gone, whose call was refused: {}", rank, WhereIs(member),
                                 member.refused.message));
}

std::string HowAllLeft(const Group& group) {
  const std::string* most = nullptr;
  for (const auto& [rank, member] : group.members) {
    const Failure& refused = member.refused;
    if (!refused.ok() && (most == nullptr || refused.message.size() > most->size())) most = &refused.message;
  }
  if (most == nullptr) return fmt::format("all {} ranks have left", group.members.size());
  return fmt::format("failed: {}", *most);
}

}  // namespace epic::manager
