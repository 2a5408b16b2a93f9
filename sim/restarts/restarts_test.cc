// Whole runs with a manager that dies and comes back from what its store has kept.
#include <gtest/gtest.h>

#include <string>

#include "base/seeds_testing.h"
#include "sim/restarts/restarts_trial.h"
#include "sim/scenario.h"

namespace epic::sim {
namespace {

// Every other seed on a network with several ways.
Scenario Restarts(uint64_t seed) {
  return *Complete({.seed = seed, .topology = seed % 2 == 0 ? "spine-2-3-2" : "", .name = "restarts"});
}

// No group is lost whose ranks come back, nobody is told what is not kept, and nothing is left of anybody.
TEST(RestartsTest, WhatRanksWereToldHoldsUnderEachLaterManager) {
  const TestSeeds seeds = SeedsToRun(160);
  Counts counts;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const Scenario scenario = Restarts(seed);
    SCOPED_TRACE("replay: epic-sim run --replay '" + ReplayLine(scenario) + "'");
    const Outcome outcome = RunRestarts(scenario);
    ASSERT_EQ(outcome.verdict, Verdict::kRight) << outcome.detail;
    counts += outcome.counts;
  }
  if (seeds.count < 160) return;
  const auto runs = static_cast<int64_t>(seeds.count);
  EXPECT_GT(counts.restarts, 2 * runs);
  EXPECT_GT(counts.returned, 4 * runs);
  EXPECT_GT(counts.by_network, runs / 2);
  EXPECT_GT(counts.with_block, runs / 2);
  EXPECT_GT(counts.by_path_hosts, runs / 2);
  EXPECT_GT(counts.failed, runs / 10);
  EXPECT_GT(counts.crashes, runs / 10);
}

// Though secrets are the system's.
TEST(RestartsTest, ALineIsAllThereIsToARun) {
  const auto trace_of = [](uint64_t seed) {
    std::string trace;
    RunRestarts(Restarts(seed), [&trace](std::string_view line) { trace += std::string(line) + "\n"; });
    return trace;
  };
  const std::string once = trace_of(3);
  EXPECT_GT(once.size(), 1000u);
  EXPECT_EQ(trace_of(3), once);
}

}  // namespace
}  // namespace epic::sim
