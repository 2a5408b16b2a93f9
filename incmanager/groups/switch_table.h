// What the manager knows of each switch and its agent. Sans-IO: registrations, heartbeats and time come in.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "incmanager/engine_report.h"
#include "incmanager/groups/health.h"
#include "incmanager/topology.h"
#include "protocol/abilities.h"
#include "protocol/modes.h"

namespace epic::manager {

enum class SwitchState : uint8_t { kNeverSeen, kConfiguring, kUp, kEngineDown, kAgentLost, kLost };

// "never seen", "configuring", "up", "engine down", "agent lost", "lost".
const char* Name(SwitchState state);

struct SwitchEntry {
  SwitchState state = SwitchState::kNeverSeen;
  EngineReport engine;
  std::string agent_address;
  uint64_t instance = 0;           // the agent's own number, random at its start; 0: it says none
  uint64_t former_instance = 0;    // of the agent whose place it has taken
  std::string registered_by;       // who has called last to register it
  bool has_answered = false;       // its agent, a call of the manager's, ever
  uint32_t successions = 0;  // times that an agent at another address has taken the place of the one before
  Nanos last_heard = 0;
  bool forwarding_set = false;    // the table of the topology is in the engine that runs now
  bool forwarding_asked = false;  // and is on its way
  bool has_leftovers = false;     // a context could not be removed; goes when the agent registers again
  std::map<std::string, Nanos> down_since;  // of the ports that have no carrier, as last reported
  Nanos ports_told = 0;                     // when that was
};

// What an event means for others.
struct SwitchChange {
  bool contexts_lost = false;   // the engine started anew: groups with a context on this switch are gone
  bool engine_down = false;     // the engine has stopped: so has whatever crosses this switch
  bool set_forwarding = false;  // the engine needs its forwarding table
  bool new_engine = false;      // it has started since it was heard last, or is heard for the first time
  bool register_again = false;  // the manager does not know this agent (any more)
};

class SwitchTable {
 public:
  explicit SwitchTable(const Topology* topology);

  // Errors: NOT_FOUND (no such switch in the topology), INVALID_ARGUMENT naming the field that contradicts
  // it.
  StatusOr<SwitchChange> Register(Nanos now, const std::string& name, const std::string& agent_address,
                                  const EngineReport& engine, uint64_t instance = 0);
  // engine: null when the engine does not answer its agent. Errors as Register.
  StatusOr<SwitchChange> Heartbeat(Nanos now, const std::string& name, const EngineReport* engine);
  void OnForwardingSet(NodeId node, bool ok);
  void SetRegisteredBy(NodeId node, const std::string& peer) { entries_[node].registered_by = peer; }
  // More nodes are known now.
  void Grow() { entries_.resize(topology_->nodes.size()); }
  // A context could not be removed: the agent is asked to register again, whereupon it removes what is left.
  void OnLeftover(NodeId node) { entries_[node].has_leftovers = true; }
  // Takes over what Judge has said of a switch. True if its agent, or itself, has been lost by it just now.
  bool OnVerdict(NodeId node, Verdict verdict);

  const SwitchEntry& entry(NodeId node) const { return entries_[node]; }
  // The switch's name and version, as "leaf1 (version 0.1.0)".
  std::string NameAndVersion(NodeId node) const;
  // Why the switch cannot aggregate for a group that needs these abilities, as "operation product is not in
  // leaf1 (version 0.1.0)"; empty if it can.
  std::string Lacks(NodeId node, const Abilities& needs) const;
  // Why the switch cannot sum for a group in this mode, whose payloads lie in a pool; empty if it can.
  // priorities: it has to keep a limit of theirs.
  std::string LacksPool(NodeId node, Mode mode, bool priorities) const;
  // Why the switch passes nothing on between hosts; empty if it does, as far as one knows. Its agent need not
  // live for that; and a table that is on its way to its engine is there soon.
  std::string Stopped(NodeId node) const;
  // Why the switch cannot take part in a new group in this mode; empty if it can. Of modes whose groups lie
  // in a pool: not even forward.
  std::string Unusable(NodeId node, Mode mode) const;

 private:
  StatusOr<NodeId> Check(const std::string& name, const EngineReport* engine) const;
  void Adopt(Nanos now, NodeId node, const EngineReport& engine, SwitchChange* change);

  const Topology* topology_;
  std::vector<SwitchEntry> entries_;
};

}  // namespace epic::manager
