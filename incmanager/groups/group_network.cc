// What becomes of groups with what they run over, and what those who watch over that ask of groups.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "incmanager/groups/group_life.h"

namespace epic::manager {
namespace {

bool HasContext(const GroupPlan& plan, NodeId node) {
  return std::ranges::find(plan.contexts, node, &ContextPlan::node) != plan.contexts.end();
}

// While it has a leg that it cannot do without.
bool UsesLeg(const Group& group) { return group.server.has_value() && !group.plan.contexts.empty(); }

}  // namespace

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
      if (group.phase == GroupPhase::kFailed) continue;
      if (!own.empty()) ways.push_back(&own);
      if (group.server && !(group.server->footprint.*kind).empty())
        ways.push_back(&(group.server->footprint.*kind));
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
  FailWhere(now, [this](const Group& group) { return placer_.Moved(group.footprint); });
  FailWhere(now, [this](const Group& group) {
    const Failure moved = UsesLeg(group) ? placer_.Moved(group.server->footprint) : Failure{};
    return moved.ok() ? moved : LegCut(group, moved.message);
  });
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
  FailWhere(now, [&](const Group& group) { return HasContext(group.plan, node) ? lost : Failure{}; });
}

void GroupLife::OnContexts(Nanos now, NodeId node, const ContextReports& contexts, Nanos as_of,
                           const std::string& by) {
  std::vector<std::pair<uint64_t, Failure>> hit;
  for (const uint64_t id : planned_at_[node]) {
    Group& group = groups_.at(id);
    const bool was_unsure = group.unsure.contains(node);
    // What it says may be of before it was asked for this context, unless it is older than this manager.
    const bool is_judged =
        IsInUse(group.phase) && !group.removal_started && (was_unsure || as_of > group.ran);
    if (is_judged) {
      if (Failure lost = ContextLost(group, node, contexts, by); !lost.ok()) hit.emplace_back(id, lost);
    }
    group.unsure.erase(node);
  }
  for (const auto& [id, failure] : hit) FailGroup(now, &groups_.at(id), failure);
}

void GroupLife::NoteContexts(const Group& group) {
  for (const ContextPlan& context : group.plan.contexts) planned_at_[context.node].insert(group.id);
}

Failure GroupLife::ContextLost(const Group& group, NodeId node, const ContextReports& contexts,
                               const std::string& by) const {
  const std::string& name = topology_->nodes[node].name;
  const auto lost = [&name](const std::string& what) {
    return SwitchFailure(ErrorCode::kSwitchLost, name, fmt::format("switch {} {}", name, what));
  };
  const auto found = contexts.find(group.id);
  const bool is_there =
      found != contexts.end() && found->second.generation.value_or(group.generation) == group.generation;
  if (!is_there && group.unsure.contains(node)) {
    return lost(
        "lost its contexts while the manager was away: its engine started anew, or another removed them");
  }
  if (!is_there) return lost("has no context of it any more, and its engine is the same: " + by);
  if (found->second.stopped) return lost("has stopped it: " + by);
  const LegEnd end = found->second.leg_end;
  if (end == LegEnd::kNone || !group.server) return {};
  const std::string said = fmt::format("switch {}: {}", name, found->second.leg_message);
  if (end != LegEnd::kMessage && end != LegEnd::kOverrun) return LegCut(group, said);
  return SwitchFailure(ErrorCode::kTransport, name,
                       fmt::format("{}; the server is {}", said, topology_->nodes[group.server->host].name));
}

bool GroupLife::Means(NodeId node, uint64_t group_id, uint32_t generation) const {
  const auto found = groups_.find(group_id);
  if (found == groups_.end() || found->second.generation != generation) return false;
  return HasContext(found->second.plan, node) || HasContext(found->second.refused, node);
}

void GroupLife::OnSwitchLost(Nanos now, NodeId node, const std::string& why) {
  const std::string& name = topology_->nodes[node].name;
  const Failure lost =
      SwitchFailure(ErrorCode::kSwitchLost, name, fmt::format("switch {} is lost: {}", name, why));
  FailWhere(now,
            [&](const Group& group) { return group.footprint.switches.contains(node) ? lost : Failure{}; });
  FailWhere(now, [&](const Group& group) {
    const bool crossed = UsesLeg(group) && group.server->footprint.switches.contains(node);
    return crossed ? LegCut(group, lost.message) : Failure{};
  });
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
  FailWhere(now, [&](const Group& group) {
    const bool crossed = UsesLeg(group) && group.server->footprint.links.contains(link);
    return crossed && is_lost(group.placed) ? LegCut(group, lost.message) : Failure{};
  });
}

const Group* GroupLife::FindRunning(uint64_t group_id, std::optional<uint32_t> generation) const {
  const auto found = groups_.find(group_id);
  if (found == groups_.end() || !IsInUse(found->second.phase)) return nullptr;
  return found->second.generation == generation.value_or(found->second.generation) ? &found->second : nullptr;
}

void GroupLife::FailWith(Nanos now, uint64_t group_id, const Failure& failure) {
  const auto found = groups_.find(group_id);
  if (found != groups_.end()) FailGroup(now, &found->second, failure);
}

WatchedSwitches GroupLife::Watched() const {
  WatchedSwitches watched;
  for (const auto& [id, group] : groups_) {
    if (!IsInUse(group.phase)) continue;
    for (const NodeId node : group.footprint.switches) watched.try_emplace(node);
    if (UsesLeg(group)) {
      for (const NodeId node : group.server->footprint.switches) watched.try_emplace(node);
    }
    for (const auto& [rank, member] : group.members) {
      if (!member.open || member.left) continue;
      watched[topology_->Attached(member.host).peer][member.host].push_back(member.session);
    }
  }
  return watched;
}

std::vector<uint64_t> GroupLife::GroupsOn(NodeId node) const {
  std::vector<uint64_t> ids;
  const auto planned = planned_at_.find(node);
  if (planned == planned_at_.end()) return ids;
  for (const uint64_t id : planned->second) {
    const Group& group = groups_.at(id);
    // One that is to be removed is, when its group's end is kept: by the manager's own call.
    if (!group.removal_started || group.removing.contains(node)) ids.push_back(id);
  }
  return ids;
}

}  // namespace epic::manager
