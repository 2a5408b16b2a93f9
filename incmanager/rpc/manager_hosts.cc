// What hosts' daemons say, and their ranks' sessions by them.
#include <fmt/format.h>

#include <algorithm>
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
  hosts_.OnHeard(now, host);
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
        return world_->EndHost(host, status);
      }
      refusals_.Forget(fmt::format("host {}", Shortened(info->name)));
      Note(fmt::format("host {}: registered, {}", hosts_.NameOf(host), InWords(*info)));
      proto::ToHost welcome;
      welcome.mutable_welcome();
      return world_->SendToHost(host, welcome);
    }
    case proto::FromHost::kSaid: {
      const proto::RankSaid& said = message.said();
      if (!hosts_.IsRegistered(host)) {
        return world_->EndHost(host, MakeStatus(StatusCode::kInvalidArgument, "a host says first who it is"));
      }
      const std::optional<SessionId> session = hosts_.FindSession(host, said.session());
      if (!said.has_message()) {
        if (!session) return;  // it has ended here already
        hosts_.RemoveSession(*session);
        return OnClosed(now, *session);
      }
      if (session) return OnMessage(now, *session, said.message());
      // What it said while its end was on its way to it.
      if (!said.message().has_join() && !said.message().has_rejoin()) return;
      const SessionId begun = NewSession();
      hosts_.AddSession(host, said.session(), begun);
      return OnMessage(now, begun, said.message());
    }
    case proto::FromHost::KIND_NOT_SET:
      return;
  }
}

void ManagerState::OnHostClosed(Nanos now, HostId host) {
  now_ = now;
  RemoveHost(now, host, "its host's daemon is gone");
}

void ManagerState::RemoveHost(Nanos now, HostId host, const std::string& why) {
  if (!hosts_.IsRegistered(host)) return;
  const std::string name = hosts_.NameOf(host);
  const std::vector<SessionId> gone = hosts_.Remove(host);
  const std::string line = fmt::format("host {}: lost, with {}: {}", name, Counted(gone.size(), "session", "sessions"), why);
  gone.empty() ? Note(line) : Warn(line);
  for (const SessionId session : gone) CloseSession(now, session, why);
}

void ManagerState::JudgeHosts(Nanos now) {
  for (const HostId host : hosts_.Silent(now)) {
    const std::string why = fmt::format("nothing heard of its host for {} s", kHostLostAfter / kSecond);
    RemoveHost(now, host, why);
    world_->EndHost(host, MakeStatus(StatusCode::kDeadlineExceeded, why));
  }
}

void ManagerState::Tell(SessionId session, const proto::ServerMessage& message, bool last) {
  const std::optional<HostTable::RankSession> by_host = hosts_.HostOf(session);
  if (!by_host) return world_->Send(session, message, last);
  // Its number stays until the daemon says that the rank's session has ended.
  world_->SendToHost(by_host->host, Told(by_host->number, message, last));
}

void ManagerState::TellAtOnce(SessionId session, const proto::ServerMessage& message, bool last) {
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
  }
  std::sort(reply.mutable_hosts()->begin(), reply.mutable_hosts()->end(),
            [](const auto& one, const auto& other) { return one.info().name() < other.info().name(); });
  return reply;
}

}  // namespace epic::manager
