#include "sim/shared/control.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "sim/shared/translate.h"

namespace epic::sim {
namespace {

// GroupLife::Tick's.
constexpr Nanos kTick = 100 * kMillisecond;

std::vector<Qpn> QpnsOf(const engine::GroupConfig& config) {
  std::vector<Qpn> qpns;
  if (config.parent) qpns.push_back(config.parent->local_qpn);
  for (const engine::EndpointConfig& child : config.children) qpns.push_back(child.local_qpn);
  return qpns;
}

}  // namespace

Control::Control(World& world, const WorldConfig& config, const ControlOptions& options, Choices& choices,
                 RankSessions& ranks)
    : world_(world),
      options_(options),
      arena_bytes_(options.states_arena ? config.arena_bytes : 0),
      choices_(choices),
      ranks_(ranks),
      topology_(TopologyOf(world, config)),
      switches_(&topology_),
      groups_(&topology_, &switches_, this, options.groups, options.seed) {
  for (const manager::NodeId node : topology_.switches) {
    const manager::EngineReport report = ReportOf(node);
    EPIC_CHECK(switches_.Register(0, report.name, "agent", report).ok());
    switches_.OnForwardingSet(node, true);
  }
  TickFrom(kTick);
}

void Control::TickFrom(Nanos time) {
  world_.At(time, [this, time] {
    groups_.Tick(world_.now());
    groups_.CheckInvariants();
    TickFrom(time + kTick);
  });
}

manager::EngineReport Control::ReportOf(manager::NodeId node) const {
  manager::EngineReport report = sim::ReportOf(world_, topology_, node, arena_bytes_);
  if (const auto found = boot_ids_.find(node); found != boot_ids_.end()) report.boot_id = found->second;
  return report;
}

void Control::CrashEngine(int s, Nanos until) {
  const auto node = static_cast<manager::NodeId>(s);
  for (const auto& [id, context] : world_.engine(s).groups()) ForgetQpns(node, context.config);
  crashed_.insert(topology_.nodes[node].name);
  boot_ids_[node] = boot_ids_.size() + static_cast<uint64_t>(world_.now()) + 2;
  world_.CrashEngine(s, until);
  if (choices_.Below(2) == 0) Deliver(Channel::kFromSwitch, node, [this, node] { Hear(node, nullptr); });
  world_.At(world_.switch_up_at(s) + Within(options_.lease), [this, node] {
    Deliver(Channel::kFromSwitch, node, [this, node, report = ReportOf(node)] { Hear(node, &report); });
  });
}

// What an agent says of its engine; null: that it does not answer.
void Control::Hear(manager::NodeId node, const manager::EngineReport* engine) {
  const auto change = switches_.Heartbeat(world_.now(), topology_.nodes[node].name, engine);
  EPIC_CHECK(change.ok() && !change->register_again);
  if (change->contexts_lost) groups_.OnContextsLost(world_.now(), node);
  if (change->engine_down) groups_.OnSwitchLost(world_.now(), node, "its engine has stopped");
  if (change->set_forwarding) switches_.OnForwardingSet(node, true);
}

void Control::Miss(manager::SessionId session) {
  world_.At(world_.now() + Within(options_.lease), [this, session] {
    Say(session, [session](manager::GroupLife& groups, Nanos now) { groups.OnSessionClosed(now, session); });
  });
}

void Control::Complain(std::string what) {
  if (wrong_.empty()) wrong_ = std::move(what);
}

void Control::Deliver(Channel channel, uint64_t number, EventQueue::Action action) {
  Nanos& last = last_[{channel, number}];
  last = std::max(last, world_.now() + Within(options_.message));
  if (channel == Channel::kToRank || channel == Channel::kToSwitch) return world_.At(last, std::move(action));
  world_.At(last, [this, action = std::move(action)] {
    action();
    groups_.CheckInvariants();
  });
}

void Control::Say(manager::SessionId session, Request request) {
  Deliver(Channel::kFromRank, session,
          [this, request = std::move(request)] { request(groups_, world_.now()); });
}

void Control::Send(manager::SessionId session, const manager::SessionEvent& event) {
  ranks_.OnSent(session, event);
  Deliver(Channel::kToRank, session, [this, session, event] { ranks_.OnEvent(session, event); });
}

void Control::Install(manager::NodeId node, const manager::ContextPlan& context) {
  Deliver(Channel::kToSwitch, node, [this, node, context] { InstallAt(node, context); });
}

void Control::Fail(manager::NodeId node, uint64_t group_id, uint32_t generation) {
  Deliver(Channel::kToSwitch, node, [this, node, group_id, generation] {
    world_.engine(static_cast<int>(node)).Fail(group_id, generation);
  });
}

void Control::Remove(manager::NodeId node, uint64_t group_id, uint32_t generation) {
  Deliver(Channel::kToSwitch, node,
          [this, node, group_id, generation] { RemoveAt(node, group_id, generation); });
}

void Control::InstallAt(manager::NodeId node, const manager::ContextPlan& context) {
  if (world_.now() < world_.switch_up_at(static_cast<int>(node))) {
    const Status silent = MakeStatus(StatusCode::kUnavailable, "the engine does not answer");
    return Deliver(Channel::kFromSwitch, node, [this, node, id = context.group_id, silent] {
      groups_.OnInstalled(world_.now(), node, id, {.status = silent});
    });
  }
  const engine::GroupConfig config = ConfigOf(context);
  const auto bytes = world_.engine(static_cast<int>(node)).Install(config);
  const Status status = bytes.ok() ? Status() : bytes.status();
  if (bytes.ok()) {
    for (const Qpn qpn : QpnsOf(config)) TakeQpn(node, qpn);
  } else if (options_.states_arena || status.code() != StatusCode::kResourceExhausted) {
    Complain(fmt::format("switch {} refused group {}, for which there should be room: {}\n", node,
                         context.name, std::string(status.message())));
  }
  const uint64_t taken = bytes.ok() ? *bytes : 0;
  Deliver(Channel::kFromSwitch, node, [this, node, id = context.group_id, status, taken] {
    groups_.OnInstalled(world_.now(), node, id, {.status = status, .arena_bytes = taken});
  });
}

void Control::RemoveAt(manager::NodeId node, uint64_t group_id, uint32_t generation) {
  engine::Engine& engine = world_.engine(static_cast<int>(node));
  if (const auto found = engine.groups().find(group_id); found != engine.groups().end())
    ForgetQpns(node, found->second.config);
  engine.Remove(group_id, generation);
  Deliver(Channel::kFromSwitch, node,
          [this, node, group_id] { groups_.OnRemoved(world_.now(), node, group_id); });
}

void Control::ForgetQpns(manager::NodeId node, const engine::GroupConfig& config) {
  for (const Qpn qpn : QpnsOf(config)) {
    qpns_.erase({node, qpn});
    resting_[{node, qpn}] = world_.now();
  }
}

void Control::TakeQpn(manager::NodeId node, Qpn qpn) {
  const auto rested = resting_.find({node, qpn});
  const bool again =
      rested != resting_.end() && world_.now() < rested->second + manager::QpnPool::kQuarantine;
  if (!qpns_.emplace(node, qpn).second || again)
    Complain(fmt::format("switch {}: QPN {:#x} is in use, or has not rested\n", node, Raw(qpn)));
}

std::string Control::Leftovers() const {
  std::string out;
  for (int s = 0; s < world_.switches(); ++s) {
    const engine::Engine& engine = static_cast<const World&>(world_).engine(s);
    const engine::Arena& arena = engine.arena();
    if (!engine.groups().empty() || !engine.blocks().empty() || arena.free_bytes() != arena.size()) {
      out += fmt::format("switch {} has {} groups, {} blocks, {} of {} bytes free\n", s,
                         engine.groups().size(), engine.blocks().size(), arena.free_bytes(), arena.size());
    }
    const size_t qpns = groups_.qpns().InUse(static_cast<manager::NodeId>(s));
    if (qpns > 0) out += fmt::format("{} QPNs of switch {} have not been given back\n", qpns, s);
  }
  if (!qpns_.empty()) out += fmt::format("contexts still have {} QPNs\n", qpns_.size());
  for (const std::string& name : groups_.Names()) {
    const auto group = groups_.Find(name);
    if (group->phase == manager::GroupPhase::kReserved) continue;
    out += fmt::format("group {} is {}\n", name, manager::Name(group->phase));
  }
  if (!(groups_.load() == manager::Load())) out += "the load is not what it was at the beginning\n";
  return out;
}

}  // namespace epic::sim
