// AllReduce and Barrier of mode I in virtual time: the daemon's engine, the host library's core, lossy links.
#include <gtest/gtest.h>

#include <cstring>

#include "sim/jobs_testing.h"
#include "sim/world.h"

namespace epic::sim {
namespace {

// A host's acknowledgements do not wait for other ranks, so its timer can be short: code 8 is 1 ms.
WorldConfig ModeI(const TreeSpec& tree) {
  return {.mode = engine::Mode::kTerminated,
          .tree = tree,
          .host_timeout = 8,
          .arena_bytes = tree.rank_switch.size() > 8 ? size_t{16} << 20 : size_t{1} << 20};
}

TEST(TerminatedWorldTest, AllReduceIsRightOnEveryShape) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.name);
    World world(ModeI(shape.tree), 1);
    RunJobs(world, {1, 3, 255, 256, 257, 2048, 2049, LongCallOf(world)}, 10 * kSecond);
    const engine::Context& root = world.context(0);
    EXPECT_EQ(root.counters.repeats, 0u) << "nothing was lost, so nothing needs repeating";
    for (const engine::Endpoint& child : root.children) {
      EXPECT_EQ(child.counters.rnr_naks_sent, 0u) << "the rings hold a host's window";
    }
  }
}

TEST(TerminatedWorldTest, PsnsWrap) {
  for (const uint32_t start : {0xffffffu, 0xffffc0u}) {
    SCOPED_TRACE(start);
    WorldConfig config = ModeI(FullTree(2, 2));
    config.start_psn = start;
    World world(config, 1);
    RunJobs(world, {1, 0, 5000, 0, 1, 77777}, 10 * kSecond);
  }
}

TEST(TerminatedWorldTest, ManyOutstanding) {
  World world(ModeI(FullTree(2, 2)), 3);
  std::vector<size_t> counts;
  for (size_t k = 0; k < 60; ++k) counts.push_back(k % 3 == 0 ? 0 : k * 37);
  RunJobs(world, counts, 10 * kSecond);
}

TEST(TerminatedWorldTest, SmallWindows) {
  for (const uint32_t m : {1u, 3u, 16u}) {
    for (const uint32_t w : {1u, 2u, 5u}) {
      SCOPED_TRACE(testing::Message() << "M " << m << " W " << w);
      WorldConfig config = ModeI(FullTree(2, 2));
      config.message_packets = m;
      config.window_messages = w;
      World world(config, 1);
      RunJobs(world, {1, 0, 3000, 0, 0, 7777}, 10 * kSecond);
    }
  }
}

// Each frame of a short run is lost in turn; what repairs it is a NAK or the timer of one hop.
TEST(TerminatedWorldTest, EachSingleLossIsRepairedByItsHop) {
  for (const Shape& shape : {kShapes[1], kShapes[3]}) {
    WorldConfig config = ModeI(shape.tree);
    config.message_packets = 2;
    config.window_messages = 2;
    World reference(config, 7);
    RunJobs(reference, {600, 0}, kSecond);
    for (int64_t lost = 0; lost < reference.packets(); ++lost) {
      SCOPED_TRACE(testing::Message() << shape.name << ", frame " << lost << " lost");
      World world(config, 7);
      world.SetFaultRule(
          [&](const LinkPacket& p) { return p.number == lost ? Fate::kDrop : Fate::kDeliver; });
      EXPECT_LT(RunJobs(world, {600, 0}, 10 * kSecond), 2 * kMillisecond);
    }
  }
}

TEST(TerminatedWorldTest, EachPairOfLossesIsRepaired) {
  WorldConfig config = ModeI(FullTree(2, 2));
  config.message_packets = config.window_messages = 2;
  World reference(config, 7);
  RunJobs(reference, {300}, kSecond);
  for (int64_t a = 0; a < reference.packets(); ++a) {
    for (int64_t b = a + 1; b < reference.packets() + 8; ++b) {
      SCOPED_TRACE(testing::Message() << "frames " << a << " and " << b << " lost");
      World world(config, 7);
      world.SetFaultRule(
          [&](const LinkPacket& p) { return p.number == a || p.number == b ? Fate::kDrop : Fate::kDeliver; });
      RunJobs(world, {300}, 10 * kSecond);
    }
  }
}

void RandomFaults(const TreeSpec& tree, uint64_t loss_ppm, uint64_t duplicate_ppm, uint64_t delay_ppm,
                  uint64_t seeds) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay: seed " << seed << " loss " << loss_ppm << " duplicate "
                                    << duplicate_ppm << " delay " << delay_ppm);
    WorldConfig config = ModeI(tree);
    config.message_packets = config.window_messages = 4;
    World world(config, seed);
    world.SetFaultRule([&](const LinkPacket&) {
      if (world.choices().Chance(loss_ppm)) return Fate::kDrop;
      if (world.choices().Chance(duplicate_ppm)) return Fate::kDuplicate;
      return world.choices().Chance(delay_ppm) ? Fate::kDelay : Fate::kDeliver;
    });
    std::vector<size_t> counts;
    for (int k = 0; k < 20; ++k)
      counts.push_back(world.choices().Below(5) == 0 ? 0 : world.choices().Below(9000));
    RunJobs(world, counts, 600 * kSecond);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(TerminatedWorldTest, RandomLossOnAStar) { RandomFaults(Star(4), 10000, 0, 0, 60); }
TEST(TerminatedWorldTest, RandomLossOnATree) { RandomFaults(FullTree(2, 2), 10000, 0, 0, 60); }
TEST(TerminatedWorldTest, HeavyLoss) { RandomFaults(FullTree(2, 2), 100000, 0, 0, 10); }
TEST(TerminatedWorldTest, Duplication) { RandomFaults(FullTree(2, 2), 0, 50000, 0, 30); }
TEST(TerminatedWorldTest, Reordering) { RandomFaults(FullTree(2, 2), 0, 0, 20000, 30); }
TEST(TerminatedWorldTest, EverythingAtOnce) { RandomFaults(FullTree(3, 2), 10000, 10000, 10000, 20); }

// The others' messages wait in the switch, acknowledged: nothing is sent while they do.
TEST(TerminatedWorldTest, WaitingForALateRankSendsNothing) {
  for (const Shape& shape : {kShapes[1], kShapes[3]}) {
    SCOPED_TRACE(shape.name);
    World world(ModeI(shape.tree), 1);
    Job job(world.ranks(), 100000, 0);
    for (int r = 0; r < world.ranks(); ++r) {
      world.At(r == 2 ? 60 * kSecond : 0, [&, r] { job.Start(world, r); });
    }
    int64_t early = 0, before = 0;
    world.At(kSecond, [&] { early = world.packets(); });
    world.At(60 * kSecond - 1, [&] { before = world.packets(); });
    const auto done = [&] { return world.now() >= 60 * kSecond && world.AllDone(); };
    ASSERT_TRUE(world.RunUntil(done, 61 * kSecond));
    for (int r = 0; r < world.ranks(); ++r) EXPECT_EQ(job.WrongElements(r), 0u);
    EXPECT_EQ(before, early);
    EXPECT_LT(world.now(), 60 * kSecond + 20 * kMillisecond);
  }
}

TEST(TerminatedWorldTest, MismatchEndsInTheSameErrorOnEveryRank) {
  for (const Shape& shape : {kShapes[1], kShapes[3], kShapes[4]}) {
    SCOPED_TRACE(shape.name);
    World world(ModeI(shape.tree), 1);
    std::vector<Job> jobs = {Job(world.ranks(), 1000, 0), Job(world.ranks(), 100, 0)};
    for (int r = 0; r < world.ranks(); ++r) jobs[r == 2 ? 1 : 0].Start(world, r);
    ASSERT_TRUE(world.RunUntil([&] { return world.AllDone(); }, kSecond));
    for (int r = 0; r < world.ranks(); ++r) {
      EXPECT_EQ(world.host(r).state(0), CallState::kFailed);
      EXPECT_EQ(world.host(r).reply(0).status, ControlStatus::kMismatch);
      EXPECT_EQ(world.host(r).reply(0).field, ControlField::kCount);
      EXPECT_EQ(world.host(r).reply(0).culprit, world.host(0).reply(0).culprit);
    }
  }
}

}  // namespace
}  // namespace epic::sim
