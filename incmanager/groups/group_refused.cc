// Groups that cannot run because a host is not where it is to be, or because a switch refuses all that one
// end sends.
#include "incmanager/groups/group_table.h"

namespace epic::manager {

Failure GroupTable::Misplaced(const Group& group, ErrorCode code) const {
  for (const auto& [rank, member] : group.members) {
    const std::string& why = topology_->nodes[member.host].misplaced;
    if (!why.empty()) return RankFailure(code, rank, why);
  }
  return {};
}

const Group* GroupTable::FindRunning(uint64_t group_id, uint32_t generation) const {
  const Group* const group = FindRunning(group_id);
  return group != nullptr && group->generation == generation ? group : nullptr;
}

const Group* GroupTable::FindRunning(uint64_t group_id) const {
  const auto found = groups_.find(group_id);
  if (found == groups_.end()) return nullptr;
  return IsInUse(found->second.phase) ? &found->second : nullptr;
}

void GroupTable::FailRefused(Nanos now, uint64_t group_id, const Failure& failure) {
  const auto found = groups_.find(group_id);
  if (found != groups_.end()) FailGroup(now, &found->second, failure);
}

}  // namespace epic::manager
