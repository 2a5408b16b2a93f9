// What always holds of groups: see group_life.h.
#include <algorithm>
#include <iterator>
#include <map>

#include "base/check.h"
#include "incmanager/groups/group_life.h"

namespace epic::manager {
namespace {

// By itself.
void CheckGroup(const Group& group) {
  EPIC_CHECK(!group.members.empty());
  for (const auto& [rank, member] : group.members) {
    EPIC_CHECK(member.join.rank == rank && rank < group.spec.world_size);
    EPIC_CHECK(member.host != kNoNode);
  }
  const bool all = group.members.size() == group.spec.world_size;
  const bool has_plan = !group.plan.contexts.empty();
  EPIC_CHECK(group.allocation.has_value() == (has_plan || !group.refused.contexts.empty()));
  // Who has a server has, or had, a context that names it; nobody runs without one that is there.
  const std::vector<ContextPlan>& contexts = has_plan ? group.plan.contexts : group.refused.contexts;
  const bool named = !contexts.empty() && contexts.front().server.has_value();
  EPIC_CHECK(named == group.server.has_value());
  EPIC_CHECK((group.server_due != kNever) ==
             (group.phase == GroupPhase::kInstalling && named && has_plan && !group.server->made));
  EPIC_CHECK(!IsInUse(group.phase) || !has_plan || !named || group.server->made);
  EPIC_CHECK(group.removing_refused.empty() == group.refused.contexts.empty());
  // When the last switch has answered the group is gone.
  EPIC_CHECK(group.removal_started ? !group.removing.empty() || !group.removing_refused.empty()
                                   : group.removing.empty());
  EPIC_CHECK(group.failure.ok() == (group.phase != GroupPhase::kFailed));
  if (group.multicast) {
    EPIC_CHECK(group.no_multicast.ok() && group.multicast->ends.size() == group.spec.world_size);
    EPIC_CHECK(IsInUse(group.phase) || group.phase == GroupPhase::kFailed);
  }
  switch (group.phase) {
    case GroupPhase::kReserved:
      EPIC_CHECK(false);  // of such there is a spec only
      return;
    case GroupPhase::kJoining:
      EPIC_CHECK(!all && group.path_taken == Path::kUnspecified && !group.removal_started);
      return;
    case GroupPhase::kInstalling:
      EPIC_CHECK(all && !group.installing.empty() && has_plan && !group.removal_started);
      return;
    case GroupPhase::kRunning:
    case GroupPhase::kLeaving: {
      EPIC_CHECK(all && group.installing.empty() && group.plan.replies.size() == group.spec.world_size);
      EPIC_CHECK(group.path_taken == (has_plan ? Path::kNetwork : Path::kHosts));
      const auto left = std::ranges::count_if(group.members, [](const auto& m) { return m.second.left; });
      EPIC_CHECK((left != 0) == (group.phase == GroupPhase::kLeaving));
      EPIC_CHECK(group.removal_started == (left == std::ssize(group.members)));
      return;
    }
    case GroupPhase::kFailed:
      EPIC_CHECK(group.removal_started == (group.remove_at == kNever));
      return;
  }
}

}  // namespace

void GroupLife::CheckInvariants() const {
  qpns_.CheckInvariants();
  addresses_.CheckInvariants();
  load_.CheckInvariants();
  ends_.CheckInvariants();
  Load load;
  size_t live = 0, sessions = 0, planned = 0;
  std::map<NodeId, size_t> qpns;
  std::map<NodeId, uint64_t> lent;
  std::map<Mac, const Group*> multicast;
  std::map<Ipv4, uint32_t> waiting;
  for (const auto& [id, group] : groups_) {
    for (const auto& [rank, member] : group.members) {
      if (group.phase == GroupPhase::kJoining) ++waiting[member.join.ip];
    }
    // What happens by itself is not forgotten.
    Nanos next = kNever;
    if (group.phase == GroupPhase::kJoining) {
      next = group.next_waiting;
      for (const auto& [rank, member] : group.members) next = std::min(next, member.deadline);
    }
    if (group.phase == GroupPhase::kFailed) next = group.remove_at;
    if (IsInUse(group.phase) && !group.removal_started) next = BackBy(group);
    if (group.phase == GroupPhase::kInstalling) next = group.server_due;
    EPIC_CHECK(group.due <= next && due_.contains({group.due, id}) == (group.due != kNever));
    EPIC_CHECK(group.id == id && id < next_id_);
    CheckGroup(group);
    const auto named = live_.find(group.spec.name);
    const bool is_live = named != live_.end() && named->second == id;
    EPIC_CHECK(is_live == (group.phase != GroupPhase::kFailed));
    // Its operator may take back a group that all have left.
    if (is_live && !group.removal_started) EPIC_CHECK(group.reserved == reserved_.contains(group.spec.name));
    live += is_live ? 1 : 0;
    for (const auto& [rank, member] : group.members) {
      const auto own = sessions_.find(member.session);
      if (own != sessions_.end() && own->second == id && member.open) ++sessions;
    }
    if (group.allocation) load.Apply(*group.allocation);
    if (group.server) lent[group.server->host] += group.server->bytes;
    if (group.multicast) {
      EPIC_CHECK(addresses_.Uses(group.multicast->address));
      EPIC_CHECK(multicast.emplace(MulticastMac(group.multicast->address), &group).second);
    }
    // Where its contexts are told.
    for (const ContextPlan& context : group.plan.contexts) {
      const auto at = planned_at_.find(context.node);
      EPIC_CHECK(at != planned_at_.end() && at->second.contains(id));
      ++planned;
    }
    for (const GroupPlan* const plan : {&group.plan, &group.refused}) {
      for (const ContextPlan& context : plan->contexts) qpns[context.node] += LocalQpnsOf(context).size();
    }
  }
  for (const auto& [node, ids] : planned_at_) planned -= ids.size();
  EPIC_CHECK(planned == 0);
  EPIC_CHECK(live == live_.size() && sessions == sessions_.size());
  EPIC_CHECK(load == load_ && lent == lending_.taken());
  for (const NodeId node : topology_->switches) EPIC_CHECK(qpns[node] == qpns_.InUse(node));
  EPIC_CHECK(multicast.size() == addresses_.InUse());
  for (const MulticastMembers& members : Multicasts()) {
    const auto of = multicast.find(members.mac);
    EPIC_CHECK(of != multicast.end() && IsInUse(of->second->phase) && live_.contains(of->second->spec.name));
  }
  for (const auto& [name, lives] : generations_) EPIC_CHECK(reserved_.contains(name));
  EPIC_CHECK(waiting == waiting_);
}

}  // namespace epic::manager
