#include "sim/restarts/agents.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/restarts/messages.h"
#include "sim/shared/translate.h"

namespace epic::sim {
namespace {

constexpr char kAddress[] = "10.0.0.1:7401";
// A manager that settles waits for 10 s.
constexpr Nanos kVeryLate = 12 * kSecond;

}  // namespace

Agents::Agents(World& world, const SharedShape& shape, const manager::Topology& topology, Choices& choices,
               EngineContexts& contexts, AgentCalls& manager)
    : world_(world),
      shape_(shape),
      topology_(topology),
      choices_(choices),
      contexts_(contexts),
      manager_(manager),
      agents_(topology.switches.size()) {}

void Agents::RegisterAll() {
  for (const manager::NodeId node : topology_.switches) {
    proto::RegisterRequest request;
    request.set_name(topology_.nodes[node].name);
    request.set_agent_address(kAddress);
    *request.mutable_engine() = Describe(node);
    manager_.Turn(manager_.life(), [&](manager::ManagerState& state) {
      const auto reply = state.Register(world_.now(), request);
      EPIC_CHECK(reply.ok());
      OnRegistered(node, {}, *reply);
      state.OnForwardingSet(world_.now(), node, {});
    });
    BeatFrom(node, world_.now() + Within(shape_.beat));
  }
}

void Agents::BeatFrom(manager::NodeId node, Nanos time) {
  world_.At(time, [this, node] {
    if (world_.now() >= agents_[node].silent_until) Beat(node);
    BeatFrom(node, world_.now() + shape_.beat);
  });
}

void Agents::Beat(manager::NodeId node) {
  Agent& agent = agents_[node];
  if (manager_.life() == 0) {
    agent.asks = false;
    return;
  }
  if (agent.asks) return;
  agent.registered == 0 ? Register(node) : Heartbeat(node);
}

proto::EngineInfo Agents::Describe(manager::NodeId node) const {
  const Agent& agent = agents_[node];
  manager::EngineReport report =
      ReportOf(world_, topology_, node, shape_.control.states_arena ? shape_.config.arena_bytes : 0);
  report.boot_id = agent.boot_id;
  proto::EngineInfo info = InfoOf(report);
  const engine::Engine& engine = static_cast<const World&>(world_).engine(static_cast<int>(node));
  for (const auto& [id, context] : engine.groups()) info.add_group_ids(id);
  if (agent.held != 0) {
    info.mutable_fence()->set_cluster(agent.cluster);
    info.mutable_fence()->set_epoch(agent.held);
    info.mutable_fence()->set_keeps(true);
    info.set_fenced(!engine.groups().empty());
  }
  return info;
}

void Agents::Register(manager::NodeId node) {
  Agent& agent = agents_[node];
  // What a manager that has died has under way may still come behind what the engine says here, and is
  // compared with nothing later.
  if (!IsUp(node) || agent.under_way > 0) return;
  proto::RegisterRequest request;
  request.set_name(topology_.nodes[node].name);
  request.set_agent_address(kAddress);
  *request.mutable_engine() = Describe(node);
  agent.asks = true;
  const std::set<uint64_t> had(request.engine().group_ids().begin(), request.engine().group_ids().end());
  const uint64_t number = ++agent.calls;
  const uint64_t life = manager_.life();
  world_.At(world_.now() + Within(shape_.control.message), [this, node, request, had, number, life] {
    manager_.Turn(life, [&](manager::ManagerState& state) {
      const auto reply = state.Register(world_.now(), request);
      world_.At(world_.now() + Within(shape_.control.message), [this, node, had, number, reply] {
        if (agents_[node].calls != number) return;
        agents_[node].asks = false;
        if (reply.ok() && IsUp(node)) OnRegistered(node, had, *reply);
      });
    });
  });
}

void Agents::OnRegistered(manager::NodeId node, const std::set<uint64_t>& had,
                          const proto::RegisterReply& reply) {
  Agent& agent = agents_[node];
  if (reply.fence().epoch() < agent.held) return;
  agent.held = reply.fence().epoch();
  agent.cluster = reply.fence().cluster();
  agent.registered = reply.epoch();
  std::set<uint64_t> unknown = had;
  for (const uint64_t id : reply.keep_group_ids()) unknown.erase(id);
  for (const uint64_t id : unknown) contexts_.RemoveUnknown(node, id);
}

void Agents::Heartbeat(manager::NodeId node) {
  Agent& agent = agents_[node];
  proto::HeartbeatRequest request;
  request.set_name(topology_.nodes[node].name);
  request.set_epoch(agent.registered);
  request.set_engine_up(IsUp(node));
  if (IsUp(node)) *request.mutable_engine() = Describe(node);
  agent.asks = true;
  const uint64_t number = ++agent.calls;
  const uint64_t life = manager_.life();
  world_.At(world_.now() + Within(shape_.control.message), [this, node, request, number, life] {
    manager_.Turn(life, [&](manager::ManagerState& state) {
      const auto reply = state.Heartbeat(world_.now(), request);
      world_.At(world_.now() + Within(shape_.control.message),
                [this, node, number, again = !reply.ok() || reply->register_again()] {
                  if (agents_[node].calls != number) return;
                  agents_[node].asks = false;
                  if (!again) return;
                  agents_[node].registered = 0;
                  if (manager_.life() != 0) Register(node);
                });
    });
  });
}

void Agents::OnCall(manager::NodeId node, uint64_t epoch, CallEnd call) {
  Agent& agent = agents_[node];
  agent.last = std::max(agent.last, world_.now() + Within(shape_.control.message));
  ++agent.under_way;
  ++under_way_;
  world_.At(agent.last, [this, node, epoch, managers = managers_, call = std::move(call)] {
    Agent& at = agents_[node];
    --at.under_way;
    --under_way_;
    if (managers != managers_ && (managers + 1 != managers_ || world_.now() >= cut_)) return;
    if (!IsUp(node)) return call(MakeStatus(StatusCode::kUnavailable, "the engine does not answer"));
    if (epoch < at.held) return call(MakeStatus(StatusCode::kFailedPrecondition, "fenced"));
    at.held = epoch;
    call({});
  });
}

void Agents::OnManagerGone() {
  ++managers_;
  cut_ = world_.now() + static_cast<Nanos>(choices_.Below(static_cast<uint64_t>(2 * shape_.control.message)));
}

void Agents::OnManager() {
  for (Agent& agent : agents_) {
    agent.asks = false;
    ++agent.calls;
    if (choices_.Below(64) == 0) agent.silent_until = world_.now() + kVeryLate;
  }
}

void Agents::CrashEngine(manager::NodeId node, Nanos until) {
  Agent& agent = agents_[node];
  contexts_.OnCrash(node);
  agent.boot_id += 1 + static_cast<uint64_t>(world_.now());
  agent.held = 0;
  world_.CrashEngine(static_cast<int>(node), until);
  // Of some the agent tells that they are down.
  if (choices_.Below(2) == 0)
    world_.At(world_.now() + Within(shape_.control.lease), [this, node] { Beat(node); });
  world_.At(world_.switch_up_at(static_cast<int>(node)) + Within(shape_.control.lease),
            [this, node] { Beat(node); });
}

}  // namespace epic::sim
