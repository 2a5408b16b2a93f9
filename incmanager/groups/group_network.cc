// What a network that changes means for groups.
#include <fmt/format.h>

#include <utility>

#include "incmanager/groups/group_table.h"

namespace epic::manager {

void GroupTable::OnNetwork(const std::vector<Forwarding>& tables) {
  forwarding_ = tables;
  qpns_.Grow(topology_->nodes.size());
}

std::vector<const std::vector<Way>*> GroupTable::Ways() const {
  std::vector<const std::vector<Way>*> ways;
  for (const auto& [id, group] : groups_) {
    if (group.phase == GroupPhase::kFailed) continue;
    if (!group.footprint.ways.empty()) ways.push_back(&group.footprint.ways);
  }
  // What only goes elsewhere comes behind what ends by it.
  for (const auto& [id, group] : groups_) {
    if (group.phase == GroupPhase::kFailed) continue;
    if (!group.footprint.ways_of_hosts.empty()) ways.push_back(&group.footprint.ways_of_hosts);
  }
  return ways;
}

Failure GroupTable::Moved(const Group& group) const {
  bool carries = true;
  for (const LinkEnd& link : group.footprint.links) {
    const LinkEnd there = topology_->Across(link);
    carries &= topology_->Carries(link);
    if (topology_->nodes[link.node].hops[link.hop].state != LinkState::kGone) continue;
    const LinkEnd host = topology_->IsSwitch(link.node) ? there : link;
    const LinkEnd at = topology_->IsSwitch(link.node) ? link : there;
    std::string why = "another is at one of its ports, or a port is gone";
    if (!topology_->IsSwitch(host.node) && topology_->AttachedEnd(host.node) != host) {
      const LinkEnd now_at = topology_->Across(topology_->AttachedEnd(host.node));
      why = fmt::format("{} has moved to {}", topology_->nodes[host.node].name, topology_->Describe(now_at));
    }
    return SwitchFailure(ErrorCode::kLinkLost, topology_->nodes[at.node].name,
                         fmt::format("the link between {} and {} is lost: {}", topology_->Describe(link),
                                     topology_->Describe(there), why));
  }
  // What is broken may come back, or is judged.
  if (!carries) return {};
  for (const Way& way : group.footprint.ways) {
    if (forwarding_[way.at].HopTo(way.to) == way.hop) continue;
    const std::string& name = topology_->nodes[way.at].name;
    return SwitchFailure(
        ErrorCode::kLinkLost, name,
        fmt::format("the way from {} to {} has moved from {}: another group relies on that", name,
                    topology_->nodes[way.to].name, topology_->Describe({way.at, way.hop})));
  }
  return {};
}

void GroupTable::FailMoved(Nanos now) {
  std::vector<std::pair<Group*, Failure>> moved, misplaced;
  for (auto& [id, group] : groups_) {
    if (group.phase == GroupPhase::kFailed) continue;
    Failure failure =
        group.phase == GroupPhase::kJoining ? Failure{} : Misplaced(group, ErrorCode::kLinkLost);
    if (!failure.ok()) {
      misplaced.emplace_back(&group, std::move(failure));
      continue;
    }
    failure = Moved(group);
    if (failure.code != ErrorCode::kOk) moved.emplace_back(&group, std::move(failure));
  }
  // Neither way goes there.
  for (const auto& [group, failure] : misplaced) FailGroup(now, group, failure);
  for (const auto& [group, failure] : moved) FailOrRefuse(now, group, failure);
}

void GroupTable::OnSwitchLost(Nanos now, NodeId node, const std::string& why) {
  const std::string& name = topology_->nodes[node].name;
  FailWhere(
      now, [node](const Group& group) { return group.footprint.switches.contains(node); },
      SwitchFailure(ErrorCode::kSwitchLost, name, fmt::format("switch {} is lost: {}", name, why)));
}

void GroupTable::OnLinkDown(Nanos now, LinkEnd end, const std::function<bool(Nanos since)>& is_lost) {
  const LinkEnd there = topology_->Across(end);
  const LinkEnd link = std::min(end, there);
  FailWhere(
      now, [&](const Group& group) { return group.footprint.links.contains(link) && is_lost(group.placed); },
      SwitchFailure(ErrorCode::kLinkLost, topology_->nodes[end.node].name,
                    fmt::format("the link between {} and {} is lost: it has no carrier",
                                topology_->Describe(link), topology_->Describe(topology_->Across(link)))));
}

}  // namespace epic::manager
