// The switches' agents: they register with the manager that there is, say that they live, carry out its calls
// at their engines, and remove what it does not know. Each engine keeps the highest epoch that it has heard,
// and refuses less (docs/PROTOCOL-CONTROL.md, section 15).
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "incmanager/rpc/manager_state.h"
#include "proto/manager.pb.h"
#include "sim/choices.h"
#include "sim/shared/engine_contexts.h"
#include "sim/shared/jobs.h"
#include "sim/world.h"

namespace epic::sim {

class AgentCalls {
 public:
  virtual ~AgentCalls() = default;
  // 0: nobody is there. Else the life of the manager.
  virtual uint64_t life() const = 0;
  // One turn of the manager's, if it is still that.
  virtual void Turn(uint64_t life, const std::function<void(manager::ManagerState&)>& call) = 0;
};

class Agents {
 public:
  // All outlive this.
  Agents(World& world, const SharedShape& shape, const manager::Topology& topology, Choices& choices,
         EngineContexts& contexts, AgentCalls& manager);

  // At the beginning, when nobody has joined yet.
  void RegisterAll();
  // A manager's call to a switch, on the way: carried out at the switch, in their order, with the manager's
  // answer to what it is told then; refused: by the switch's epoch.
  using CallEnd = std::function<void(const Status& refused)>;
  void OnCall(manager::NodeId node, uint64_t epoch, CallEnd call);
  // The manager has died: of its calls those that come later are lost.
  void OnManagerGone();
  // Another one has started: of some switches the agents are late.
  void OnManager();
  // The engine starts anew.
  void CrashEngine(manager::NodeId node, Nanos until);
  // No call is on its way.
  bool AreQuiet() const { return under_way_ == 0; }

 private:
  struct Agent {
    uint64_t boot_id = 1;     // of the engine
    uint64_t held = 0;        // the epoch that the engine has heard
    uint64_t registered = 0;  // with this epoch, as the manager says it; 0: with none
    uint64_t calls = 0;       // to the manager, so far: one at a time
    bool asks = false;        // one is open
    Nanos silent_until = 0;   // the agent stands still
    Nanos last = 0;           // when the last of the manager's calls comes
    int under_way = 0;        // of these
    std::string cluster;
  };

  void BeatFrom(manager::NodeId node, Nanos time);
  void Beat(manager::NodeId node);
  void Register(manager::NodeId node);
  void Heartbeat(manager::NodeId node);
  void OnRegistered(manager::NodeId node, const std::set<uint64_t>& had, const proto::RegisterReply& reply);
  proto::EngineInfo Describe(manager::NodeId node) const;
  bool IsUp(manager::NodeId node) const {
    return world_.now() >= world_.switch_up_at(static_cast<int>(node));
  }
  Nanos Within(Nanos most) { return 1 + static_cast<Nanos>(choices_.Below(static_cast<uint64_t>(most))); }

  World& world_;
  const SharedShape& shape_;
  const manager::Topology& topology_;
  Choices& choices_;
  EngineContexts& contexts_;
  AgentCalls& manager_;
  std::vector<Agent> agents_;  // by NodeId
  Nanos cut_ = kNever;         // of the calls of the manager that has died
  uint64_t managers_ = 0;      // that have died
  int under_way_ = 0;
};

}  // namespace epic::sim
