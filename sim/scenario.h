// What a simulated run is, as one line that replays it: "seed=7 topology=tree-3-2 mode=mixed scenario=loss
// calls=30".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sim/choices.h"
#include "sim/faults.h"
#include "sim/topologies.h"
#include "sim/world.h"

namespace epic::sim {

inline constexpr int kMaxCalls = 10'000;

// Everything else of a run follows from these.
struct Scenario {
  uint64_t seed = 1;
  std::string topology;
  std::string mode;
  std::string name;                                     // of the faults
  int calls = 20;                                       // of each group
  std::optional<uint32_t> inline_bytes = std::nullopt;  // the groups' inline limit; else the seed's choice
  std::string send_windows = {};  // of ranks: "fixed"; "changing", now and then; empty: the seed's choice
  std::string acks = {};          // hosts': "each" message; "shared" by small calls; empty: the seed's choice
  std::string super_frames = {};  // as SuperFrameLinksNamed; else the seed's choice
  // Of switches and hosts: "exact"; "late", as on a loaded machine; empty: the seed's choice, made by
  // Complete, and exact where that was not asked.
  std::string timers = {};
  // Of calls: "first", those with which lines began; "all", with all operations; empty: the seed's choice,
  // made by Complete, and the first where that was not asked.
  std::string types = {};
  // Of groups' calls: "network"; "hosts"; "mixed", each group one of the two, or both, what its switches lack
  // between the hosts. Empty: the seed's choice, made by Complete, and the network where that was not asked.
  std::string path = {};
  // Of calls: "whole", or "cut" if they are long, into slices. Empty: the seed's choice, made by Complete,
  // and whole where that was not asked.
  std::string slices = {};
  // Of each group's calls between the hosts: "first", one of the algorithms that there were when lines began
  // to have a path; "multicast"; "all", each of the two for half of the groups. Empty: the seed's choice,
  // made by Complete, and the first where that was not asked.
  std::string algorithm = {};
  // Of floating-point numbers in reductions: "plain"; "blocks", which are sums then, and travel as such.
  // Empty: the seed's choice, made by Complete, and plain where that was not asked.
  std::string numbers = {};

  friend bool operator==(const Scenario&, const Scenario&) = default;
};

// What `name` stands for: what goes wrong until the faults end.
struct FaultPlan {
  const char* name;
  const char* meaning;
  FaultRates rates;
  bool stops_hosts = false;
  bool late_ranks = false;
  bool crashes_engines = false;  // those of switches lose their groups and start anew
  bool kills_hosts = false;      // which come back without the ranks that they had
  // Groups come and go, placed by the manager's own tables: RunShared (sim/shared) in place of RunTrial.
  bool shares = false;
  bool restarts = false;  // and the manager dies and comes back: RunRestarts (sim/restarts) in place of that
  // Of canaries, whose runs must not end right.
  bool flips = false;     // data reaches the hosts changed
  bool swallows = false;  // when the faults should end, all packets are lost
  bool aborts = false;    // when the faults should end, a check fails
  bool reuses = false;    // a group has the QPNs and PSNs of the one before it, at once

  bool canary() const { return flips || swallows || aborts || reuses; }
  // Seeds choose it; else it is run by name alone.
  bool by_seed() const { return !canary() && !shares; }
};

// All of them, those that seeds choose first; canaries last.
const std::vector<FaultPlan>& FaultPlans();
// The plan of a name; the name must be one of FaultPlans().
const FaultPlan& PlanNamed(std::string_view name);

// A mode's number; "mixed" is mode 1 or 3 by chance at each switch (mode 2 mixes with none).
ModeSpec ModesNamed(const std::string& mode, const TreeSpec& tree, Choices& choices);

// As the scenario says, or else its seed; chosen apart, so that what else the seed chooses is the same.
bool SharesAcks(const Scenario& scenario);

// Most data of an invocation where counts are at most max_count, by the scenario and its seed; chosen apart
// as well.
uint64_t InvocationBytes(const Scenario& scenario, uint64_t max_count);

// What a scenario's mode may be: each of the table by its number, and mixed.
std::vector<std::string> ModesOfScenarios();

// Topology, mode, name, timers, types, path, slices, algorithm and numbers chosen by the seed where they are
// empty. Any run of as many consecutive seeds as there are combinations of the first three has each once.
// What a seed means holds for one commit. A quarter of the seeds has late timers, half of them calls of all
// types, half of them mixed paths, half of them slices; half of those that do not go by the network alone
// have all algorithms.
Scenario ChosenBySeed(Scenario scenario);

// The same, with the mode's number in place of its name. An error names the first value
// that is not one.
StatusOr<Scenario> Complete(Scenario scenario);

// The line, and back. Parse takes keys in any order; each must be there, but for calls, inline,
// send-windows, acks, super-frames, timers, which are exact unless the line says that they are late, types,
// which are the first unless it says all, path, which is the network unless it says another, slices: calls
// are whole unless it says that they are cut, and algorithm, the first unless it says another.
std::string ReplayLine(const Scenario& scenario);
StatusOr<Scenario> ParseReplayLine(const std::string& line);

}  // namespace epic::sim
