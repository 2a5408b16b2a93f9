// The manager of a world: the shipped tables (incmanager/groups) between ranks and engines. Messages take a
// random virtual time and are never lost; those of one session, or of one switch, keep their order, each way.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/groups/group_life.h"
#include "sim/choices.h"
#include "sim/shared/engine_contexts.h"
#include "sim/shared/world_manager.h"
#include "sim/world.h"

namespace epic::sim {

struct ControlOptions {
  manager::GroupOptions groups;
  Nanos message = 1;         // longest time of a message
  bool states_arena = true;  // switches say how much memory they have
  Nanos lease = 1;    // longest time from when somebody is gone, or back, until he says so or is missed
  uint64_t seed = 1;  // of PSNs and group ids
};

class Control final : public WorldManager, private manager::GroupWorld {
 public:
  // All but the options are borrowed, until the world has run.
  Control(World& world, const WorldConfig& config, const ControlOptions& options, Choices& choices,
          RankSessions& ranks);

  void Say(manager::SessionId session, const RankWord& word) override;
  void Miss(manager::SessionId session) override;
  void CrashEngine(int s, Nanos until) override;
  bool Explains(const manager::Failure& failure) const override {
    return failure.code == manager::ErrorCode::kSwitchLost && crashed_.contains(failure.switch_name);
  }
  Nanos KnownBy() const override { return world_.now() + options_.lease + 2 * options_.message + 1; }
  Status SetTenant(const manager::Tenant& tenant) override { return groups_.SetTenant(tenant); }
  Status RemoveTenant(const std::string& name) override { return groups_.RemoveTenant(name); }
  void SetDefaultPolicy(manager::Policy policy) override { groups_.SetDefaultPolicy(policy); }
  Status Create(const manager::GroupSpec& spec) override { return groups_.Create(spec); }
  Status Destroy(const std::string& name) override {
    return groups_.Destroy(world_.now(), name, /*force=*/false);
  }
  std::vector<std::string> Names() const override { return groups_.Names(); }
  const std::string& wrong() const override { return contexts_.wrong(); }
  std::string Leftovers() const override;
  void AddTo(Counts*) const override {}

 private:
  enum class Channel : uint8_t { kToRank, kFromRank, kToSwitch, kFromSwitch };

  void Send(manager::SessionId session, const manager::SessionEvent& event) override;
  void Install(manager::NodeId node, const manager::ContextPlan& context) override;
  void Fail(manager::NodeId node, uint64_t group_id, uint32_t generation) override;
  void Remove(manager::NodeId node, uint64_t group_id, uint32_t generation) override;
  void Note(const std::string&) override {}

  void Deliver(Channel channel, uint64_t number, EventQueue::Action action);
  void CarryOut(manager::SessionId session, const RankWord& word);
  void TickFrom(Nanos time);
  Nanos Within(Nanos most) { return 1 + static_cast<Nanos>(choices_.Below(static_cast<uint64_t>(most))); }
  manager::EngineReport ReportOf(manager::NodeId node) const;
  void Hear(manager::NodeId node, const manager::EngineReport* engine);

  World& world_;
  const ControlOptions options_;
  const size_t arena_bytes_;  // as switches state it
  Choices& choices_;
  RankSessions& ranks_;
  manager::Topology topology_;
  manager::SwitchTable switches_;
  manager::GroupLife groups_;
  std::map<std::pair<Channel, uint64_t>, Nanos> last_;  // when the last message of each comes
  EngineContexts contexts_;
  std::map<manager::NodeId, uint64_t> boot_ids_;  // of engines that have started anew
  std::set<std::string> crashed_;                 // switches, by name
};

}  // namespace epic::sim
