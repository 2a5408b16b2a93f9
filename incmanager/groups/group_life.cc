#include "incmanager/groups/group_life.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace epic::manager {
GroupLife::GroupLife(const Topology* topology, const SwitchTable* switches, GroupWorld* world,
                     const GroupOptions& options, uint64_t seed)
    : topology_(topology),
      switches_(switches),
      world_(world),
      options_(options),
      forwarding_(ComputeForwarding(*topology)),
      random_(seed),
      qpns_(topology->nodes.size()),
      addresses_(options_.multicast, seed),
      admission_(topology, &tenants_, options_.window_packets),
      placer_({*topology, *switches, forwarding_, load_, lending_, tenants_, options_}),
      // Ids must differ from those of a former manager, whose contexts may still be on switches.
      next_id_((random_() & 0xffffffff) << 20 | 1),
      // Not from random_: whether there has been a former manager changes no PSN.
      elsewhere_(seed ^ 0x9e3779b97f4a7c15) {}

Group* GroupLife::Live(const std::string& name) {
  const auto found = live_.find(name);
  return found == live_.end() ? nullptr : &groups_.at(found->second);
}

std::pair<Group*, Member*> GroupLife::OfSession(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {};
  Group& group = groups_.at(found->second);
  const auto is_its = [session](const auto& m) { return m.second.session == session; };
  return {&group, &std::ranges::find_if(group.members, is_its)->second};
}

Group GroupLife::NewGroup(const JoinRequest& join) const {
  Group group;
  group.phase = GroupPhase::kJoining;
  const auto reserved = reserved_.find(join.group);
  group.reserved = reserved != reserved_.end();
  group.path_asked_by = group.reserved ? "its operator" : fmt::format("rank {}", join.rank);
  if (group.reserved) {
    group.spec = reserved->second;
    return group;
  }
  group.spec = WithDefaults({.name = join.group,
                             .world_size = join.world_size,
                             .mode = join.mode,
                             .needs = join.needs,
                             .max_bytes = join.max_bytes,
                             .scale = join.scale,
                             .int8 = join.int8,
                             .path = join.path},
                            default_policy_);
  return group;
}

Group& GroupLife::Begin(Group group) {
  if (group.reserved) {
    group.generation = ++generations_[group.spec.name];
    begun_.insert(group.spec.name);
  }
  group.id = next_id_++;
  live_[group.spec.name] = group.id;
  return groups_.emplace(group.id, std::move(group)).first->second;
}

void GroupLife::OnJoin(Nanos now, SessionId session, const JoinRequest& join) {
  if (JoinsAgain(now, session, join)) return;
  Group* group = Live(join.group);
  Group first = group == nullptr ? NewGroup(join) : Group{};
  Failure failure = admission_.RefusesRank(group == nullptr ? first : *group, join);
  if (failure.ok()) failure = RefusesToWait(group == nullptr ? first : *group, join);
  if (!failure.ok()) {
    world_->NoteRefused(session, failure,
                        fmt::format("group {}: rank {} of {} refused: {}", join.group, join.rank,
                                    ToString(join.ip), failure.message));
    return world_->Refuse(session, failure);
  }
  if (group == nullptr) group = &Begin(std::move(first));
  const Nanos timeout =
      join.join_timeout_ms == 0 ? options_.join_timeout : join.join_timeout_ms * kMillisecond;
  Member member{.join = join,
                .host = *topology_->FindHostByAddress(join.ip),
                .session = session,
                .deadline = join.join_timeout_ms == UINT32_MAX ? kNever : now + timeout};
  if (group->members.empty()) group->next_waiting = now + kWaitingInterval;
  world_->Note(fmt::format("group {}: rank {} of {} joined from {} at {}", join.group, join.rank,
                           join.world_size, WhereIs(member), topology_->nodes[member.host].name));
  group->join_deadline = std::min(group->join_deadline, member.deadline);
  group->members.emplace(join.rank, std::move(member));
  sessions_[session] = group->id;
  CountWaiting(join.ip, 1);
  SetDue(group);
  if (group->members.size() == group->spec.world_size) Install(now, group);
}

void GroupLife::OnLeave(Nanos now, SessionId session, const Failure& refused) {
  const auto [group, member] = OfSession(session);
  if (group == nullptr || member->left || group->phase == GroupPhase::kFailed) return;
  const uint32_t rank = member->join.rank;
  if (group->phase == GroupPhase::kJoining) {
    world_->Send(session, LeftNote{});
    return OnSessionClosed(now, session);
  }
  if (group->phase == GroupPhase::kInstalling) {
    return FailGroup(
        now, group,
        RankFailure(ErrorCode::kAborted, rank, fmt::format("rank {} left before the group ran", rank)));
  }
  member->left = true;
  member->refused = refused;
  group->phase = GroupPhase::kLeaving;
  if (!std::ranges::all_of(group->members, [](const auto& m) { return m.second.left; })) return;
  if (keeps_) changed_.ids.insert(group->id);
  End(now, *group, HowAllLeft(*group));
  StartRemoval(now, group);
}

void GroupLife::OnAbort(Nanos now, SessionId session, const std::string& reason) {
  const auto [group, member] = OfSession(session);
  if (group == nullptr) return;
  const uint32_t rank = member->join.rank;
  FailGroup(now, group,
            RankFailure(ErrorCode::kAborted, rank,
                        fmt::format("rank {} on {} aborted: {}", rank, WhereIs(*member), reason)));
}

void GroupLife::OnMismatch(Nanos now, SessionId session, const std::string& how) {
  const auto [group, member] = OfSession(session);
  if (group == nullptr) return;
  FailGroup(now, group, {ErrorCode::kMismatch, how.empty() ? "the ranks' calls differ" : how, -1, ""});
}

void GroupLife::OnNotFinite(Nanos now, SessionId session, const std::string& how) {
  const auto [group, member] = OfSession(session);
  if (group == nullptr) return;
  if (group->spec.scale == 0) return OnAbort(now, session, how);
  const uint32_t rank = member->join.rank;
  FailGroup(now, group,
            RankFailure(ErrorCode::kNotFinite, rank,
                        how.empty() ? fmt::format("rank {} has an input that is not finite", rank) : how));
}

void GroupLife::OnWindow(SessionId session, const WindowInUse& window) {
  const auto [group, member] = OfSession(session);
  if (group == nullptr) return;
  const auto allowed = [most = group->window.window_messages](uint32_t messages) {
    return messages >= 1 && messages <= most;
  };
  if (IsInUse(group->phase) && group->window.start_messages != 0 && allowed(window.messages) &&
      allowed(window.before_messages))
    member->window = window;
}

std::optional<Ipv4> GroupLife::AddressOf(SessionId session) {
  const Member* const member = OfSession(session).second;
  if (member == nullptr) return std::nullopt;
  return member->join.ip;
}

void GroupLife::OnSessionClosed(Nanos now, SessionId session, const std::string& why) {
  const auto [group, member] = OfSession(session);
  if (group == nullptr) return;
  sessions_.erase(session);
  member->open = false;
  const uint32_t rank = member->join.rank;
  switch (group->phase) {
    case GroupPhase::kReserved:
      return;
    case GroupPhase::kJoining:
      world_->Note(fmt::format("group {}: rank {} went away while joining", group->spec.name, rank));
      if (group->members.size() == 1)
        End(now, *group,
            fmt::format("rank {} went away, the last of those that waited for the others", rank));
      CountWaiting(member->join.ip, -1);
      group->members.erase(rank);
      if (group->members.empty()) Forget(group->id);
      return;
    case GroupPhase::kInstalling:
    case GroupPhase::kRunning:
    case GroupPhase::kLeaving:
      // Also of one that has left: who has not had its last acknowledgement would wait for it for ever.
      return FailGroup(now, group, RankGone(*member, why));
    case GroupPhase::kFailed: {
      if (std::ranges::none_of(group->members, [](const auto& m) { return m.second.open; }))
        StartRemoval(now, group);
      return;
    }
  }
}

void GroupLife::FailGroup(Nanos now, Group* group, const Failure& failure) {
  if (group->phase == GroupPhase::kFailed || group->removal_started) return;
  End(now, *group, fmt::format("failed: {}", failure.message), failure);
  const bool in_use = IsInUse(group->phase);
  if (group->phase == GroupPhase::kJoining) CountWaiting(*group, -1);
  if (in_use && keeps_) changed_.ids.insert(group->id);
  group->phase = GroupPhase::kFailed;
  group->server_due = kNever;
  group->failure = failure;
  group->remove_at = now + options_.linger;
  SetDue(group);
  live_.erase(group->spec.name);
  if (group->multicast) ++multicast_changes_;
  bool open = false;
  for (const auto& [rank, member] : group->members) {
    if (!member.open) continue;
    open = true;
    world_->Send(member.session, failure);
  }
  if (in_use) {
    for (const ContextPlan& context : group->plan.contexts)
      world_->Fail(context.node, group->id, group->generation);
  }
  if (!in_use || !open) StartRemoval(now, group);
}

void GroupLife::StartRemoval(Nanos now, Group* group) {
  ++endings_;
  group->remove_at = kNever;
  if (group->removal_started) return;
  group->removal_started = true;
  if (group->multicast) ++multicast_changes_;
  for (const ContextPlan& context : group->plan.contexts) group->removing.insert(context.node);
  for (const ContextPlan& context : group->plan.contexts)
    world_->Remove(context.node, group->id, group->generation);
  FinishIfRemoved(now, group);
}

void GroupLife::OnRemoved(Nanos now, NodeId node, uint64_t group_id) {
  const auto found = groups_.find(group_id);
  if (found == groups_.end()) return;
  Group& group = found->second;
  // A group has contexts or it goes by the hosts, so that the answer can be to one removal only.
  if (group.removing.erase(node) + group.removing_refused.erase(node) == 0) return;
  if (group.removing_refused.empty() && !group.refused.contexts.empty())
    GiveBack(now, std::exchange(group.refused, {}), &group);
  FinishIfRemoved(now, &group);
}

void GroupLife::FinishIfRemoved(Nanos now, Group* group) {
  if (!group->removal_started || !group->removing.empty() || !group->removing_refused.empty()) return;
  GiveBack(now, group->plan, group);
  if (group->multicast) addresses_.GiveBack(group->multicast->address, now);
  world_->Note(fmt::format("group {}: removed", group->spec.name));
  for (const auto& [rank, member] : group->members) {
    if (member.open && group->phase == GroupPhase::kLeaving) world_->Send(member.session, LeftNote{});
  }
  Forget(group->id);
}

void GroupLife::GiveBack(Nanos now, const GroupPlan& plan, Group* group) {
  ReleasePlan(plan, now, &qpns_);
  if (group->allocation) load_.Undo(*group->allocation);
  group->allocation.reset();
  GiveBackServer(group);
}

void GroupLife::Forget(uint64_t id) {
  const Group& group = groups_.at(id);
  due_.erase({group.due, id});
  for (const auto& [rank, member] : group.members) sessions_.erase(member.session);
  for (const ContextPlan& context : group.plan.contexts) planned_at_[context.node].erase(id);
  const auto live = live_.find(group.spec.name);
  if (live != live_.end() && live->second == id) live_.erase(live);
  groups_.erase(id);
}

}  // namespace epic::manager
