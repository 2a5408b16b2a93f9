#include "incmanager/rpc/manager_core.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <optional>
#include <random>
#include <utility>

#include "incmanager/rpc/convert.h"

namespace epic::manager {
namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr uint32_t kHeartbeatMs = 1000;
// With kPeerTimeoutMs of the server: a host that is gone is noticed within 15 s.
constexpr Nanos kSignOfLifePeriod = 5 * kSecond;
constexpr auto kDestroyTimeout = std::chrono::seconds(10);

Nanos Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

uint64_t RandomSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

std::string Message(const Status& status) { return {status.message().data(), status.message().size()}; }

}  // namespace

ManagerCore::ManagerCore(Topology topology, const GroupOptions& options)
    : topology_(std::move(topology)),
      forwarding_(ComputeForwarding(topology_)),
      epoch_(RandomSeed()),
      switches_(&topology_),
      groups_(&topology_, &switches_, this, options, RandomSeed()),
      engines_(topology_.switch_count) {
  for (NodeId node = 0; node < topology_.switch_count; ++node) {
    links_.push_back(std::make_unique<AgentLink>(topology_.nodes[node].name));
  }
  ticker_ = std::thread([this] { TickLoop(); });
}

void ManagerCore::Stop() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  changed_.notify_all();
}

ManagerCore::~ManagerCore() {
  Stop();
  ticker_.join();
  links_.clear();
}

void ManagerCore::TickLoop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Nanos now = Now();
    for (const NodeId node : switches_.Tick(now)) {
      spdlog::warn("switch {}: agent lost: nothing heard for {} s; its groups go on",
                   topology_.nodes[node].name, kAgentLostAfter / kSecond);
    }
    groups_.Tick(now);
    SendSignsOfLife(now);
    changed_.wait_for(lock, kTick, [this] { return stop_; });
  }
}

void ManagerCore::SendSignsOfLife(Nanos now) {
  if (now - last_signs_of_life_ < kSignOfLifePeriod) return;
  last_signs_of_life_ = now;
  for (const auto& [id, session] : sessions_) session->SendSignOfLife();
}

void ManagerCore::Apply(Nanos now, NodeId node, const SwitchChange& change) {
  const std::string& name = topology_.nodes[node].name;
  if (change.contexts_lost) {
    spdlog::warn("switch {}: engine stopped or started anew", name);
    groups_.OnContextsLost(now, node);
  }
  if (!change.set_forwarding) return;
  links_[node]->SetForwarding(ToProto(topology_, node, forwarding_[node]), [this, node](const Status& status,
                                                                                        uint64_t) {
    const std::lock_guard lock(mutex_);
    switches_.OnForwardingSet(node, status.ok());
    if (status.ok()) {
      spdlog::info("switch {}: up", topology_.nodes[node].name);
    } else {
      spdlog::warn("switch {}: forwarding table not set: {}", topology_.nodes[node].name, Message(status));
    }
  });
}

StatusOr<proto::RegisterReply> ManagerCore::Register(const proto::RegisterRequest& request) {
  if (request.agent_address().empty()) {
    return MakeStatus(StatusCode::kInvalidArgument, "agent_address: missing");
  }
  const std::lock_guard lock(mutex_);
  const Nanos now = Now();
  const EngineReport report = FromProto(request.engine());
  const StatusOr<SwitchChange> change =
      switches_.Register(now, request.name(), request.agent_address(), report);
  if (!change.ok()) {
    spdlog::warn("agent of {} at {} refused: {}", request.name(), request.agent_address(),
                 Message(change.status()));
    return change.status();
  }
  const NodeId node = *topology_.FindSwitch(request.name());
  spdlog::info("switch {}: agent registered at {}, engine {}", request.name(), request.agent_address(),
               request.engine().version());
  links_[node]->SetAddress(request.agent_address());
  engines_[node] = request.engine();
  Apply(now, node, *change);
  proto::RegisterReply reply;
  reply.set_epoch(epoch_);
  reply.set_heartbeat_ms(kHeartbeatMs);
  for (const uint64_t id : groups_.GroupsOn(node)) reply.add_keep_group_ids(id);
  return reply;
}

StatusOr<proto::HeartbeatReply> ManagerCore::Heartbeat(const proto::HeartbeatRequest& request) {
  proto::HeartbeatReply reply;
  if (request.epoch() != epoch_) {
    reply.set_register_again(true);
    return reply;
  }
  const std::lock_guard lock(mutex_);
  const Nanos now = Now();
  const EngineReport report = FromProto(request.engine());
  const StatusOr<SwitchChange> change =
      switches_.Heartbeat(now, request.name(), request.engine_up() ? &report : nullptr);
  if (!change.ok()) return change.status();
  reply.set_register_again(change->register_again);
  if (change->register_again) return reply;
  const NodeId node = *topology_.FindSwitch(request.name());
  if (request.engine_up()) engines_[node] = request.engine();
  Apply(now, node, *change);
  return reply;
}

SessionReactor* ManagerCore::NewSession() {
  const std::lock_guard lock(mutex_);
  const SessionId id = next_session_++;
  auto* reactor = new SessionReactor(id, this);
  sessions_[id] = reactor;
  reactor->Start();
  return reactor;
}

void ManagerCore::OnMessage(SessionId id, const proto::ClientMessage& message) {
  const std::lock_guard lock(mutex_);
  const Nanos now = Now();
  switch (message.kind_case()) {
    case proto::ClientMessage::kJoin:
      if (groups_.HasSession(id)) {
        return Send(id, Failure{ErrorCode::kInvalidArgument, "a session joins one group only", -1, ""});
      }
      return groups_.OnJoin(now, id, FromProto(message.join()));
    case proto::ClientMessage::kLeave:
      return groups_.OnLeave(now, id);
    case proto::ClientMessage::kAbort:
      return groups_.OnAbort(now, id, message.abort().reason());
    case proto::ClientMessage::KIND_NOT_SET:
      return Send(id, Failure{ErrorCode::kInvalidArgument, "a message is join, leave or abort", -1, ""});
  }
}

void ManagerCore::OnClosed(SessionId id) {
  const std::lock_guard lock(mutex_);
  // When the manager itself ends, no rank is lost.
  if (stop_) return;
  groups_.OnSessionClosed(Now(), id);
  changed_.notify_all();
}

void ManagerCore::OnGone(SessionId id) {
  const std::lock_guard lock(mutex_);
  sessions_.erase(id);
}

void ManagerCore::Send(SessionId session, const SessionEvent& event) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const bool last = std::holds_alternative<Failure>(event) || std::holds_alternative<LeftNote>(event);
  found->second->Send(ToProto(event), last);
}

void ManagerCore::Install(NodeId node, const ContextPlan& context) {
  links_[node]->Install(ToProto(context),
                        [this, node, id = context.group_id](const Status& status, uint64_t bytes) {
                          const std::lock_guard lock(mutex_);
                          groups_.OnInstalled(Now(), node, id, status, bytes);
                        });
}

void ManagerCore::Fail(NodeId node, uint64_t group_id, uint32_t generation) {
  links_[node]->Fail(group_id, generation, [this, node](const Status& status, uint64_t) {
    // The context is removed soon in any case; a switch that does not answer drops leftovers when its agent
    // registers.
    if (!status.ok())
      spdlog::warn("switch {}: group not stopped: {}", topology_.nodes[node].name, Message(status));
  });
}

void ManagerCore::Remove(NodeId node, uint64_t group_id, uint32_t generation) {
  links_[node]->Remove(group_id, generation, [this, node, group_id](const Status& status, uint64_t) {
    const std::lock_guard lock(mutex_);
    if (!status.ok()) {
      switches_.OnLeftover(node);
      spdlog::warn("switch {}: group {:#x} not removed: {}; its agent removes it when it registers again",
                   topology_.nodes[node].name, group_id, Message(status));
    }
    groups_.OnRemoved(Now(), node, group_id);
    changed_.notify_all();
  });
}

void ManagerCore::Note(const std::string& line) { spdlog::info("{}", line); }

proto::TopologyReply ManagerCore::DescribeTopology() const {
  proto::TopologyReply reply;
  reply.set_yaml(topology_.text);
  return reply;
}

proto::ListSwitchesReply ManagerCore::ListSwitches() {
  const std::lock_guard lock(mutex_);
  const Nanos now = Now();
  proto::ListSwitchesReply reply;
  for (NodeId node = 0; node < topology_.switch_count; ++node) {
    const SwitchEntry& entry = switches_.entry(node);
    proto::SwitchState& state = *reply.add_switches();
    state.set_name(topology_.nodes[node].name);
    state.set_state(Name(entry.state));
    state.set_agent_address(entry.agent_address);
    const bool seen = entry.state != SwitchState::kNeverSeen;
    state.set_last_heartbeat_ms_ago(seen ? (now - entry.last_heard) / kMillisecond : -1);
    if (seen) *state.mutable_engine() = engines_[node];
  }
  return reply;
}

StatusOr<proto::DumpReply> ManagerCore::Tables(const std::string& switch_name) {
  const std::optional<NodeId> node = topology_.FindSwitch(switch_name);
  if (!node)
    return MakeStatus(StatusCode::kNotFound, fmt::format("the topology has no switch {}", switch_name));
  StatusOr<proto::DumpReply> reply = links_[*node]->Dump();
  // UNAVAILABLE would tell the operator that the manager is out of reach.
  if (reply.status().code() == StatusCode::kUnavailable) {
    return MakeStatus(StatusCode::kFailedPrecondition, Message(reply.status()));
  }
  return reply;
}

StatusOr<proto::GroupState> ManagerCore::CreateGroup(const proto::CreateGroupRequest& request) {
  const std::lock_guard lock(mutex_);
  const Status status = groups_.Create(FromProto(request));
  if (!status.ok()) return status;
  return ToProto(topology_, *groups_.Find(request.name()));
}

proto::ListGroupsReply ManagerCore::ListGroups() {
  const std::lock_guard lock(mutex_);
  proto::ListGroupsReply reply;
  for (const Group& group : groups_.List()) *reply.add_groups() = ToProto(topology_, group);
  return reply;
}

StatusOr<proto::GroupState> ManagerCore::ShowGroup(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const std::optional<Group> group = groups_.Find(name);
  if (!group) return MakeStatus(StatusCode::kNotFound, fmt::format("there is no group {}", name));
  return ToProto(topology_, *group);
}

Status ManagerCore::DestroyGroup(const std::string& name, bool force) {
  std::unique_lock lock(mutex_);
  const std::optional<Group> group = groups_.Find(name);
  const Status status = groups_.Destroy(Now(), name, force);
  if (!status.ok()) return status;
  const auto gone = [this, &group] { return stop_ || !groups_.Removing(group->id); };
  if (!changed_.wait_for(lock, kDestroyTimeout, gone)) {
    std::vector<std::string> late;
    const std::optional<std::set<NodeId>> removing = groups_.Removing(group->id);
    for (const NodeId node : *removing) late.push_back(topology_.nodes[node].name);
    return MakeStatus(
        StatusCode::kDeadlineExceeded,
        fmt::format("group {} is destroyed, but not yet removed from {}", name, fmt::join(late, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace epic::manager
