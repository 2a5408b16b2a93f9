// For the tests of this folder: models of small systems, and systems by chance.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/seeds_testing.h"
#include "check/model.h"
#include "check/setup.h"
#include "sim/choices.h"

namespace epic::check {

inline SystemConfig Built(const Setup& setup) {
  const auto config = Build(setup);
  if (!config.ok()) ADD_FAILURE() << config.status().message();
  return config.value();
}
inline Model ModelOf(const Setup& setup) { return Model(Built(setup), BoundsOf(setup)); }

template <typename T, size_t n>
const T& OneOf(sim::Choices& choices, const T (&values)[n]) {
  return values[choices.Below(n)];
}

// One that Build takes. Bounds of faults from 0 to 2.
inline Setup RandomSetup(sim::Choices& choices) {
  static constexpr const char* kTopologies[] = {"star-2", "star-3", "tree-3-2", "uneven"};
  static constexpr const char* kCollectives[] = {
      "allreduce",     "reduce@1",  "broadcast",          "barrier",
      "reducescatter", "allgather", "reduce@1,allreduce", "broadcast@1,reduce,barrier"};
  // Each mode, and trees of modes that mix.
  std::vector<std::string> modes;
  for (const Mode mode : ModesOfOwnMemory()) modes.push_back(std::to_string(NumberOf(mode)));
  for (const Mode one : ModesOfOwnMemory()) {
    for (const Mode other : ModesOfOwnMemory()) {
      if (one == other || !MayMix(one, other)) continue;
      const std::string a = std::to_string(NumberOf(one)), b = std::to_string(NumberOf(other));
      modes.insert(modes.end(), {a + b + b, a + b + a});
    }
  }
  Setup setup;
  setup.mode = modes[choices.Below(modes.size())];
  setup.topology = setup.mode.size() == 3 ? "tree-3-2" : OneOf(choices, kTopologies);
  setup.collective = OneOf(choices, kCollectives);
  setup.messages = static_cast<uint32_t>(1 + choices.Below(3));
  setup.message_packets = static_cast<uint32_t>(1 + choices.Below(2));
  setup.window = static_cast<uint32_t>(1 + choices.Below(2));
  setup.psn = choices.Below(2) == 0 ? 0xfffffe : 5;
  static constexpr const char* kCalls[] = {"together", "apart", "after-results"};
  static constexpr const char* kLate[] = {"0", "1", "2"};
  setup.calls = OneOf(choices, kCalls);
  setup.late_calls = OneOf(choices, kLate);
  FaultBounds& f = setup.faults;
  for (uint32_t* bound : {&f.losses, &f.duplicates, &f.reorderings, &f.timeouts, &f.crashes, &f.regroups})
    *bound = static_cast<uint32_t>(choices.Below(3));
  if (f.reorderings == 0 && choices.Below(2) == 0) setup.reorder = "any";
  if (choices.Below(2) == 0) setup.buffers = "bounce";
  if (choices.Below(2) == 0) setup.send_windows = "changing";
  if (choices.Below(2) == 0) f.late_timers = static_cast<uint32_t>(1 + choices.Below(2));
  return setup;
}

// The same of calls between the hosts.
inline Setup RandomHostsSetup(sim::Choices& choices) {
  static constexpr const char* kCollectives[] = {"allreduce", "barrier", "allreduce*2", "barrier,allreduce"};
  static constexpr const char* kDifferent[] = {"", "", "collective@1", "collective@0"};
  Setup setup{.path = "hosts"};
  setup.ranks = static_cast<uint32_t>(2 + choices.Below(4));
  setup.algorithm = choices.Below(3) == 0 ? "doubling" : "ring";
  setup.collective = OneOf(choices, kCollectives);
  setup.different = OneOf(choices, kDifferent);
  if (setup.algorithm == "ring") setup.messages = static_cast<uint32_t>(1 + choices.Below(3));
  setup.psn = choices.Below(2) == 0 ? 0xfffffe : 5;
  static constexpr const char* kCalls[] = {"together", "apart", "after-results"};
  setup.calls = OneOf(choices, kCalls);
  FaultBounds& f = setup.faults;
  for (uint32_t* bound : {&f.losses, &f.duplicates, &f.reorderings, &f.timeouts, &f.late_timers})
    *bound = static_cast<uint32_t>(choices.Below(3));
  return setup;
}

// The same of calls by multicast.
inline Setup RandomMulticastSetup(sim::Choices& choices) {
  static constexpr const char* kCollectives[] = {"allgather", "broadcast@1", "broadcast*2",
                                                 "allgather,barrier,broadcast"};
  static constexpr const char* kCalls[] = {"together", "apart", "after-results"};
  Setup setup{.path = "hosts", .algorithm = "multicast"};
  setup.ranks = static_cast<uint32_t>(2 + choices.Below(3));
  setup.collective = OneOf(choices, kCollectives);
  setup.messages = static_cast<uint32_t>(1 + choices.Below(6));
  if (setup.messages > 4) setup.tokens = static_cast<uint32_t>(choices.Below(3));
  setup.calls = OneOf(choices, kCalls);
  FaultBounds& f = setup.faults;
  for (uint32_t* bound : {&f.losses, &f.duplicates, &f.reorderings})
    *bound = static_cast<uint32_t>(choices.Below(3));
  return setup;
}

// The same of groups that share a block in every switch.
inline Setup RandomGroupsSetup(sim::Choices& choices) {
  static constexpr const char* kTopologies[] = {"star-2", "star-3", "chain", "fork", "uneven"};
  static constexpr const char* kCollectives[] = {"allreduce*2", "reduce@1", "broadcast,allreduce+",
                                                 "barrier,allgather"};
  static constexpr const char* kCalls[] = {"together", "apart", "after-results"};
  Setup setup;
  setup.mode = choices.Below(2) == 0 ? "2" : "3";
  setup.topology = OneOf(choices, kTopologies);
  setup.collective = OneOf(choices, kCollectives);
  setup.calls = OneOf(choices, kCalls);
  setup.groups = static_cast<uint32_t>(2 + choices.Below(2));
  setup.messages = static_cast<uint32_t>(1 + choices.Below(3));
  if (choices.Below(2) == 0) setup.buffers = "bounce";
  const bool inlines = setup.collective.find('+') != std::string::npos;
  if (!inlines && choices.Below(2) == 0) {
    setup.slices = static_cast<uint32_t>(2 + choices.Below(2));
    setup.messages *= setup.slices;
  }
  return setup;
}

// The same of groups over one pool.
inline Setup RandomPoolSetup(sim::Choices& choices) {
  static constexpr const char* kTopologies[] = {"star-2", "star-3"};
  static constexpr const char* kCollectives[] = {"allreduce*2", "reduce@1", "broadcast,allreduce+",
                                                 "barrier,allgather"};
  static constexpr const char* kCalls[] = {"together", "apart", "after-results"};
  static constexpr const char* kPolicies[] = {"priority", "fcfs", "always", "coin"};
  Setup setup{.mode = "5"};
  setup.topology = OneOf(choices, kTopologies);
  setup.collective = OneOf(choices, kCollectives);
  setup.calls = OneOf(choices, kCalls);
  setup.groups = static_cast<uint32_t>(1 + choices.Below(3));
  setup.pool = static_cast<uint32_t>(1 + choices.Below(3));
  setup.pool_policy = OneOf(choices, kPolicies);
  setup.messages = static_cast<uint32_t>(1 + choices.Below(3));
  if (choices.Below(2) == 0) setup.buffers = "bounce";
  return setup;
}

// The seeds of a test: those of SeedsToRun.
inline std::vector<uint64_t> Seeds(uint64_t count) {
  const TestSeeds some = SeedsToRun(count);
  std::vector<uint64_t> seeds(some.count);
  for (uint64_t i = 0; i < some.count; ++i) seeds[i] = some.first + i;
  return seeds;
}
// For SCOPED_TRACE.
inline testing::Message ReplayOf(uint64_t seed, const Setup& setup) {
  return testing::Message() << "replay: EPIC_SEED=" << seed << " with this test as --gtest_filter; "
                            << Line(setup);
}

}  // namespace epic::check
