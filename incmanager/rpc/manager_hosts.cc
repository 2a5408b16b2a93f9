// What hosts' daemons say, and their ranks' sessions by them.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {

// session: its number at its host.
proto::ToHost Told(uint64_t session, const proto::ServerMessage& message, bool last) {
  proto::ToHost to_host;
  proto::RankTold& told = *to_host.mutable_told();
  told.set_session(session);
  *told.mutable_message() = message;
  told.set_last(last);
  return to_host;
}

}  // namespace

void ManagerState::OnHostMessage(Nanos now, HostId host, const proto::FromHost& message) {
  now_ = now;
  if (hosts_.OnHeard(now, host)) {
    Note(fmt::format("host {}: its daemon is heard again", hosts_.NameOf(host)));
    doubts_.EndOf(host);
  }
  switch (message.kind_case()) {
    case proto::FromHost::kInfo: {
      const StatusOr<HostInfo> info = FromProto(message.info());
      const Status status = info.ok() ? hosts_.Register(now, host, *info) : info.status();
      if (!status.ok()) {
        const std::string who = fmt::format("host {}", Shortened(message.info().name()));
        const std::string line = fmt::format("{}: refused: {}", who, std::string(status.message()));
        if (refusals_.IsNew(now, who, line)) Warn(line);
        // Its ranks go on by what it said before.
        if (hosts_.IsRegistered(host)) return;
        return world_->EndHostAtOnce(host, status);
      }
      refusals_.Forget(fmt::format("host {}", Shortened(info->name)));
      Note(fmt::format("host {}: registered, {}", hosts_.NameOf(host), InWords(*info)));
      std::set<Ipv4> addresses;
      for (const HostPort& port : info->ports) addresses.insert(port.ip);
      groups_.OnDaemonBack(now, doubts_.End(addresses));
      FollowLenders(now, lenders_.OnInfo(host, hosts_.NameOf(host), info->fallback));
      proto::ToHost welcome;
      welcome.mutable_welcome()->set_takes_servers(true);
      return world_->SendToHostAtOnce(host, welcome);
    }
    case proto::FromHost::kSaid: {
      const proto::RankSaid& said = message.said();
      if (!hosts_.IsRegistered(host)) {
        return world_->EndHostAtOnce(host,
                                     MakeStatus(StatusCode::kInvalidArgument, "a host says first who it is"));
      }
      const std::optional<SessionId> session = hosts_.FindSession(host, said.session());
      if (!said.has_message()) {
        if (!session) return;  // it has ended here already
        hosts_.RemoveSession(*session);
        return CloseSession(now, *session, "its session broke", hosts_.MayReturn(now, host));
      }
      if (session) return OnMessage(now, *session, said.message());
      // What it said while its end was on its way to it.
      if (!said.message().has_join() && !said.message().has_rejoin()) return;
      const SessionId begun = NewSession();
      hosts_.AddSession(host, said.session(), begun);
      return OnMessage(now, begun, said.message());
    }
    case proto::FromHost::kServerMade:
      return OnServerMade(now, host, message.server_made());
    case proto::FromHost::kServerEnded:
      return OnServerEnded(now, host, message.server_ended());
    case proto::FromHost::KIND_NOT_SET:
      return;
  }
}

void ManagerState::ForgetSession(SessionId id) {
  waiting_.erase(id);
  held_.Remove(id);
  ForgetReturning(id);
  peers_.erase(id);
  over_.erase(id);
  world_->OnCalls(id, nullptr);
}

void ManagerState::CloseSession(Nanos now, SessionId id, const std::string& why, bool daemon_stood_still) {
  // It may be the rank that could not reach the manager, or its daemon.
  const bool stood_still = now <= returns_until_ || StandsStill(now);
  const std::string since = daemon_stood_still ? "its host's daemon stood still" : "the manager was away";
  if (!(stood_still || daemon_stood_still) ||
      !groups_.OnSessionAway(now, id, GroupLife::kReturnsWithin, since))
    groups_.OnSessionClosed(now, id, why);
  ForgetSession(id);
}

void ManagerState::OnHostClosed(Nanos now, HostId host) {
  now_ = now;
  RemoveHost(now, host, "its host's daemon is gone");
}

// Its stream has ended: what its ranks do goes on, and they may come back.
void ManagerState::RemoveHost(Nanos now, HostId host, const std::string& why) {
  if (!hosts_.IsRegistered(host)) return;
  const std::string name = hosts_.NameOf(host);
  FollowLenders(now, lenders_.OnGone(now, host));
  std::set<Ipv4> ports;
  for (const HostPort& port : hosts_.hosts().at(host).info.ports) ports.insert(port.ip);
  // Of a daemon before this one, to which they had not come back yet.
  std::set<Ipv4> addresses = groups_.OnDaemonGone(now, ports);
  std::vector<SessionId> lost;
  size_t away = 0;
  for (const SessionId session : hosts_.Remove(host)) {
    const auto address =
        groups_.OnSessionAway(now, session, GroupLife::kBackWithin, "its host's daemon was gone");
    if (!address) {
      lost.push_back(session);
      continue;
    }
    ForgetSession(session);
    addresses.insert(*address);
    ++away;
  }
  if (!addresses.empty()) {
    const std::string ranks = away == 0 ? "its ranks" : Counted(away, "rank", "ranks");
    Warn(fmt::format("host {}: {}; {} may come back within {} s", name, why, ranks,
                     GroupLife::kBackWithin / kSecond));
    doubts_.Begin({.host = 0, .name = name, .addresses = addresses, .until = now + GroupLife::kBackWithin});
  }
  if (addresses.empty() || !lost.empty()) {
    const std::string line =
        fmt::format("host {}: lost, with {}: {}", name, Counted(lost.size(), "session", "sessions"), why);
    lost.empty() ? Note(line) : Warn(line);
  }
  for (const SessionId session : lost) CloseSession(now, session, why);
}

// It has stood still, or its host has: nothing ends by that alone.
void ManagerState::DoubtHost(Nanos now, HostId host) {
  const HostTable::Entry& entry = hosts_.hosts().at(host);
  HostDoubts::Doubt doubt{
      .host = host, .name = hosts_.NameOf(host), .addresses = {}, .until = now + GroupLife::kBackWithin};
  for (const HostPort& port : entry.info.ports) doubt.addresses.insert(port.ip);
  for (const auto& [number, session] : entry.sessions) {
    if (const auto address = groups_.AddressOf(session)) doubt.addresses.insert(*address);
  }
  Warn(fmt::format("host {}: nothing heard of its daemon for {} s; whether the host lives is being asked",
                   doubt.name, (now - entry.last_heard) / kSecond));
  doubts_.Begin(std::move(doubt));
}

void ManagerState::LoseHost(Nanos now, const HostDoubts::Doubt& doubt) {
  const std::string answers = doubt.lives ? "answers no more" : "does not answer";
  if (doubt.host == 0) {
    if (!doubt.lost) return;  // its ranks' own time is over
    const std::string why = fmt::format("its host's daemon is gone, and the host {}", answers);
    Warn(fmt::format("host {}: lost: {}", doubt.name, why));
    FollowLenders(now, lenders_.OnHostLost(doubt.addresses, why));
    return groups_.OnHostLost(now, doubt.addresses, why);
  }
  if (!hosts_.IsRegistered(doubt.host)) return;
  const auto silent_s = (now - hosts_.hosts().at(doubt.host).last_heard) / kSecond;
  const std::string why =
      doubt.lost ? fmt::format("nothing heard of its host for {} s, and it {}", silent_s, answers)
                 : fmt::format("nothing heard of its host's daemon for {} s", silent_s);
  FollowLenders(now, lenders_.OnHostLost(doubt.addresses, why));
  FollowLenders(now, lenders_.OnGone(now, doubt.host));
  const std::vector<SessionId> gone = hosts_.Remove(doubt.host);
  Warn(fmt::format("host {}: lost, with {}: {}", doubt.name, Counted(gone.size(), "session", "sessions"),
                   why));
  for (const SessionId session : gone) CloseSession(now, session, why);
  world_->EndHost(doubt.host, MakeStatus(StatusCode::kDeadlineExceeded, why));
}

void ManagerState::JudgeHosts(Nanos now) {
  const auto serves = [this](HostId host) { return lenders_.Serves(host); };
  for (const HostId host : hosts_.Silent(now, serves)) DoubtHost(now, host);
  for (const HostDoubts::Doubt& doubt : doubts_.TakeOver(now)) LoseHost(now, doubt);
  TickLenders(now);
  AskHosts(now);
}

void ManagerState::AskHosts(Nanos now) {
  for (const Ipv4 address : doubts_.Due(now)) {
    const std::optional<NodeId> host = topology_.FindHostByAddress(address);
    if (!host || topology_.Attached(*host).state == LinkState::kGone) {
      doubts_.OnNoSwitch(address);
      continue;
    }
    const NodeId at = topology_.Attached(*host).peer;
    const SwitchState state = switches_.entry(at).state;
    if (state != SwitchState::kUp) {
      state == SwitchState::kNeverSeen ? doubts_.OnNoSwitch(address) : doubts_.OnNoAnswer(address);
      continue;
    }
    const LinkEnd end = topology_.Across(topology_.AttachedEnd(*host));
    proto::ProbeRequest request = ProbeOf(topology_, at, topology_.nodes[at].hops[end.hop].port, *host);
    request.set_by_arp(true);
    world_->Probe(at, *host, request);
  }
}

void ManagerState::Tell(SessionId session, const proto::ServerMessage& message, bool last) {
  if (last) over_.insert(session);
  const std::optional<HostTable::RankSession> by_host = hosts_.HostOf(session);
  if (!by_host) return world_->Send(session, message, last);
  // Its number stays until the daemon says that the rank's session has ended.
  world_->SendToHost(by_host->host, Told(by_host->number, message, last));
}

void ManagerState::TellAtOnce(SessionId session, const proto::ServerMessage& message, bool last) {
  if (last) over_.insert(session);
  const std::optional<HostTable::RankSession> by_host = hosts_.HostOf(session);
  if (!by_host) return world_->SendAtOnce(session, message, last);
  world_->SendToHostAtOnce(by_host->host, Told(by_host->number, message, last));
}

proto::ListHostsReply ManagerState::ListHosts(Nanos now) const {
  proto::ListHostsReply reply;
  for (const auto& [id, entry] : hosts_.hosts()) {
    proto::HostState& state = *reply.add_hosts();
    *state.mutable_info() = ToProto(entry.info);
    state.set_sessions(static_cast<uint32_t>(entry.sessions.size()));
    state.set_last_heard_ms_ago((now - entry.last_heard) / kMillisecond);
    for (const Lenders::Lender& lender : lenders_.List()) {
      if (lender.host != id) continue;
      const std::optional<NodeId> node = topology_.FindHostByAddress(lender.ip);
      state.set_fallback_left_bytes(node ? groups_.lending().LeftOf(*node, lender.bytes) : lender.bytes);
      for (const ServedGroup& group : lender.served)
        *state.mutable_info()->mutable_fallback()->add_served() = ToProto(group);
      state.mutable_fallback_groups()->Assign(lender.groups.begin(), lender.groups.end());
    }
  }
  for (const HostDoubts::Doubt& doubt : doubts_.All()) {
    if (doubt.host != 0) continue;
    proto::HostState& state = *reply.add_hosts();
    state.mutable_info()->set_name(doubt.name);
    state.set_away(fmt::format("its daemon is away; the host {}",
                               doubt.lives ? "answers its switch" : "has not answered yet"));
  }
  std::sort(reply.mutable_hosts()->begin(), reply.mutable_hosts()->end(),
            [](const auto& one, const auto& other) { return one.info().name() < other.info().name(); });
  return reply;
}

}  // namespace epic::manager
