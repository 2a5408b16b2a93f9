// Groups that outlive their manager, and ranks that come back to them (docs/PROTOCOL-CONTROL.md, section 15).
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "incmanager/groups/group_life.h"

namespace epic::manager {
namespace {

// The QPNs of a context, and whom each is for as of TakeBorne.
std::pair<std::vector<uint32_t>, std::vector<Ipv4>> QpnsOf(const ContextPlan& context) {
  std::pair<std::vector<uint32_t>, std::vector<Ipv4>> out;
  out.first = LocalQpnsOf(context);
  if (context.parent) out.second.emplace_back();
  for (const EndpointPlan& child : context.children)
    out.second.push_back(child.is_host ? child.remote_ip : Ipv4{});
  if (context.server) out.second.emplace_back();
  return out;
}

}  // namespace

void GroupLife::ResumeGroup(Nanos now, Group group) {
  const auto ends = [&](const std::string& why) { EndResumed(now, group, why); };
  if (live_.contains(group.spec.name)) return ends("another group of this name runs");
  for (size_t i = 0; i < group.plan.contexts.size(); ++i) {
    const NodeId node = group.plan.contexts[i].node;
    const auto [qpns, remotes] = QpnsOf(group.plan.contexts[i]);
    if (qpns_.Adopt(node, qpns, remotes)) continue;
    group.plan.contexts.resize(i);
    ReleasePlan(group.plan, now, &qpns_);
    return ends(fmt::format("another group has its QPNs on {}", topology_->nodes[node].name));
  }
  if (group.multicast && !addresses_.Adopt(group.multicast->address)) group.multicast.reset();
  group.phase = GroupPhase::kRunning;
  group.reserved = reserved_.contains(group.spec.name);
  LivedAtLeast(group.spec.name, group.generation);
  group.placed = now;
  for (const ContextPlan& context : group.plan.contexts) group.unsure.insert(context.node);
  for (auto& [rank, member] : group.members) {
    member.open = false;
    member.away = member.returned = true;
    member.away_from = now;
    member.away_since = "the manager was away";
    member.away_with_manager = true;
    member.back_by = now + kBackWithin;
  }
  if (group.allocation) load_.Apply(*group.allocation);
  if (group.server) lending_.Take(group.server->host, group.server->bytes);
  if (group.multicast) ++multicast_changes_;
  live_[group.spec.name] = group.id;
  NoteContexts(group);
  const uint64_t id = group.id;
  SetDue(&groups_.emplace(id, std::move(group)).first->second);
}

void GroupLife::ResumeEnd(GroupEnd end) {
  LivedAtLeast(end.name, end.generation);
  ends_.Add(std::move(end));
}

// That it has begun is kept a little later than that it runs.
void GroupLife::LivedAtLeast(const std::string& name, uint32_t lives) {
  const auto found = generations_.find(name);
  if (!reserved_.contains(name) || (found != generations_.end() && found->second >= lives)) return;
  generations_[name] = lives;
  begun_.insert(name);
}

void GroupLife::EndResumed(Nanos now, const Group& group, const std::string& why) {
  Group ended = group;
  ended.phase = GroupPhase::kRunning;
  for (auto& [rank, member] : ended.members) member.away = true;
  const Failure failure{
      ErrorCode::kManagerLost,
      fmt::format("group {} could not go on when its manager was started again: {}", group.spec.name, why),
      -1, ""};
  changed_.ids.insert(group.id);
  End(now, ended, fmt::format("failed: {}", failure.message), failure);
}

const Group* GroupLife::FindKept(uint64_t group_id) const {
  const Group* const group = FindRunning(group_id);
  if (group == nullptr || group->removal_started) return nullptr;
  // One rank that cannot come back would end it.
  const auto stays_away = [](const auto& member) { return member.second.secret.empty(); };
  return std::ranges::any_of(group->members, stays_away) ? nullptr : group;
}

std::optional<Ipv4> GroupLife::OnSessionAway(Nanos now, SessionId session, Nanos within,
                                             const std::string& since) {
  const auto [group, member] = OfSession(session);
  if (group == nullptr || !IsInUse(group->phase) || group->removal_started || member->secret.empty())
    return std::nullopt;
  sessions_.erase(session);
  member->open = false;
  member->away = member->returned = true;
  member->away_from = now;
  member->away_since = since;
  member->back_by = now + within;
  SetDue(group);
  return member->join.ip;
}

void GroupLife::OnDaemonBack(Nanos now, const std::set<Ipv4>& host) {
  for (auto& [id, group] : groups_) {
    if (!IsInUse(group.phase)) continue;
    for (auto& [rank, member] : group.members) {
      if (member.away && host.contains(member.join.ip))
        member.back_by = std::min(member.back_by, now + kBackWithDaemon);
    }
    SetDue(&group);
  }
}

std::set<Ipv4> GroupLife::OnDaemonGone(Nanos now, const std::set<Ipv4>& host) {
  std::set<Ipv4> away;
  for (auto& [id, group] : groups_) {
    if (!IsInUse(group.phase)) continue;
    for (auto& [rank, member] : group.members) {
      if (!member.away || !host.contains(member.join.ip)) continue;
      member.back_by = now + kBackWithin;
      away.insert(member.join.ip);
    }
    SetDue(&group);
  }
  return away;
}

void GroupLife::OnHostLost(Nanos now, const std::set<Ipv4>& host, const std::string& why) {
  FailWhere(
      now,
      [&](const Group& group) {
        for (const auto& [rank, member] : group.members) {
          if (member.away && host.contains(member.join.ip)) return RankGone(member, why);
        }
        return Failure{};
      },
      /*goes_round=*/false);
}

Nanos GroupLife::BackBy(const Group& group) {
  Nanos first = kNever;
  for (const auto& [rank, member] : group.members) first = std::min(first, member.back_by);
  return first;
}

void GroupLife::FailAway(Nanos now, Group* group) {
  for (const auto& [rank, member] : group->members) {
    if (!member.away || now < member.back_by) continue;
    return FailGroup(
        now, group,
        RankFailure(
            ErrorCode::kRankLost, rank,
            fmt::format("rank {} on {} is gone: it has not come back since {}, and that is {} s ago", rank,
                        member.join.host_name, member.away_since, (now - member.away_from) / kSecond)));
  }
  SetDue(group);
}

void GroupLife::OnRejoin(Nanos now, SessionId session, const RejoinRequest& rejoin) {
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    const Failure failure = RankFailure(code, rejoin.rank, fmt::format("group {}: {}", rejoin.group, why));
    world_->NoteRefused(
        session, failure,
        fmt::format("group {}: rank {} that comes back refused: {}", rejoin.group, rejoin.rank, why));
    world_->Refuse(session, failure);
  };
  const auto found = groups_.find(rejoin.group_id);
  const GroupEnd* const end = EndOf(rejoin.group);
  const auto is_it = [&rejoin](const auto& life) {
    return life.id == rejoin.group_id && life.generation == rejoin.generation;
  };
  if (found == groups_.end()) {
    if (end == nullptr || !is_it(*end))
      return refuse(ErrorCode::kManagerLost, "the manager knows nothing of this life of it");
    return end->failure.ok() ? world_->Send(session, LeftNote{}) : TellEnd(session, end->failure);
  }
  Group& group = found->second;
  if (group.phase == GroupPhase::kFailed) {
    if (group.spec.name != rejoin.group || !is_it(group))
      return refuse(ErrorCode::kManagerLost, "the manager knows nothing of this life of it");
    return TellEnd(session, group.failure);
  }
  const auto at = group.members.find(rejoin.rank);
  if (group.spec.name != rejoin.group || group.generation != rejoin.generation || at == group.members.end() ||
      !IsInUse(group.phase))
    return refuse(ErrorCode::kInvalidArgument, "it has no such rank to come back");
  Member& member = at->second;
  if (member.secret.empty() || member.secret != rejoin.secret)
    return refuse(ErrorCode::kInvalidArgument,
                  fmt::format("who comes back as rank {} is not that rank", rejoin.rank));
  TakeBack(now, &group, &member, session);
  world_->Send(session, RejoinedNote{});
  TellEndsOfOthers(group, rejoin.rank);
}

// It is known: without that its library would take some errors for those of a manager that does not know it.
void GroupLife::TellEnd(SessionId session, const Failure& failure) {
  world_->Send(session, RejoinedNote{});
  world_->Send(session, failure);
}

// What it says is what it said before, its nonce too. A process number, an address and a QPN would not do:
// another process may come to have them.
bool GroupLife::JoinsAgain(Nanos now, SessionId session, const JoinRequest& join) {
  if (join.nonce == 0) return false;
  if (const GroupEnd* const end = EndOf(join.group); end != nullptr && end->untold.contains(join.nonce)) {
    world_->Send(session, end->failure);
    return true;
  }
  Group* const group = Live(join.group);
  if (group == nullptr || !IsInUse(group->phase)) return false;
  const auto at = group->members.find(join.rank);
  if (at == group->members.end() || !at->second.away || at->second.join != join) return false;
  TakeBack(now, group, &at->second, session);
  TellJoined(*group, at->second);
  TellEndsOfOthers(*group, join.rank);
  return true;
}

void GroupLife::TakeBack(Nanos now, Group* group, Member* member, SessionId session) {
  if (member->open) sessions_.erase(member->session);
  member->session = session;
  member->open = member->returned = true;
  const bool was_away = std::exchange(member->away, false);
  member->away_with_manager = false;
  member->back_by = kNever;
  sessions_[session] = group->id;
  if (!was_away) return;
  bool all = true;
  for (auto& [rank, other] : group->members) {
    if (!other.away) continue;
    all = false;
    if (other.away_with_manager) other.back_by = std::min(other.back_by, now + kOthersBackWithin);
  }
  SetDue(group);
  if (all) world_->Note(fmt::format("group {}: all its ranks are back", group->spec.name));
}

// What they have said meanwhile, or before.
void GroupLife::TellEndsOfOthers(const Group& group, uint32_t of) {
  for (const auto& [rank, other] : group.members) {
    for (const auto& [to, end] : other.ends) {
      if (end.rank != of) continue;
      PeerEnd first = end;
      first.ready = false;
      PassOn(group, other, first);
      if (end.ready) PassOn(group, other, end);
    }
  }
}

}  // namespace epic::manager
