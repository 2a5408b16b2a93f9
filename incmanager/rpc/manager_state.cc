#include "incmanager/rpc/manager_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/address.h"
#include "base/system_random.h"
#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/convert_policy.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {

constexpr uint32_t kHeartbeatMs = 1000;
constexpr size_t kSecretBytes = 16;
// So long it must have stood still before ranks, which ask for a sign of life, break their streams; they are heard to have
// within the other.
constexpr Nanos kStreamsBreak = 4 * kSecond;
constexpr Nanos kHeardToBreakIn = 2 * kSecond;

std::string Message(const Status& status) { return {status.message().data(), status.message().size()}; }

}  // namespace

ManagerState::ManagerState(Topology topology, const GroupOptions& options, uint64_t epoch, uint64_t seed,
                           ManagerWorld* world, const LinkDefaults& defaults)
    : graph_(std::move(topology), defaults),
      topology_(graph_.topology()),
      epoch_(epoch),
      world_(world),
      switches_(&topology_),
      groups_(&topology_, &switches_, this, options, seed),
      watch_(&topology_, &switches_),
      engines_(topology_.nodes.size()),
      update_(&topology_),
      max_waiting_(options.max_waiting),
      refusal_rate_(options.refusals_a_second) {
  groups_.UseLendingHosts(this);
  groups_.GiveSecrets([] { return SystemRandomBytes(kSecretBytes); });
  if (!graph_.discovers()) ComputeTables(0);
}

void ManagerState::Tick(Nanos now) {
  now_ = now;
  if (watch_.IsDue(now)) {
    for (const HealthWatch::Ask& ask : watch_.Due(now, groups_.Watched())) Probe(ask);
  }
  if (StandsStill(now)) returns_until_ = now + kHeardToBreakIn;
  const bool is_first = ticked_at_ == 0;
  const Nanos passed = now - std::exchange(ticked_at_, now);
  if (const Nanos stood = is_first ? 0 : standstill_.Excuse(passed); stood > 0) {
    lenders_.OnStoodStill(stood);
    groups_.OnStoodStill(stood);
  }
  if (standstill_.MayJudge(now, passed)) {
    Judge(now);
    JudgeHosts(now);
  }
  groups_.Tick(now);
  LookForHosts(now);
  FollowGraph(now);
  if (!IsSettling(now)) Settle(now);
}

void ManagerState::Judge(Nanos now) {
  for (const NodeId node : topology_.switches) {
    const Verdict verdict = watch_.VerdictOf(now, node);
    if (!switches_.OnVerdict(node, verdict)) continue;
    const std::string& name = topology_.nodes[node].name;
    if (verdict == Verdict::kSwitchLost) {
      const std::string why =
          fmt::format("its agent is silent, and {} no echo from it", WhoMisses(now, node));
      Warn(fmt::format("switch {}: lost: {}", name, why));
      update_.OnGone(node);
      graph_.SetPasses(node, false);
      groups_.OnSwitchLost(now, node, why);
    } else {
      update_.OnUnreachable(node);
      Warn(fmt::format("switch {}: agent lost: nothing heard for {} s; its groups go on", name,
                       kAgentLostAfter / kSecond));
    }
  }
  for (const LinkEnd& end : watch_.DownLinks()) {
    groups_.OnLinkDown(now, end, [&](Nanos since) { return watch_.IsLinkLost(now, end, since); });
  }
}

void ManagerState::Probe(const HealthWatch::Ask& ask) {
  const Node& about = topology_.nodes[ask.about];
  if (ask.witness.is_rank) {
    proto::ServerMessage message;
    message.mutable_probe()->set_ip(Raw(about.address));
    return TellAtOnce(ask.witness.id, message, false);
  }
  const auto witness = static_cast<NodeId>(ask.witness.id);
  // Of parallel links one that has a carrier.
  const auto& down = switches_.entry(witness).down_since;
  const std::string* port = nullptr;
  for (const Hop& hop : topology_.nodes[witness].hops) {
    if (hop.peer != ask.about || hop.state == LinkState::kGone) continue;
    if (port == nullptr || down.contains(*port)) port = &hop.port;
  }
  if (port == nullptr) return watch_.OnNoAnswer(ask.about, ask.witness);
  world_->Probe(witness, ask.about, ProbeOf(topology_, witness, *port, ask.about));
}

// "root and h0 have" or "h0 has".
std::string ManagerState::WhoMisses(Nanos now, NodeId node) const {
  std::vector<std::string> names;
  for (const NodeId at : watch_.WhoMisses(now, node)) names.push_back(topology_.nodes[at].name);
  return fmt::format("{} {}", fmt::join(names, " and "), names.size() == 1 ? "has" : "have");
}

void ManagerState::OnProbed(Nanos now, NodeId witness, NodeId about, Ipv4 asked,
                            const StatusOr<proto::ProbeReply>& reply) {
  // It says nothing of who has another address by now.
  const bool counts = reply.ok() && topology_.nodes[about].address == asked;
  if (!topology_.IsSwitch(about))
    return counts ? doubts_.OnAnswer(asked, reply->asked(), reply->answered()) : doubts_.OnNoAnswer(asked);
  if (!counts) return watch_.OnNoAnswer(about, {false, witness});
  watch_.OnAnswer(now, about, {false, witness}, reply->asked(), reply->answered());
}

void ManagerState::Apply(Nanos now, NodeId node, const SwitchChange& change) {
  const std::string& name = topology_.nodes[node].name;
  if (change.contexts_lost) {
    Warn(fmt::format("switch {}: engine started anew", name));
    groups_.OnContextsLost(now, node);
  }
  if (change.engine_down) {
    Warn(fmt::format("switch {}: engine stopped", name));
    groups_.OnSwitchLost(now, node, "its engine has stopped");
  }
  if (change.engine_down || change.new_engine) update_.OnGone(node);
  if (change.new_engine) tables_.Forget(node);
  if (change.engine_down) graph_.SetPasses(node, false);
  if (change.set_forwarding) update_.OnReady(node, change.new_engine);
}

StatusOr<proto::RegisterReply> ManagerState::Register(Nanos now, const proto::RegisterRequest& request,
                                                       const std::string& peer) {
  now_ = now;
  if (const auto address = CallableAddress(request.agent_address()); !address.ok())
    return MakeStatus(StatusCode::kInvalidArgument, Printable("agent_address: " + Message(address.status())));
  const EngineReport report = FromProto(request.engine());
  const std::string who =
      fmt::format("switch {}: agent at {}", Shortened(request.name()), Shortened(request.agent_address()));
  const StatusOr<SwitchChange> change = TakeIn(now, request, report, peer);
  if (!change.ok()) {
    const std::string line = fmt::format("{} refused: {}", who, Message(change.status()));
    if (refusals_.IsNew(now, who, line)) Warn(line);
    return change.status();
  }
  const NodeId node = *topology_.FindSwitch(request.name());
  Note(fmt::format("switch {}: agent registered at {}, engine {}", request.name(), request.agent_address(),
                   request.engine().version()));
  refusals_.Forget(who);
  world_->SetAgent(node, request.agent_address());
  engines_[node] = request.engine();
  Apply(now, node, *change);
  graph_.SetPasses(node, true);
  graph_.OnReport(now, node, report);
  FollowRegistered(now, node, request.engine());
  FollowGraph(now);
  proto::RegisterReply reply;
  reply.set_time(static_cast<uint64_t>(now));
  reply.set_epoch(EpochOf(node));
  reply.set_heartbeat_ms(kHeartbeatMs);
  SignReply(request, &reply);
  for (const uint64_t id : groups_.GroupsOn(node)) reply.add_keep_group_ids(id);
  for (const proto::StoredGroup& group : unfound_) reply.add_keep_group_ids(group.id());
  return reply;
}

StatusOr<proto::HeartbeatReply> ManagerState::Heartbeat(Nanos now, const proto::HeartbeatRequest& request) {
  now_ = now;
  proto::HeartbeatReply reply;
  // Of a former manager, or from before another agent took this one's place: the switch is to be called where its agent is.
  const std::optional<NodeId> known = topology_.FindSwitch(request.name());
  // The same of an agent that somebody else has registered anew at its own address.
  const bool other = known && request.instance() != switches_.entry(*known).instance;
  if (request.epoch() != (known ? EpochOf(*known) : epoch_) || other || AwaitsAdoption(request)) {
    reply.set_register_again(true);
    return reply;
  }
  EngineReport report = FromProto(request.engine());
  report.repeated = request.engine_slow();
  const StatusOr<SwitchChange> change =
      switches_.Heartbeat(now, request.name(), request.engine_up() ? &report : nullptr);
  if (!change.ok()) return change.status();
  reply.set_time(static_cast<uint64_t>(now));
  reply.set_register_again(change->register_again);
  if (change->register_again) return reply;
  const NodeId node = *topology_.FindSwitch(request.name());
  Apply(now, node, *change);
  if (request.engine_up()) {
    engines_[node] = request.engine();
    graph_.SetPasses(node, true);
    graph_.OnReport(now, node, report);
    FollowRefused(now, node, report);
    FollowEngine(now, node, request);
  }
  FollowGraph(now);
  return reply;
}

void ManagerState::OnMessage(Nanos now, SessionId id, const proto::ClientMessage& message) {
  now_ = now;
  if (HoldsBack(id, message)) return;
  switch (message.kind_case()) {
    case proto::ClientMessage::kJoin:
      if (groups_.HasSession(id) || waiting_.contains(id) || held_.Contains(id)) {
        return Refuse(id, Failure{ErrorCode::kInvalidArgument, "a session joins one group only", -1, ""});
      }
      return OnJoin(now, id, FromProto(message.join()));
    case proto::ClientMessage::kRejoin:
      return over_.contains(id) ? void() : OnRejoin(now, id, message.rejoin());
    case proto::ClientMessage::kLeave:
      if (waiting_.erase(id) != 0 || held_.Remove(id)) return TellAtOnce(id, ToProto(LeftNote{}), true);
      return groups_.OnLeave(now, id, RefusedOf(message.leave()));
    case proto::ClientMessage::kAbort: {
      if (waiting_.erase(id) != 0 || held_.Remove(id)) return;
      const std::string reason = Printable(message.abort().reason(), kMaxSaidBytes);
      if (message.abort().mismatch()) return groups_.OnMismatch(now, id, reason);
      return message.abort().not_finite() ? groups_.OnNotFinite(now, id, reason)
                                          : groups_.OnAbort(now, id, reason);
    }
    case proto::ClientMessage::kProbed: {
      const proto::Probed& probed = message.probed();
      const std::optional<NodeId> about = topology_.FindSwitchByAddress(Ipv4{probed.ip()});
      if (about) watch_.OnAnswer(now, *about, {true, id}, probed.asked(), probed.answered());
      return;
    }
    case proto::ClientMessage::kWindow:
      return groups_.OnWindow(id, FromProto(message.window()));
    case proto::ClientMessage::kDatagrams:
      return groups_.OnDatagrams(id, FromProto(message.datagrams()));
    case proto::ClientMessage::kPeer:
      return groups_.OnPeer(now, id, FromProto(message.peer()));
    case proto::ClientMessage::kCalls:
      return world_->OnCalls(id, &message.calls());
    case proto::ClientMessage::KIND_NOT_SET:
      return Refuse(
          id, Failure{ErrorCode::kInvalidArgument,
                      "a message is join, rejoin, leave, abort, probed, window, datagrams, peer or calls", -1,
                      ""});
  }
}

void ManagerState::OnClosed(Nanos now, SessionId id) {
  now_ = now;
  CloseSession(now, id, "its session broke");
}

bool ManagerState::StandsStill(Nanos now) const {
  return ticked_at_ != 0 && now - ticked_at_ > kStreamsBreak;
}

void ManagerState::OnInstalled(Nanos now, NodeId node, uint64_t group_id, const InstallAnswer& answer) {
  now_ = now;
  groups_.OnInstalled(now, node, group_id, answer);
}

void ManagerState::Send(SessionId session, const SessionEvent& event) {
  if (std::holds_alternative<WaitingNote>(event)) return TellAtOnce(session, ToProto(event), false);
  const bool last = std::holds_alternative<Failure>(event) || std::holds_alternative<LeftNote>(event);
  Tell(session, ToProto(event), last);
}

void ManagerState::Refuse(SessionId session, const Failure& failure) {
  TellAtOnce(session, ToProto(SessionEvent(failure)), true);
}

void ManagerState::Install(NodeId node, const ContextPlan& context) {
  world_->Install(node, ToProto(context));
}

void ManagerState::Fail(NodeId node, uint64_t group_id, uint32_t generation) {
  world_->Fail(node, group_id, generation);
}

void ManagerState::Remove(NodeId node, uint64_t group_id, uint32_t generation) {
  world_->Remove(node, group_id, generation);
}

StatusOr<proto::ExplainReply> ManagerState::Explain(const proto::ExplainRequest& request) const {
  const StatusOr<Placement> placement = groups_.Explain(FromProto(request.group()));
  if (!placement.ok()) return placement.status();
  return ToProto(topology_, *placement);
}

StatusOr<proto::PolicyReply> ManagerState::DefaultPolicy(Nanos now, const proto::PolicyRequest& request) {
  now_ = now;
  if (!request.policy().empty()) {
    const auto policy = PolicyFromProto(request);
    if (!policy.ok()) return policy.status();
    groups_.SetDefaultPolicy(*policy);
  }
  proto::PolicyReply reply;
  reply.set_policy(Name(groups_.default_policy()));
  return reply;
}

StatusOr<proto::TenantsReply> ManagerState::SetTenant(Nanos now, const proto::SetTenantRequest& request) {
  now_ = now;
  const StatusOr<Tenant> tenant = FromProto(request.tenant());
  if (!tenant.ok()) return tenant.status();
  if (Status status = groups_.SetTenant(*tenant); !status.ok()) return status;
  return ListTenants();
}

StatusOr<proto::TenantsReply> ManagerState::RemoveTenant(Nanos now,
                                                         const proto::RemoveTenantRequest& request) {
  now_ = now;
  if (Status status = groups_.RemoveTenant(request.name()); !status.ok()) return status;
  return ListTenants();
}

proto::TenantsReply ManagerState::ListTenants() const {
  return ToProto(topology_, groups_.tenants(), groups_.load());
}

proto::ListSwitchesReply ManagerState::ListSwitches(Nanos now) const {
  proto::ListSwitchesReply reply;
  for (const NodeId node : topology_.switches) {
    const SwitchEntry& entry = switches_.entry(node);
    proto::SwitchState& state = *reply.add_switches();
    state.set_name(topology_.nodes[node].name);
    state.set_state(Name(entry.state));
    state.set_agent_address(entry.agent_address);
    const bool seen = entry.state != SwitchState::kNeverSeen;
    state.set_last_heartbeat_ms_ago(seen ? (now - entry.last_heard) / kMillisecond : -1);
    if (seen) *state.mutable_engine() = engines_[node];
  }
  if (!store_trouble_.empty()) reply.add_warnings(StoreTrouble());
  for (const std::string& complaint : graph_.complaints()) reply.add_warnings(complaint);
  return reply;
}

StatusOr<proto::GroupState> ManagerState::CreateGroup(const proto::CreateGroupRequest& request) {
  const Status status = groups_.Create(FromProto(request));
  if (!status.ok()) return status;
  return Describe(*groups_.Find(request.name()));
}

proto::GroupState ManagerState::Describe(const Group& group) const {
  proto::GroupState state = ToProto(topology_, group);
  AddBlocks(groups_.load(), group, &state);
  state.set_watched(IsInUse(group.phase) &&
                    std::ranges::all_of(group.footprint.switches,
                                        [this](NodeId node) { return watch_.IsProven(node); }));
  return state;
}

proto::ListGroupsReply ManagerState::ListGroups(const proto::ListGroupsRequest& page) const {
  proto::ListGroupsReply reply;
  const std::vector<std::string> names = groups_.Names(page.after());
  const size_t most = page.most_groups() == 0 ? names.size() : page.most_groups();
  for (const std::string& name : std::span(names).first(std::min(most, names.size())))
    *reply.add_groups() = Describe(*groups_.Find(name));
  reply.set_more(names.size() > most);
  return reply;
}

StatusOr<proto::GroupState> ManagerState::ShowGroup(const std::string& name, bool ended, Nanos now) const {
  const std::optional<Group> group = groups_.Find(name);
  const GroupEnd* const end = ended ? groups_.EndOf(name) : nullptr;
  if (!group && end == nullptr) {
    return MakeStatus(StatusCode::kNotFound,
                      fmt::format("there is no group {}{}", Shortened(name),
                                  ended ? ", and none of this name has ended lately" : ""));
  }
  proto::GroupState state = group ? Describe(*group) : ToProto(*end);
  if (end != nullptr) *state.mutable_last_end() = ToProto(*end, now);
  return state;
}

StatusOr<uint64_t> ManagerState::DestroyGroup(Nanos now, const std::string& name, bool force) {
  now_ = now;
  const std::optional<Group> group = groups_.Find(name);
  const Status status = groups_.Destroy(now, name, force);
  if (!status.ok()) return status;
  return group->id;
}

}  // namespace epic::manager
