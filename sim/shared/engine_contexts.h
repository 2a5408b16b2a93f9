// The contexts that a manager has the engines of a world have, and what is wrong with them: an installation
// that the manager had counted and an engine refuses, a QPN that is given to two groups, or again before it
// has rested.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "incmanager/groups/install_answer.h"
#include "incmanager/groups/plan.h"
#include "incmanager/groups/qpn_pool.h"
#include "sim/world.h"

namespace epic::sim {

class EngineContexts {
 public:
  // world outlives this. states_arena: switches say how much memory they have, so that none lacks it.
  EngineContexts(World& world, bool states_arena) : world_(world), states_arena_(states_arena) {}

  // UNAVAILABLE while the switch is down.
  manager::InstallAnswer Install(manager::NodeId node, const manager::ContextPlan& context);
  void Remove(manager::NodeId node, uint64_t group_id, uint32_t generation);
  // One that the manager does not know.
  void RemoveUnknown(manager::NodeId node, uint64_t group_id);
  // The engine is about to lose all.
  void OnCrash(manager::NodeId node);
  // The manager has forgotten what rests. Another one takes other QPNs, but only as far as chance has it.
  void OnManagerLost();

  // The first thing that went wrong; empty if nothing.
  const std::string& wrong() const { return wrong_; }
  // What switches still have; empty if nothing. qpns: of the manager.
  std::string Leftovers(const manager::QpnPool& qpns) const;

 private:
  void Take(manager::NodeId node, uint64_t group_id, Qpn qpn);
  void Forget(manager::NodeId node, const engine::GroupConfig& config, bool unknown = false);
  void Complain(std::string what);

  World& world_;
  const bool states_arena_;
  std::set<std::pair<manager::NodeId, Qpn>> qpns_;  // that contexts have
  using Rests = std::map<std::pair<manager::NodeId, Qpn>, Nanos>;
  bool HasRested(const Rests& rests, manager::NodeId node, Qpn qpn) const;
  Rests resting_;             // since when others had been given back
  Rests forgotten_;           // the same, under managers before this one
  std::set<uint64_t> early_;  // groups that have QPNs which had not rested since
  std::string wrong_;
};

}  // namespace epic::sim
