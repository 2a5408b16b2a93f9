// What epic-check explores, as options and as one line that replays a counterexample: "mode=2
// collective=allreduce topology=tree-3-2 messages=1 window=2 losses=1 steps=S3,D6,L2,T".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "check/model.h"
#include "check/system.h"

namespace epic::check {

struct Setup {
  std::string path = "network";          // or "hosts": calls go between the hosts
  uint32_t ranks = 3;                    // of the hosts' path, as these two:
  std::string algorithm = "ring";        // or "doubling", "multicast"
  uint32_t tokens = 0;                   // by multicast: SystemConfig::tokens
  std::string different;                 // a field and a rank, "count@1": SystemConfig::different
  std::string mode = "2";                // 1, 2, 3; or one digit per switch, the root's first: "133"
  std::string collective = "allreduce";  // names with commas between them, a root after @, how often after *:
                                         // "reduce@2,barrier*3"; with a + behind the name inlined:
                                         // "reduce+@2", a message of M packets with the header
  std::string calls = "together";        // apart; after-results
  std::string topology = "tree-3-2";  // as epic-sim's; or chain, fork: with one host at each of two switches
  uint32_t groups = 1;                // several: their memory in every switch is one block
  uint32_t pool = 0;                  // places of a pool at the only switch; 0: there is none
  std::string pool_policy = "priority";  // or fcfs, always, coin
  uint32_t slices = 1;                   // in which the calls with data are made
  uint32_t messages = 1;                 // of each call, and of each of its parts
  uint32_t message_packets = 1;          // M
  uint32_t window = 2;                   // W
  uint32_t psn = 0xfffffe;               // first PSN of every direction
  std::string send_windows = "fixed";    // or "changing": SystemConfig::changes_windows
  std::string buffers = "separate";      // or "bounce": where calls lie at the hosts (SystemConfig::bounces)
  std::string type = "int32";            // of elements: any integer; of sums also bfloat16, float16
  std::string op = "sum";  // sum, product, bxor: those that show who is in a result, and how often
  FaultBounds faults;
  std::string late_calls = "0";        // a number; any
  std::string reorder = "neighbours";  // any
  std::string without;                 // names of invariants, with commas: SystemConfig::without
};

// The system. An error names the first value that is not one.
StatusOr<SystemConfig> Build(const Setup& setup);

// The faults, late calls and orders that are explored; of a setup that Build takes.
FaultBounds BoundsOf(const Setup& setup);

// The line without steps.
std::string Line(const Setup& setup);

// Steps as the line has them: a letter and the channel or node, for example "D6"; where there is no order,
// the packet's place after a colon: "D6:2".
std::string StepNames(const std::vector<Action>& steps);

struct Replay {
  Setup setup;
  std::vector<Action> steps;
};
// Keys in any order; what is not given is as by default.
StatusOr<Replay> ParseReplay(const std::string& line);

}  // namespace epic::check
