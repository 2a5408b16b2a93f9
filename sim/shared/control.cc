#include "sim/shared/control.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "sim/shared/translate.h"

namespace epic::sim {
namespace {

// GroupLife::Tick's.
constexpr Nanos kTick = 100 * kMillisecond;

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
      groups_(&topology_, &switches_, this, options.groups, options.seed),
      contexts_(world, options.states_arena) {
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
  contexts_.OnCrash(node);
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
  world_.At(world_.now() + Within(options_.lease), [this, session] { Say(session, Ends{}); });
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

void Control::Say(manager::SessionId session, const RankWord& word) {
  Deliver(Channel::kFromRank, session, [this, session, word] { CarryOut(session, word); });
}

// Carried out at the table when it is there.
void Control::CarryOut(manager::SessionId session, const RankWord& word) {
  const Nanos now = world_.now();
  if (const auto* join = std::get_if<manager::JoinRequest>(&word)) return groups_.OnJoin(now, session, *join);
  if (const auto* end = std::get_if<manager::PeerEnd>(&word)) return groups_.OnPeer(now, session, *end);
  if (const auto* aborts = std::get_if<Aborts>(&word)) return groups_.OnAbort(now, session, aborts->reason);
  std::holds_alternative<Leaves>(word) ? groups_.OnLeave(now, session)
                                       : groups_.OnSessionClosed(now, session);
}

void Control::Send(manager::SessionId session, const manager::SessionEvent& event) {
  ranks_.OnSent(session, event);
  Deliver(Channel::kToRank, session, [this, session, event] { ranks_.OnEvent(session, event); });
}

void Control::Install(manager::NodeId node, const manager::ContextPlan& context) {
  Deliver(Channel::kToSwitch, node, [this, node, context] {
    Deliver(Channel::kFromSwitch, node,
            [this, node, id = context.group_id, answer = contexts_.Install(node, context)] {
              groups_.OnInstalled(world_.now(), node, id, answer);
            });
  });
}

void Control::Fail(manager::NodeId node, uint64_t group_id, uint32_t generation) {
  Deliver(Channel::kToSwitch, node, [this, node, group_id, generation] {
    world_.engine(static_cast<int>(node)).Fail(group_id, generation);
  });
}

void Control::Remove(manager::NodeId node, uint64_t group_id, uint32_t generation) {
  Deliver(Channel::kToSwitch, node, [this, node, group_id, generation] {
    contexts_.Remove(node, group_id, generation);
    Deliver(Channel::kFromSwitch, node,
            [this, node, group_id] { groups_.OnRemoved(world_.now(), node, group_id); });
  });
}

std::string Control::Leftovers() const {
  std::string out = contexts_.Leftovers(groups_.qpns());
  for (const std::string& name : groups_.Names()) {
    const auto group = groups_.Find(name);
    if (group->phase == manager::GroupPhase::kReserved) continue;
    out += fmt::format("group {} is {}\n", name, manager::Name(group->phase));
  }
  if (!(groups_.load() == manager::Load())) out += "the load is not what it was at the beginning\n";
  return out;
}

}  // namespace epic::sim
