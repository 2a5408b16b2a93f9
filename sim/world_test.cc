// AllReduce and Barrier in virtual time, in each mode: the daemon's engine, the host library's core, lossy
// links.
#include "sim/world.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include "sim/jobs_testing.h"

namespace epic::sim {
namespace {

class WorldTest : public testing::TestWithParam<engine::Mode> {};

// All but mode I, which goes by whole messages: world_terminated_test.cc.
std::vector<Mode> ModesByPackets() {
  std::vector<Mode> modes;
  for (const Mode mode : ModesOfOwnMemory()) {
    if (mode != Mode::kTerminated) modes.push_back(mode);
  }
  return modes;
}

INSTANTIATE_TEST_SUITE_P(Modes, WorldTest, testing::ValuesIn(ModesByPackets()),
                         [](const auto& param) { return std::string(NumeralOf(param.param)); });

TEST_P(WorldTest, AllReduceIsRightOnEveryShape) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.name);
    World world({.mode = GetParam(), .tree = shape.tree}, 1);
    RunJobs(world, {1, 3, 255, 256, 257, 2048, 2049, LongCallOf(world)}, 10 * kSecond);
    const engine::Context& root = world.context(0);
    EXPECT_GT(root.counters.aggregated_packets, 0u);
    EXPECT_EQ(root.counters.repeats, 0u) << "nothing was lost, so nothing needs repeating";
  }
}

TEST_P(WorldTest, PsnsWrap) {
  for (const uint32_t start : {0xffffffu, 0xfffffeu, 0xffffc0u, 0xfffff7u}) {
    SCOPED_TRACE(start);
    World world({.mode = GetParam(), .tree = FullTree(2, 2), .start_psn = start}, 1);
    RunJobs(world, {1, 0, 5000, 0, 1, 77777}, 10 * kSecond);
  }
}

TEST_P(WorldTest, InPlaceAndBarriersAndManyOutstanding) {
  World world({.mode = GetParam(), .tree = FullTree(2, 2)}, 3);
  std::vector<size_t> counts;
  for (size_t k = 0; k < 60; ++k) counts.push_back(k % 3 == 0 ? 0 : k * 37);
  RunJobs(world, counts, 10 * kSecond, /*in_place=*/true);
}

TEST_P(WorldTest, SmallWindows) {
  for (const uint32_t m : {1u, 3u, 16u}) {
    for (const uint32_t w : {1u, 2u, 5u}) {
      SCOPED_TRACE(testing::Message() << "M " << m << " W " << w);
      World world({.mode = GetParam(), .tree = FullTree(2, 2), .message_packets = m, .window_messages = w},
                  1);
      RunJobs(world, {1, 0, 3000, 0, 0, 7777}, 10 * kSecond);
    }
  }
}

// Each frame of a short run is lost in turn: the result is right each time, and no recovery takes longer than
// the switches' prompting does; the hosts' own timer (one second) is never the one that repairs.
TEST_P(WorldTest, EachSingleLossIsRepairedByPrompting) {
  for (const Shape& shape : {kShapes[1], kShapes[3]}) {
    const WorldConfig config{
        .mode = GetParam(), .tree = shape.tree, .message_packets = 2, .window_messages = 2};
    World reference(config, 7);
    RunJobs(reference, {256, 0}, kSecond);
    const int64_t frames = reference.packets();
    ASSERT_LE(frames, 96) << shape.name;
    Nanos slowest = 0;
    int64_t slowest_frame = -1;
    for (int64_t lost = 0; lost < frames; ++lost) {
      SCOPED_TRACE(testing::Message() << shape.name << ", frame " << lost << " of " << frames << " lost");
      World world(config, 7);
      std::string what;
      world.SetFaultRule(
          [&](const LinkPacket& p) { return p.number == lost ? Fate::kDrop : Fate::kDeliver; });
      const Nanos took = RunJobs(world, {256, 0}, 10 * kSecond);
      if (took > slowest) {
        slowest = took;
        slowest_frame = lost;
      }
    }
    std::printf("%s: %ld frames, slowest recovery %.3f ms (frame %ld)\n", shape.name,
                static_cast<long>(frames), static_cast<double>(slowest) / 1e6,
                static_cast<long>(slowest_frame));
    EXPECT_LT(slowest, 4 * config.prompt_ns) << "frame " << slowest_frame;
  }
}

// The same with timers that are late by up to many prompt intervals: repaired as well, only later.
TEST_P(WorldTest, EachSingleLossIsRepairedByLateTimers) {
  const WorldConfig config{
      .mode = GetParam(), .tree = FullTree(2, 2), .message_packets = 2, .window_messages = 2};
  WorldConfig late = config;
  late.late_timers_ns = 16 * config.prompt_ns;
  World reference(config, 7);
  RunJobs(reference, {256, 0}, kSecond);
  EXPECT_EQ(reference.late_timers(), 0);
  Nanos exact_took = 0;
  Nanos late_took = 0;
  for (int64_t lost = 0; lost < reference.packets(); ++lost) {
    SCOPED_TRACE(testing::Message() << "frame " << lost << " lost");
    const auto run = [lost](const WorldConfig& of) {
      World world(of, 7);
      world.SetFaultRule(
          [&](const LinkPacket& p) { return p.number == lost ? Fate::kDrop : Fate::kDeliver; });
      const Nanos took = RunJobs(world, {256, 0}, 10 * kSecond);
      EXPECT_EQ(world.late_timers() > 0, of.late_timers_ns > 0);
      return took;
    };
    exact_took += run(config);
    late_took += run(late);
  }
  EXPECT_GT(late_took, 2 * exact_took);
}

TEST_P(WorldTest, EachPairOfLossesIsRepaired) {
  const WorldConfig config{
      .mode = GetParam(), .tree = FullTree(2, 2), .message_packets = 2, .window_messages = 2};
  World reference(config, 7);
  RunJobs(reference, {300}, kSecond);
  for (int64_t a = 0; a < reference.packets(); ++a) {
    for (int64_t b = a + 1; b < reference.packets() + 8; ++b) {
      SCOPED_TRACE(testing::Message() << "frames " << a << " and " << b << " lost");
      World world(config, 7);
      world.SetFaultRule(
          [&](const LinkPacket& p) { return p.number == a || p.number == b ? Fate::kDrop : Fate::kDeliver; });
      RunJobs(world, {300}, 30 * kSecond);
    }
  }
}

// Both hosts of a leaf lose their first packets: the leaf knows nothing of them, the root's other child is
// ahead.
TEST_P(WorldTest, LossAtAllHostsOfALeafIsRepairedByPromptingThroughIt) {
  const WorldConfig config{.mode = GetParam(), .tree = FullTree(2, 2)};
  World world(config, 1);
  std::map<int, int> seen;
  world.SetFaultRule([&](const LinkPacket& p) {
    const bool from_leaf_1 = p.from == world.node_of_rank(0) || p.from == world.node_of_rank(1);
    return from_leaf_1 && seen[p.from]++ < 2 ? Fate::kDrop : Fate::kDeliver;
  });
  EXPECT_LT(RunJobs(world, {100}, 10 * kSecond), 4 * config.prompt_ns);
}

void RandomFaults(engine::Mode mode, const TreeSpec& tree, uint64_t loss_ppm, uint64_t duplicate_ppm,
                  uint64_t delay_ppm, uint64_t seeds) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay: seed " << seed << " loss " << loss_ppm << " duplicate "
                                    << duplicate_ppm << " delay " << delay_ppm);
    World world({.mode = mode, .tree = tree, .message_packets = 4, .window_messages = 4}, seed);
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

TEST_P(WorldTest, RandomLossOnAStar) { RandomFaults(GetParam(), Star(4), 10000, 0, 0, 60); }
TEST_P(WorldTest, RandomLossOnATree) { RandomFaults(GetParam(), FullTree(2, 2), 10000, 0, 0, 60); }
TEST_P(WorldTest, RandomLossOnThreeLevels) { RandomFaults(GetParam(), FullTree(3, 2), 10000, 0, 0, 30); }
TEST_P(WorldTest, HeavyLoss) { RandomFaults(GetParam(), FullTree(2, 2), 100000, 0, 0, 10); }
TEST_P(WorldTest, Duplication) { RandomFaults(GetParam(), FullTree(2, 2), 0, 50000, 0, 30); }
TEST_P(WorldTest, Reordering) { RandomFaults(GetParam(), FullTree(2, 2), 0, 0, 20000, 30); }
TEST_P(WorldTest, EverythingAtOnce) { RandomFaults(GetParam(), FullTree(3, 2), 10000, 10000, 10000, 20); }

// A rank that comes 60 s late is no failure; the others wait without being lost, and without flooding the
// switch.
TEST_P(WorldTest, LateRank) {
  for (const Shape& shape : {kShapes[1], kShapes[3]}) {
    SCOPED_TRACE(shape.name);
    World world({.mode = GetParam(), .tree = shape.tree, .prompt_ns = 20 * kMillisecond}, 1);
    Job job(world.ranks(), 100000, 0);
    for (int r = 0; r < world.ranks(); ++r) {
      world.At(r == 2 ? 60 * kSecond : 0, [&, r] { job.Start(world, r); });
    }
    int64_t packets_before = 0;
    world.At(60 * kSecond - 1, [&] { packets_before = world.packets(); });
    const auto done = [&] { return world.now() >= 60 * kSecond && world.AllDone(); };
    ASSERT_TRUE(world.RunUntil(done, 70 * kSecond));
    for (int r = 0; r < world.ranks(); ++r) EXPECT_EQ(job.WrongElements(r), 0u);
    EXPECT_LT(world.now(), 60 * kSecond + 500 * kMillisecond);
    EXPECT_LT(packets_before, 60 * 3000) << "waiting must stay cheap";
  }
}

TEST_P(WorldTest, MismatchEndsInTheSameErrorOnEveryRank) {
  for (const Shape& shape : {kShapes[1], kShapes[3], kShapes[4]}) {
    SCOPED_TRACE(shape.name);
    World world({.mode = GetParam(), .tree = shape.tree}, 1);
    std::vector<uint8_t> buffer(4096);
    std::vector<std::vector<uint8_t>> out(static_cast<size_t>(world.ranks()), std::vector<uint8_t>(4096));
    for (int r = 0; r < world.ranks(); ++r) {
      const size_t bytes = r == 2 ? 400 : 4000;
      world.host(r).AllReduce(DataType::kInt32, std::span(buffer).first(bytes),
                              std::span(out[static_cast<size_t>(r)]).first(bytes));
    }
    const auto done = [&] {
      for (int r = 0; r < world.ranks(); ++r) {
        if (world.host(r).state(0) == CallState::kRunning) return false;
      }
      return true;
    };
    ASSERT_TRUE(world.RunUntil(done, kSecond));
    for (int r = 0; r < world.ranks(); ++r) {
      EXPECT_EQ(world.host(r).state(0), CallState::kFailed);
      EXPECT_EQ(world.host(r).reply(0).status, ControlStatus::kMismatch);
      EXPECT_EQ(world.host(r).reply(0).field, ControlField::kCount);
      EXPECT_EQ(world.host(r).reply(0).culprit, world.host(0).reply(0).culprit);
    }
  }
}

// Inlined calls of different lengths, and one too long for that: the reply fits the receives of all.
TEST_P(WorldTest, AMismatchOfInlinedCallsEndsInTheSameErrorOnEveryRank) {
  for (const Shape& shape : {kShapes[1], kShapes[3], kShapes[4]}) {
    for (const size_t odd : {40, 700, 1500, 4000, 40000}) {
      for (const size_t others : {400, 1000, 6000}) {
        SCOPED_TRACE(testing::Message() << shape.name << ": " << odd << " bytes among " << others);
        World world({.mode = GetParam(), .tree = shape.tree, .inline_bytes = 5000}, 1);
        std::vector<uint8_t> in(40000), out(40000);
        for (int r = 0; r < world.ranks(); ++r) {
          const size_t bytes = r == 2 ? odd : others;
          world.host(r).AllReduce(DataType::kInt32, std::span(in).first(bytes), std::span(out).first(bytes));
        }
        const auto done = [&] {
          for (int r = 0; r < world.ranks(); ++r) {
            if (world.host(r).state(0) == CallState::kRunning) return false;
          }
          return true;
        };
        ASSERT_TRUE(world.RunUntil(done, kSecond));
        for (int r = 0; r < world.ranks(); ++r) {
          EXPECT_EQ(world.host(r).state(0), CallState::kFailed);
          EXPECT_EQ(world.host(r).reply(0).status, ControlStatus::kMismatch);
          EXPECT_EQ(world.host(r).reply(0).field, ControlField::kCount);
        }
      }
    }
  }
}

// One leaf sends one upward flow to the root, not one per rank (EPIC paper, section 3.1).
TEST_P(WorldTest, ALeafSendsOneFlowUp) {
  World world({.mode = GetParam(), .tree = FullTree(2, 2)}, 1);
  std::map<std::pair<int, int>, int> data;
  world.SetFaultRule([&](const LinkPacket& p) {
    if (p.packet->bth.opcode != roce::Opcode::kRcAck) ++data[{p.from, p.to}];
    return Fate::kDeliver;
  });
  RunJobs(world, {10240}, kSecond);
  EXPECT_EQ((data[{1, 0}]), 41);
  EXPECT_EQ((data[{2, 0}]), 41);
  EXPECT_EQ((data[{world.node_of_rank(0), 1}]), 41);
}

}  // namespace
}  // namespace epic::sim
