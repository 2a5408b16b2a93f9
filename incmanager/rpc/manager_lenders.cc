// Hosts that lend memory to groups, and the groups' servers on them (docs/PROTOCOL-CONTROL.md, section 7.5).
#include "base/printable.h"
#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/manager_state.h"

namespace epic::manager {

void ManagerState::FollowLenders(Nanos now, const Lenders::Changes& changes) {
  for (const Lenders::Lost& lost : changes.lost) {
    if (groups_.FindRunning(lost.group.id, lost.group.generation) == nullptr) continue;
    groups_.FailWith(now, lost.group.id, {.code = ErrorCode::kFallbackLost, .message = lost.why});
  }
  for (const Lenders::Unwanted& unwanted : changes.unwanted) RemoveServer(unwanted.host, unwanted.group);
}

void ManagerState::OnServerMade(HostId host, const proto::ServerMade& made) {
  const ServedGroup group = FromProto(made.group());
  const bool serves = made.outcome() == proto::ServerMade::OUTCOME_SERVES;
  // It may have been wanted when its host was asked.
  if (lenders_.OnMade(host, group, serves) == Lenders::Answer::kUnwanted && serves) RemoveServer(host, group);
}

void ManagerState::OnServerEnded(Nanos now, HostId host, const proto::ServerEnded& ended) {
  const auto lost =
      lenders_.OnEnded(host, FromProto(ended.group()), Printable(ended.field()), Printable(ended.message()));
  if (lost) FollowLenders(now, {.lost = {*lost}, .unwanted = {}});
}

void ManagerState::RemoveServer(HostId host, const ServedGroup& group) {
  proto::ToHost message;
  *message.mutable_remove_server()->mutable_group() = ToProto(group);
  world_->SendToHost(host, message);
}

}  // namespace epic::manager
