#include "sim/dsa/jobs.h"

#include <gtest/gtest.h>

#include <string>

namespace epic::sim::dsa {
namespace {

constexpr Picos kMicros = kMicrosecond * kPicosPerNano;

// Four jobs of four workers with a thirtieth of the paper's data, time and memory.
JobsConfig SmallJobs(System system) {
  return {.system = system,
          .jobs = std::vector<Dnn>(4, Dnn{128'000, 10 * kMicros}),
          .workers = 4,
          .pool_bytes = 40'000,
          .window_bytes = 15'000,
          .start_spread = 30 * kMicros,
          .jitter = 10 * kMicros,
          .most_time = 100'000 * kMicros};
}

class DsaJobsTest : public testing::TestWithParam<System> {};
INSTANTIATE_TEST_SUITE_P(Systems, DsaJobsTest, testing::ValuesIn(kSystems),
                         [](const auto& param) { return std::string(NameOf(param.param)); });

TEST_P(DsaJobsTest, EachContributionIsInEachResultOnce) {
  for (const bool last_at_once : {false, true}) {
    JobsConfig config = SmallJobs(GetParam());
    config.last_at_once = last_at_once;
    const JobsRun run = RunJobs(config);
    EXPECT_EQ(run.open.jobs, 0);
    EXPECT_EQ(run.records.twice + run.records.missing, 0);
    EXPECT_EQ(run.types[0] + run.types[1] + run.types[2], 4 * 2000);
    EXPECT_EQ(run.types[2] > 0, GetParam() != System::kSwitchMl) << "the pool is too small for all";
  }
}

TEST_P(DsaJobsTest, SoItIsWithLosses) {
  JobsConfig config = SmallJobs(GetParam());
  config.worker_loss = 2'000;
  config.server_loss = GetParam() == System::kSwitchMl ? 0 : 2'000;
  const JobsRun run = RunJobs(config);
  EXPECT_EQ(run.open.jobs, 0);
  EXPECT_EQ(run.records.twice + run.records.missing, 0);
  EXPECT_GT(run.records.lost_packets.size(), 0U);
  EXPECT_GT(run.records.repeats, 0);
}

// Alone and without jitter all is known: the first gradient, all packets on the link, one more on the way
// down, and two links' delay. ATP's packets pass the server, and some of one job find no place.
TEST_P(DsaJobsTest, AJobAloneTakesWhatLinksTake) {
  JobsConfig config = SmallJobs(GetParam());
  config.jobs.resize(1);
  config.jitter = 0;
  config.pool_bytes = 2'000'000;
  config.window_bytes = 600'000;
  const bool by_server = GetParam() == System::kAtp;
  const int64_t packets = 2000 + (by_server ? 3 : 1);
  const Nanos links = 10 * kMicrosecond + packets * 306 * 8 / 100 + (by_server ? 10 : 5) * kMicrosecond;
  const Nanos took = RunJobs(config).completion;
  EXPECT_GE(took, links);
  EXPECT_LE(took, links + (by_server ? links / 10 : 5));
}

// The same numbers on every machine: a change of them is a change of the model.
TEST(DsaJobsNumbersTest, ARunIsPinned) {
  const JobsRun dsa = RunJobs(SmallJobs(System::kDsa));
  EXPECT_EQ(dsa.completion, 1'233'516);
  EXPECT_EQ(dsa.records.evictions, 172);
  const JobsRun atp = RunJobs(SmallJobs(System::kAtp));
  EXPECT_EQ(atp.completion, 684'055);
  EXPECT_EQ(atp.types[2], 2652);
}

// A split index waits for a timeout of a millisecond where nothing is lost.
TEST(DsaJobsNumbersTest, WhatIsSplitStallsUnlessTheLastPartLeavesAtOnce) {
  JobsConfig config = SmallJobs(System::kDsa);
  const JobsRun published = RunJobs(config);
  EXPECT_GT(published.stalled, 0);
  EXPECT_GT(published.completion, kMillisecond);
  EXPECT_GT(published.split_rest.p99, 700 * kMicrosecond);
  config.last_at_once = true;
  const JobsRun at_once = RunJobs(config);
  EXPECT_EQ(at_once.stalled, 0);
  EXPECT_EQ(at_once.records.reminders, 0);
  EXPECT_LT(at_once.split_rest.p99, 5 * 10 * kMicrosecond) << "round trips of two hosts";
  EXPECT_LT(at_once.completion, kMillisecond);
}

// The paper's server asks for originals; who has the result in their place has none.
TEST(DsaJobsNumbersTest, AnIndexHangsWhereOriginalsAreGone) {
  JobsConfig config = SmallJobs(System::kDsa);
  config.worker_loss = 5'000;
  EXPECT_EQ(RunJobs(config).open.jobs, 0);
  config.in_place = true;
  const JobsRun run = RunJobs(config);
  EXPECT_GT(run.open.hung, 0);
  EXPECT_GT(run.records.gone, 0);
}

TEST(DsaJobsNumbersTest, OverlappingSumsCountTwiceIfTheyAreAdded) {
  JobsConfig config = SmallJobs(System::kDsa);
  config.worker_loss = 5'000;
  config.adds_overlaps = true;
  const JobsRun run = RunJobs(config);
  EXPECT_GT(run.records.overlaps, 0);
  EXPECT_GT(run.records.twice, 0);
  EXPECT_EQ(run.records.missing, 0);
}

TEST(DsaJobsNumbersTest, JitterOfAJobLetsNoWorkerDrift) {
  JobsConfig config = SmallJobs(System::kDsa);
  config.pool_bytes = 1'000'000;
  config.window_bytes = 600'000;
  EXPECT_GT(RunJobs(config).claims.p50, 0);
  config.jitter_of = JitterOf::kJob;
  EXPECT_EQ(RunJobs(config).claims.p99, 0);
}

TEST(DsaJobsNumbersTest, AMarkHalvesTheWindow) {
  JobsConfig config = SmallJobs(System::kAtp);
  config.aimd = true;
  config.window_bytes = 300'000;
  config.ecn_bytes = 5'000;
  const JobsRun adapted = RunJobs(config);
  config.aimd = false;
  EXPECT_LT(adapted.records.longest_queue, RunJobs(config).records.longest_queue);
}

TEST(DsaConfigTest, WhatCannotBeSimulatedIsNamed) {
  const auto text = [](auto change) {
    JobsConfig config;
    change(config);
    return std::string(Validate(config).message());
  };
  EXPECT_EQ(text([](JobsConfig&) {}), "");
  EXPECT_EQ(text([](JobsConfig& c) { c.workers = 17; }), "17 workers of a job: not from 1 to 16");
  EXPECT_EQ(text([](JobsConfig& c) { c.jobs.clear(); }), "0 jobs: not from 1 to 64");
  EXPECT_EQ(text([](JobsConfig& c) { c.pool_bytes = 255; }),
            "a pool of 255 bytes: dsa needs 1 of 256 bytes at least");
  EXPECT_EQ(text([](JobsConfig& c) { c.window_bytes = 305; }), "a window of 305 bytes: a packet has 306");
  EXPECT_EQ(text([](JobsConfig& c) {
              c.aimd = true;
              c.most_window = 59'999;
            }),
            "a window of 60000 bytes: more than the most, 59999");
  EXPECT_EQ(text([](JobsConfig& c) { c.payload_bytes = 0; }),
            "packets of 50 and 0 bytes: not from 1 to 65536 together");
  EXPECT_EQ(text([](JobsConfig& c) { c.forward_percent = 101; }), "101 % of computation: not from 0 to 100");
  EXPECT_EQ(text([](JobsConfig& c) {
              c.system = System::kSwitchMl;
              c.server_loss = 1;
            }),
            "switchml has no server that could lose packets");
}

}  // namespace
}  // namespace epic::sim::dsa
