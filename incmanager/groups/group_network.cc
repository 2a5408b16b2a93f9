// What becomes of groups with what they run over, and what those who watch over that ask of groups.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "incmanager/groups/group_table.h"

namespace epic::manager {

void GroupTable::OnNetwork(const std::vector<Forwarding>& tables) {
  forwarding_ = tables;
  qpns_.Grow(topology_->nodes.size());
}

std::vector<const std::vector<Way>*> GroupTable::Ways() const {
  std::vector<const std::vector<Way>*> ways;
  // What only goes elsewhere comes behind what ends by it.
  for (const auto kind : {&Footprint::ways, &Footprint::ways_of_hosts}) {
    for (const auto& [id, group] : groups_) {
      const std::vector<Way>& own = group.footprint.*kind;
      if (group.phase != GroupPhase::kFailed && !own.empty()) ways.push_back(&own);
    }
  }
  return ways;
}

void GroupTable::FailMoved(Nanos now) {
  std::vector<std::pair<Group*, Failure>> moved, misplaced;
  for (auto& [id, group] : groups_) {
    if (group.phase == GroupPhase::kFailed) continue;
    Failure failure =
        group.phase == GroupPhase::kJoining ? Failure{} : placer_.Misplaced(group, ErrorCode::kLinkLost);
    if (!failure.ok()) {
      misplaced.emplace_back(&group, std::move(failure));
      continue;
    }
    failure = placer_.Moved(group);
    if (!failure.ok()) moved.emplace_back(&group, std::move(failure));
  }
  // Neither way goes there.
  for (const auto& [group, failure] : misplaced) FailGroup(now, group, failure);
  for (const auto& [group, failure] : moved) FailOrRefuse(now, group, failure);
}

void GroupTable::FailWhere(Nanos now, const std::function<bool(const Group&)>& is_hit,
                           const Failure& failure) {
  std::vector<Group*> hit;
  for (auto& [id, group] : groups_) {
    if (group.phase != GroupPhase::kFailed && is_hit(group)) hit.push_back(&group);
  }
  for (Group* group : hit) FailOrRefuse(now, group, failure);
}

void GroupTable::FailOrRefuse(Nanos now, Group* group, const Failure& failure) {
  group->phase == GroupPhase::kInstalling ? RefuseNetwork(now, group, failure)
                                          : FailGroup(now, group, failure);
}

void GroupTable::OnContextsLost(Nanos now, NodeId node) {
  const std::string& name = topology_->nodes[node].name;
  const auto has_context = [node](const Group& group) {
    return std::ranges::find(group.plan.contexts, node, &ContextPlan::node) != group.plan.contexts.end();
  };
  FailWhere(now, has_context,
            SwitchFailure(ErrorCode::kSwitchLost, name,
                          fmt::format("switch {} lost its contexts: its engine started anew", name)));
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

const Group* GroupTable::FindRunning(uint64_t group_id, std::optional<uint32_t> generation) const {
  const auto found = groups_.find(group_id);
  if (found == groups_.end() || !IsInUse(found->second.phase)) return nullptr;
  return found->second.generation == generation.value_or(found->second.generation) ? &found->second : nullptr;
}

void GroupTable::FailRefused(Nanos now, uint64_t group_id, const Failure& failure) {
  const auto found = groups_.find(group_id);
  if (found != groups_.end()) FailGroup(now, &found->second, failure);
}

WatchedSwitches GroupTable::Watched() const {
  WatchedSwitches watched;
  for (const auto& [id, group] : groups_) {
    if (!IsInUse(group.phase)) continue;
    for (const NodeId node : group.footprint.switches) watched.try_emplace(node);
    for (const auto& [rank, member] : group.members) {
      if (!member.open || member.left) continue;
      watched[topology_->Attached(member.host).peer][member.host].push_back(member.session);
    }
  }
  return watched;
}

std::vector<uint64_t> GroupTable::GroupsOn(NodeId node) const {
  std::vector<uint64_t> ids;
  for (const auto& [id, group] : groups_) {
    if (group.removal_started) continue;
    for (const ContextPlan& context : group.plan.contexts) {
      if (context.node == node) ids.push_back(id);
    }
  }
  return ids;
}

}  // namespace epic::manager
