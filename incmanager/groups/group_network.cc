// What becomes of groups with what they run over, and what those who watch over that ask of groups.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "incmanager/groups/group_life.h"

namespace epic::manager {

void GroupLife::OnNetwork(const std::vector<Forwarding>& tables) {
  forwarding_ = tables;
  qpns_.Grow(topology_->nodes.size());
}

std::vector<const std::vector<Way>*> GroupLife::Ways() const {
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

void GroupLife::FailWhere(Nanos now, const std::function<Failure(const Group&)>& why, bool goes_round) {
  std::vector<std::pair<Group*, Failure>> hit;
  for (auto& [id, group] : groups_) {
    if (group.phase == GroupPhase::kFailed) continue;
    if (Failure failure = why(group); !failure.ok()) hit.emplace_back(&group, std::move(failure));
  }
  for (const auto& [group, failure] : hit)
    goes_round ? FailOrRefuse(now, group, failure) : FailGroup(now, group, failure);
}

void GroupLife::FailMoved(Nanos now) {
  const auto misplaced = [this](const Group& group) {
    return group.phase == GroupPhase::kJoining ? Failure{} : placer_.Misplaced(group, ErrorCode::kLinkLost);
  };
  FailWhere(now, misplaced, /*goes_round=*/false);
  FailWhere(now, [this](const Group& group) { return placer_.Moved(group); });
}

void GroupLife::FailOrRefuse(Nanos now, Group* group, const Failure& failure) {
  group->phase == GroupPhase::kInstalling ? RefuseNetwork(now, group, failure)
                                          : FailGroup(now, group, failure);
}

void GroupLife::OnContextsLost(Nanos now, NodeId node) {
  const std::string& name = topology_->nodes[node].name;
  const Failure lost =
      SwitchFailure(ErrorCode::kSwitchLost, name,
                    fmt::format("switch {} lost its contexts: its engine started anew", name));
  FailWhere(now, [&](const Group& group) {
    const auto& contexts = group.plan.contexts;
    return std::ranges::find(contexts, node, &ContextPlan::node) == contexts.end() ? Failure{} : lost;
  });
}

void GroupLife::OnSwitchLost(Nanos now, NodeId node, const std::string& why) {
  const std::string& name = topology_->nodes[node].name;
  const Failure lost =
      SwitchFailure(ErrorCode::kSwitchLost, name, fmt::format("switch {} is lost: {}", name, why));
  FailWhere(now,
            [&](const Group& group) { return group.footprint.switches.contains(node) ? lost : Failure{}; });
}

void GroupLife::OnLinkDown(Nanos now, LinkEnd end, const std::function<bool(Nanos since)>& is_lost) {
  const LinkEnd link = std::min(end, topology_->Across(end));
  const Failure lost =
      SwitchFailure(ErrorCode::kLinkLost, topology_->nodes[end.node].name,
                    fmt::format("the link between {} and {} is lost: it has no carrier",
                                topology_->Describe(link), topology_->Describe(topology_->Across(link))));
  FailWhere(now, [&](const Group& group) {
    return group.footprint.links.contains(link) && is_lost(group.placed) ? lost : Failure{};
  });
}

const Group* GroupLife::FindRunning(uint64_t group_id, std::optional<uint32_t> generation) const {
  const auto found = groups_.find(group_id);
  if (found == groups_.end() || !IsInUse(found->second.phase)) return nullptr;
  return found->second.generation == generation.value_or(found->second.generation) ? &found->second : nullptr;
}

void GroupLife::FailRefused(Nanos now, uint64_t group_id, const Failure& failure) {
  const auto found = groups_.find(group_id);
  if (found != groups_.end()) FailGroup(now, &found->second, failure);
}

WatchedSwitches GroupLife::Watched() const {
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

std::vector<uint64_t> GroupLife::GroupsOn(NodeId node) const {
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
