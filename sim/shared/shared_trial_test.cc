// Whole runs of groups that the manager's tables place, on switches with room for few.
#include "sim/shared/shared_trial.h"

#include <gtest/gtest.h>

#include <string>

#include "base/seeds_testing.h"
#include "sim/scenario.h"

namespace epic::sim {
namespace {

// Every other seed on a network with several ways.
Scenario Shared(uint64_t seed) {
  return *Complete({.seed = seed, .topology = seed % 2 == 0 ? "spine-2-3-2" : "", .name = "shared"});
}

// Every seed ends right, and over some hundreds all that can become of a group and of a call does.
TEST(SharedTrialTest, AllThatCanBecomeOfAGroupDoesAndIsRight) {
  const TestSeeds seeds = SeedsToRun(150);
  Counts counts;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const Scenario scenario = Shared(seed);
    SCOPED_TRACE("replay: epic-sim run --replay '" + ReplayLine(scenario) + "'");
    const Outcome outcome = RunShared(scenario);
    ASSERT_EQ(outcome.verdict, Verdict::kRight) << outcome.detail;
    counts += outcome.counts;
  }
  if (seeds.count < 150) return;
  const auto runs = static_cast<int64_t>(seeds.count);
  EXPECT_GT(counts.by_network, runs / 2);
  EXPECT_GT(counts.with_block, runs / 2);
  EXPECT_GT(counts.by_path_hosts, runs / 2);
  EXPECT_GT(counts.refused, runs / 10);
  EXPECT_GT(counts.granted, runs);
  EXPECT_GT(counts.busy, runs / 10);
  EXPECT_GT(counts.failed, runs / 10);
  EXPECT_GT(counts.aborted, runs / 10);
  EXPECT_GT(counts.crashes, runs / 10);
  EXPECT_GT(counts.lost, 0);
}

// The same line is the same run, to the packet.
TEST(SharedTrialTest, ALineIsAllThereIsToARun) {
  const auto trace_of = [](uint64_t seed) {
    std::string trace;
    RunShared(Shared(seed), [&trace](std::string_view line) { trace += std::string(line) + "\n"; });
    return trace;
  };
  const std::string once = trace_of(3);
  EXPECT_GT(once.size(), 1000u);
  EXPECT_EQ(trace_of(3), once);
  EXPECT_NE(trace_of(4), once);
}

}  // namespace
}  // namespace epic::sim
