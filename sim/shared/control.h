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
#include "sim/world.h"

namespace epic::sim {

struct ControlOptions {
  manager::GroupOptions groups;
  Nanos message = 1;         // longest time of a message
  bool states_arena = true;  // switches say how much memory they have
  Nanos lease = 1;    // longest time from when somebody is gone, or back, until he says so or is missed
  uint64_t seed = 1;  // of PSNs and group ids
};

// What ranks are told.
class RankSessions {
 public:
  virtual ~RankSessions() = default;
  // The manager sends it; nobody has it yet. The table must not be called.
  virtual void OnSent(manager::SessionId session, const manager::SessionEvent& event) = 0;
  // It is there.
  virtual void OnEvent(manager::SessionId session, const manager::SessionEvent& event) = 0;
};

class Control final : private manager::GroupWorld {
 public:
  using Request = std::function<void(manager::GroupLife&, Nanos now)>;

  // All but the options are borrowed, until the world has run.
  Control(World& world, const WorldConfig& config, const ControlOptions& options, Choices& choices,
          RankSessions& ranks);

  manager::GroupLife& groups() { return groups_; }
  const manager::GroupLife& groups() const { return groups_; }
  const manager::Topology& topology() const { return topology_; }

  // What a rank says: carried out at the table when it is there.
  void Say(manager::SessionId session, Request request);

  // The engine of a switch loses all its groups, and is back at a time. The table is told so then; of some
  // also that they are down.
  void CrashEngine(int s, Nanos until);
  bool HasCrashed(const std::string& switch_name) const { return crashed_.contains(switch_name); }
  // A rank's process is gone without a word.
  void Miss(manager::SessionId session);
  // All that was said up to now of who is gone has been carried out by then.
  Nanos KnownBy() const { return world_.now() + options_.lease + 2 * options_.message + 1; }

  // The first thing that went wrong between table and engines: an installation that the table had counted and
  // an engine refused, a QPN that was given to two groups, or again before it had rested. Empty if nothing.
  const std::string& wrong() const { return wrong_; }
  // What a switch, the table or its QPNs still have of groups; empty if nothing.
  std::string Leftovers() const;

 private:
  enum class Channel : uint8_t { kToRank, kFromRank, kToSwitch, kFromSwitch };

  void Send(manager::SessionId session, const manager::SessionEvent& event) override;
  void Install(manager::NodeId node, const manager::ContextPlan& context) override;
  void Fail(manager::NodeId node, uint64_t group_id, uint32_t generation) override;
  void Remove(manager::NodeId node, uint64_t group_id, uint32_t generation) override;
  void Note(const std::string&) override {}

  void Deliver(Channel channel, uint64_t number, EventQueue::Action action);
  void InstallAt(manager::NodeId node, const manager::ContextPlan& context);
  void RemoveAt(manager::NodeId node, uint64_t group_id, uint32_t generation);
  void TakeQpn(manager::NodeId node, Qpn qpn);
  void ForgetQpns(manager::NodeId node, const engine::GroupConfig& config);
  void TickFrom(Nanos time);
  Nanos Within(Nanos most) { return 1 + static_cast<Nanos>(choices_.Below(static_cast<uint64_t>(most))); }
  manager::EngineReport ReportOf(manager::NodeId node) const;
  void Hear(manager::NodeId node, const manager::EngineReport* engine);
  void Complain(std::string what);

  World& world_;
  const ControlOptions options_;
  const size_t arena_bytes_;  // as switches state it
  Choices& choices_;
  RankSessions& ranks_;
  manager::Topology topology_;
  manager::SwitchTable switches_;
  manager::GroupLife groups_;
  std::map<std::pair<Channel, uint64_t>, Nanos> last_;        // when the last message of each comes
  std::set<std::pair<manager::NodeId, Qpn>> qpns_;            // that contexts have
  std::map<std::pair<manager::NodeId, Qpn>, Nanos> resting_;  // since when others had been given back
  std::map<manager::NodeId, uint64_t> boot_ids_;              // of engines that have started anew
  std::set<std::string> crashed_;                             // switches, by name
  std::string wrong_;
};

}  // namespace epic::sim
