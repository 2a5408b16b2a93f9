// What a network that changes means for groups.
#include <utility>

#include "incmanager/groups/group_table.h"

namespace epic::manager {

void GroupTable::OnNetwork(const std::vector<Forwarding>& tables) {
  forwarding_ = tables;
  qpns_.Grow(topology_->nodes.size());
}

// Of a group whose tree's edges are single links, ways may change. A group that connects its hosts, or whose
// edges span several links, crosses more links than its tree has edges.
std::vector<bool> GroupTable::Stays() const {
  std::vector<bool> stays(topology_->nodes.size());
  std::vector<uint64_t> counted_for(topology_->nodes.size());
  for (const auto& [id, group] : groups_) {
    if (group.footprint.links.empty() || group.phase == GroupPhase::kFailed) continue;
    size_t edges = group.plan.contexts.empty() ? 0 : group.plan.contexts.size() - 1;
    // Ranks of one host share its link.
    for (const auto& [rank, member] : group.members)
      edges += std::exchange(counted_for[member.host], id) == id ? 0 : 1;
    if (group.footprint.links.size() <= edges) continue;
    for (const ContextPlan& context : group.plan.contexts) stays[context.node] = true;
    for (const auto& [rank, member] : group.members) stays[member.host] = true;
  }
  return stays;
}

}  // namespace epic::manager
