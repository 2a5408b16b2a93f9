#include "incmanager/groups/switch_table.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace epic::manager {
namespace {

Status Contradiction(const char* field, const std::string& name, const std::string& theirs,
                     const std::string& source, const std::string& ours) {
  return MakeStatus(StatusCode::kInvalidArgument, fmt::format("{}: the engine of {} says {}, {} says {}",
                                                              field, name, theirs, source, ours));
}

// "topology.yaml:12".
std::string Stated(const Topology& topology, uint32_t line) {
  return line == 0 ? "the topology" : fmt::format("{}:{}", topology.source, line);
}

}  // namespace

const char* Name(SwitchState state) {
  switch (state) {
    case SwitchState::kNeverSeen:
      return "never seen";
    case SwitchState::kConfiguring:
      return "configuring";
    case SwitchState::kUp:
      return "up";
    case SwitchState::kEngineDown:
      return "engine down";
    case SwitchState::kAgentLost:
      return "agent lost";
    case SwitchState::kLost:
      return "lost";
  }
  return "unknown";
}

SwitchTable::SwitchTable(const Topology* topology) : topology_(topology), entries_(topology->nodes.size()) {}

StatusOr<NodeId> SwitchTable::Check(const std::string& name, const EngineReport* engine) const {
  const std::optional<NodeId> id = topology_->FindSwitch(name);
  if (!id) return MakeStatus(StatusCode::kNotFound, fmt::format("name: the topology has no switch {}", name));
  if (engine == nullptr) return *id;
  const Node& node = topology_->nodes[*id];
  const std::string source = Stated(*topology_, node.line);
  if (engine->name != name) return Contradiction("engine.name", name, engine->name, source, name);
  if (engine->address != node.address) {
    return Contradiction("engine.address", name, ToString(engine->address), source, ToString(node.address));
  }
  if (engine->mac != node.mac)
    return Contradiction("engine.mac", name, ToString(engine->mac), source, ToString(node.mac));
  for (const Hop& hop : node.hops) {
    if (hop.line == 0) continue;  // the file does not say so
    bool found = false;
    for (const PortState& port : engine->ports) found = found || port.name == hop.port;
    if (!found) {
      return MakeStatus(
          StatusCode::kInvalidArgument,
          fmt::format("engine.ports: the engine of {} has no port {}, which {} links to {}", name, hop.port,
                      Stated(*topology_, hop.line), topology_->nodes[hop.peer].name));
    }
  }
  return *id;
}

void SwitchTable::Adopt(Nanos now, NodeId node, const EngineReport& engine, SwitchChange* change) {
  SwitchEntry& entry = entries_[node];
  if (entry.engine.boot_id != engine.boot_id) {
    change->contexts_lost = entry.engine.boot_id != 0;
    change->new_engine = true;
  }
  if (change->new_engine || entry.state == SwitchState::kEngineDown) {
    entry.forwarding_set = false;
    entry.forwarding_asked = false;
  }
  entry.engine = engine;
  std::map<std::string, Nanos> down;
  for (const PortState& port : engine.ports) {
    if (port.up) continue;
    const auto before = entry.down_since.find(port.name);
    down[port.name] = before == entry.down_since.end() ? now : before->second;
  }
  entry.down_since = std::move(down);
  if (!engine.repeated) entry.ports_told = now;
  if (!entry.forwarding_set && !entry.forwarding_asked) {
    change->set_forwarding = true;
    entry.forwarding_asked = true;
  }
  entry.state = entry.forwarding_set ? SwitchState::kUp : SwitchState::kConfiguring;
}

StatusOr<SwitchChange> SwitchTable::Register(Nanos now, const std::string& name,
                                             const std::string& agent_address, const EngineReport& engine,
                                             uint64_t instance) {
  const StatusOr<NodeId> id = Check(name, &engine);
  if (!id.ok()) return id.status();
  SwitchEntry& entry = entries_[*id];
  if (!entry.agent_address.empty() && entry.agent_address != agent_address) ++entry.successions;
  entry.agent_address = agent_address;
  if (entry.instance != instance) entry.former_instance = std::exchange(entry.instance, instance);
  entry.last_heard = now;
  // Whatever was asked of a former agent may not have arrived.
  entry.forwarding_set = false;
  entry.forwarding_asked = false;
  entry.has_leftovers = false;
  SwitchChange change;
  Adopt(now, *id, engine, &change);
  return change;
}

StatusOr<SwitchChange> SwitchTable::Heartbeat(Nanos now, const std::string& name,
                                              const EngineReport* engine) {
  const StatusOr<NodeId> id = Check(name, engine);
  if (!id.ok()) return id.status();
  SwitchEntry& entry = entries_[*id];
  SwitchChange change;
  const bool unknown = entry.state == SwitchState::kNeverSeen || entry.state == SwitchState::kAgentLost ||
                       entry.state == SwitchState::kLost;
  // An agent cannot register before its engine answers.
  if (unknown || (entry.has_leftovers && engine != nullptr)) {
    change.register_again = true;
    return change;
  }
  entry.last_heard = now;
  if (engine != nullptr) {
    Adopt(now, *id, *engine, &change);
    return change;
  }
  change.engine_down = entry.state != SwitchState::kEngineDown;
  entry.state = SwitchState::kEngineDown;
  return change;
}

void SwitchTable::OnForwardingSet(NodeId node, bool ok) {
  SwitchEntry& entry = entries_[node];
  entry.forwarding_asked = false;
  entry.forwarding_set = ok;
  entry.has_answered = entry.has_answered || ok;
  if (ok && entry.state == SwitchState::kConfiguring) entry.state = SwitchState::kUp;
}

bool SwitchTable::OnVerdict(NodeId node, Verdict verdict) {
  SwitchState& state = entries_[node].state;
  if (state == SwitchState::kNeverSeen || state == SwitchState::kLost) return false;
  if (verdict == Verdict::kSwitchLost) {
    state = SwitchState::kLost;
    return true;
  }
  if (verdict != Verdict::kAgentLost || state == SwitchState::kAgentLost) return false;
  state = SwitchState::kAgentLost;
  return true;
}

std::string SwitchTable::NameAndVersion(NodeId node) const {
  const std::string& version = entries_[node].engine.version;
  return fmt::format("{} (version {})", topology_->nodes[node].name, version.empty() ? "unknown" : version);
}

std::string SwitchTable::Lacks(NodeId node, const Abilities& needs) const {
  const EngineReport& engine = entries_[node].engine;
  if (const Abilities lacking = engine.abilities.Lacking(needs); !lacking.empty()) {
    const std::string what = NamesOf(lacking);
    const bool one = what.find(',') == std::string::npos && what.find(" and ") == std::string::npos;
    return fmt::format("{} {} not in {}", what, one ? "is" : "are", NameAndVersion(node));
  }
  return {};
}

std::string SwitchTable::LacksPool(NodeId node, Mode mode, bool priorities) const {
  const EngineReport& engine = entries_[node].engine;
  if (!engine.modes.Contains(mode) || engine.pool_buffer_bytes == 0)
    return fmt::format("{} has no pool (incengine --pool)", topology_->nodes[node].name);
  if (priorities && !engine.abilities.priorities)
    return fmt::format("{} knows no priorities, and would not keep their limit", NameAndVersion(node));
  return {};
}

std::string SwitchTable::Stopped(NodeId node) const {
  switch (entries_[node].state) {
    case SwitchState::kUp:
    case SwitchState::kConfiguring:
    case SwitchState::kAgentLost:
      return "";
    case SwitchState::kNeverSeen:
      return "its agent has never registered";
    case SwitchState::kEngineDown:
      return "its engine is down";
    case SwitchState::kLost:
      return "it is lost";
  }
  return "its state is unknown";
}

std::string SwitchTable::Unusable(NodeId node, Mode mode) const {
  switch (entries_[node].state) {
    case SwitchState::kUp:
      // Who forwards for a group in a pool needs none (LacksPool).
      if (entries_[node].engine.modes.Contains(mode) || IsInPool(mode)) return "";
      return fmt::format("its engine does not offer mode {}", NumeralOf(mode));
    case SwitchState::kNeverSeen:
      return "its agent has never registered";
    case SwitchState::kConfiguring:
      return "it has no forwarding table yet";
    case SwitchState::kEngineDown:
      return "its engine is down";
    case SwitchState::kAgentLost:
      return "its agent is lost";
    case SwitchState::kLost:
      return "it is lost";
  }
  return "its state is unknown";
}

}  // namespace epic::manager
