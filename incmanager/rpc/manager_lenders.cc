// Hosts that lend memory to groups, and the groups' servers on them (docs/PROTOCOL-CONTROL.md, section 7.5).
#include <fmt/format.h>

#include <utility>

#include "base/printable.h"
#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/manager_state.h"

namespace epic::manager {
namespace {

ErrorCode CodeOf(proto::ServerMade::Outcome outcome) {
  if (outcome == proto::ServerMade::OUTCOME_NO_MEMORY) return ErrorCode::kNoResource;
  return outcome == proto::ServerMade::OUTCOME_NO_WAY ? ErrorCode::kTransport : ErrorCode::kInternal;
}

}  // namespace

std::vector<LendingHost> ManagerState::List() const {
  std::vector<LendingHost> hosts;
  for (const Lenders::Lender& lender : lenders_.List()) {
    const std::optional<NodeId> node = topology_.FindHostByAddress(lender.ip);
    if (node) hosts.push_back({.host = *node, .all_bytes = lender.bytes, .port_is_up = lender.port_is_up});
  }
  return hosts;
}

void ManagerState::MakeServer(NodeId host, const ServerRequest& request) {
  const ServedGroup group{.id = request.group_id, .generation = request.generation};
  const auto daemon = lenders_.Ask(topology_.nodes[host].address, group, request.name);
  if (!daemon) {
    // Its answer must not come from within the question.
    unasked_.push_back({host, group});
    return;
  }
  proto::ToHost message;
  *message.mutable_make_server() = ToProto(request);
  world_->SendToHost(*daemon, message);
}

void ManagerState::RemoveServer(NodeId, uint64_t group_id, uint32_t generation) {
  DropServer({.id = group_id, .generation = generation});
}

void ManagerState::DropServer(const ServedGroup& group) {
  if (const std::optional<HostId> daemon = lenders_.Remove(group)) RemoveAt(*daemon, group);
}

void ManagerState::RemoveAt(HostId daemon, const ServedGroup& group) {
  proto::ToHost message;
  *message.mutable_remove_server()->mutable_group() = ToProto(group);
  world_->SendToHost(daemon, message);
}

void ManagerState::FollowLenders(Nanos now, const Lenders::Changes& changes) {
  for (const Lenders::Lost& lost : changes.lost) {
    const std::optional<NodeId> host = topology_.FindHostByAddress(lost.ip);
    if (host) groups_.OnServerEnded(now, *host, lost.group.id, lost.group.generation, lost.why);
  }
  for (const Lenders::Unwanted& unwanted : changes.unwanted) RemoveAt(unwanted.host, unwanted.group);
}

void ManagerState::TickLenders(Nanos now) {
  for (const auto& [host, group] : std::exchange(unasked_, {})) {
    const std::string why = fmt::format("host {} lends no more", topology_.nodes[host].name);
    groups_.OnServerMade(now, host, group.id, group.generation,
                         {.refused = {ErrorCode::kNoResource, why, -1, ""}});
  }
  FollowLenders(now, {.lost = lenders_.Tick(now), .unwanted = {}});
}

void ManagerState::OnServerMade(Nanos now, HostId daemon, const proto::ServerMade& made) {
  const ServedGroup group = FromProto(made.group());
  const bool serves = made.outcome() == proto::ServerMade::OUTCOME_SERVES;
  const std::optional<Ipv4> ip = lenders_.AddressOf(daemon);
  const Lenders::Answer answer = lenders_.OnMade(daemon, group, serves);
  // It may have been wanted when its host was asked.
  if (answer == Lenders::Answer::kUnwanted && serves) RemoveAt(daemon, group);
  if (answer != Lenders::Answer::kTaken) return;
  const std::optional<NodeId> host = topology_.FindHostByAddress(*ip);
  if (!host) return DropServer(group);
  ServerAnswer to_group{
      .refused = {}, .ip = Ipv4{made.ip()}, .qpn = made.qpn(), .super_frames = made.super_frames()};
  if (!serves) {
    to_group.refused = {CodeOf(made.outcome()),
                        fmt::format("host {} cannot be the group's fallback server: {}",
                                    topology_.nodes[*host].name, Printable(made.message())),
                        -1, ""};
  }
  groups_.OnServerMade(now, *host, group.id, group.generation, to_group);
}

void ManagerState::OnServerEnded(Nanos now, HostId daemon, const proto::ServerEnded& ended) {
  const auto lost = lenders_.OnEnded(daemon, FromProto(ended.group()), Printable(ended.field()),
                                     Printable(ended.message()));
  if (lost) FollowLenders(now, {.lost = {*lost}, .unwanted = {}});
}

void ManagerState::ResumeServer(Nanos now, const proto::StoredGroup& stored) {
  if (!stored.has_server() || stored.contexts().empty()) return;
  const Ipv4 ip{stored.contexts(0).config().server().remote_ip()};
  lenders_.Resume(ip, {stored.id(), stored.generation()}, stored.spec().name(), now + GroupLife::kBackWithin);
}

void ManagerState::OnResumed(Nanos now, const proto::StoredGroup& stored) {
  if (!stored.has_server()) return;
  const ServedGroup group{.id = stored.id(), .generation = stored.generation()};
  const std::optional<NodeId> host = topology_.FindHost(stored.server().host());
  if (!host || !groups_.MeansServer(*host, group.id, group.generation)) return DropServer(group);
  // Its network has been found so late.
  if (!lenders_.Has(group))
    groups_.OnServerEnded(now, *host, group.id, group.generation, "it has not come back");
}

}  // namespace epic::manager
