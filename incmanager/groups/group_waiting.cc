// Who waits: ranks for others, and groups that have failed for their removal. Only those are looked at whose
// time has come, since thousands of groups may wait.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "incmanager/groups/group_life.h"

namespace epic::manager {
namespace {

std::vector<uint32_t> MissingRanks(const Group& group) {
  std::vector<uint32_t> missing;
  missing.reserve(group.spec.world_size - group.members.size());
  uint32_t rank = 0;
  for (const auto& [member, unused] : group.members) {
    while (rank < member) missing.push_back(rank++);
    ++rank;
  }
  while (rank < group.spec.world_size) missing.push_back(rank++);
  return missing;
}

}  // namespace

// A time that comes too early costs a look.
void GroupLife::SetDue(Group* group) {
  Nanos due = kNever;
  if (group->phase == GroupPhase::kJoining) due = std::min(group->next_waiting, group->join_deadline);
  if (group->phase == GroupPhase::kFailed) due = group->remove_at;
  if (group->phase == GroupPhase::kInstalling) due = group->server_due;
  if (IsInUse(group->phase) && !group->removal_started) due = BackBy(*group);
  if (due == group->due) return;
  due_.erase({group->due, group->id});
  group->due = due;
  if (due != kNever) due_.emplace(due, group->id);
}

void GroupLife::Tick(Nanos now) {
  std::vector<uint64_t> due;
  while (!due_.empty() && due_.begin()->first <= now) {
    const uint64_t id = due_.begin()->second;
    due_.erase(due_.begin());
    groups_.at(id).due = kNever;
    due.push_back(id);
  }
  std::ranges::sort(due);
  for (const uint64_t id : due) {
    Group& group = groups_.at(id);
    if (group.phase == GroupPhase::kJoining) {
      TellWaiting(now, &group);
    } else if (group.phase == GroupPhase::kFailed && now >= group.remove_at) {
      StartRemoval(now, &group);  // it may be gone then
    } else if (IsInUse(group.phase)) {
      FailAway(now, &group);
    } else if (group.phase == GroupPhase::kInstalling && now >= group.server_due) {
      OnServerSilent(now, &group);
    } else {
      SetDue(&group);
    }
  }
}

void GroupLife::TellWaiting(Nanos now, Group* group) {
  group->join_deadline = kNever;
  for (const auto& [rank, member] : group->members)
    group->join_deadline = std::min(group->join_deadline, member.deadline);
  if (now >= group->join_deadline) {
    const std::vector<uint32_t> missing = MissingRanks(*group);
    return FailGroup(now, group,
                     RankFailure(ErrorCode::kJoinTimeout, missing.front(),
                                 fmt::format("group {}: {} of {} ranks did not join in time: {}", group->spec.name,
                                             missing.size(), group->spec.world_size, fmt::join(missing, ", "))));
  }
  if (now >= group->next_waiting) {
    group->next_waiting = now + kWaitingInterval;
    const WaitingNote note{MissingRanks(*group)};
    for (const auto& [rank, member] : group->members) world_->Send(member.session, note);
  }
  SetDue(group);
}

// The last rank of a group waits for nobody.
Failure GroupLife::RefusesToWait(const Group& group, const JoinRequest& join) const {
  const auto waiting = waiting_.find(join.ip);
  if (waiting == waiting_.end() || waiting->second < options_.max_waiting) return {};
  if (group.members.size() + 1 == group.spec.world_size) return {};
  return RankFailure(ErrorCode::kNoResource, join.rank,
                     fmt::format("{} ranks at {} wait for others already, and no more may (incmanager serve "
                                 "--max-waiting)",
                                 waiting->second, ToString(join.ip)));
}

void GroupLife::CountWaiting(const Group& group, int change) {
  for (const auto& [rank, member] : group.members) CountWaiting(member.join.ip, change);
}

void GroupLife::CountWaiting(Ipv4 address, int change) {
  uint32_t& count = waiting_[address];
  count += static_cast<uint32_t>(change);
  if (count == 0) waiting_.erase(address);
}

}  // namespace epic::manager
