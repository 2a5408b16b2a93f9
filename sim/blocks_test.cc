// Groups whose memory in switches is one block (docs/PROTOCOL-BLOCKS.md): the daemon's engine, the library's
// cores, and links that misbehave. Whatever way calls go, they are right, all ranks of a group go the same
// way, and at the end nobody has the block.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/seeds_testing.h"
#include "incengine/modes/table.h"
#include "sim/faults.h"
#include "sim/group_ranks.h"

namespace epic::sim {
namespace {

constexpr Nanos kForEver = 60 * kSecond;
constexpr uint64_t kBlock = 3;
constexpr FaultRates kBadLinks{
    .loss_ppm = 10'000, .duplicate_ppm = 10'000, .delay_ppm = 10'000, .corrupt_ppm = 10'000};

HostsWay SmallWay() {
  return {
      .path = {.agrees_by_exchange = false, .message_bytes = 256, .staging_bytes = 4096, .inline_bytes = 512},
      .tell_ns = 5 * kMicrosecond};
}

WorldConfig ConfigOf(const TreeSpec& tree, engine::Mode mode, uint64_t inline_bytes) {
  return {.mode = mode,
          .tree = tree,
          .path_mtu = 256,
          .message_packets = 2,
          .window_messages = 4,
          .host_timeout = 8,
          .inline_bytes = inline_bytes};
}

// A world with groups that share a block on every switch, each with a rank on every host; beside one that has
// none.
struct SharedWorld {
  SharedWorld(const WorldConfig& config, size_t groups, size_t block_bytes, uint64_t seed)
      : world(config, seed), choices(seed) {
    GroupSpec spec = FirstGroupOf(config);
    spec.block = kBlock;
    spec.block_bytes = block_bytes;
    for (size_t g = 0; g < groups; ++g) {
      const int group = world.AddGroup(spec);
      ranks.push_back(std::make_unique<GroupRanks>(world, group, SmallWay(), choices));
      calls.emplace_back();
      Choices of_calls(seed * 31 + g);
      for (int k = 0; k < 12; ++k) calls.back().emplace_back(RandomCall(of_calls), hosts(), k);
    }
  }

  int hosts() const { return world.ranks(0); }

  ControlHeader RandomCall(Choices& of) const {
    constexpr std::array kAll = {Collective::kAllReduce,     Collective::kReduce,    Collective::kBroadcast,
                                 Collective::kReduceScatter, Collective::kAllGather, Collective::kBarrier};
    ControlHeader header{.collective = kAll[of.Below(kAll.size())]};
    if (header.collective == Collective::kBarrier) return header;
    header.type = DataType::kInt32;
    if (Reduces(header.collective)) header.op = ReduceOp::kSum;
    if (HasPartPerRank(header.collective)) header.parts = static_cast<uint32_t>(hosts());
    if (header.collective == Collective::kReduce || header.collective == Collective::kBroadcast)
      header.root = static_cast<uint32_t>(of.Below(static_cast<uint64_t>(hosts())));
    header.count = of.Below(of.Below(2) == 0 ? 20 : 2000);
    return header;
  }

  void FaultsFrom(FaultRates rates) {
    faults = std::make_unique<RandomFaults>(rates);
    world.SetFaultRule([this](const LinkPacket& p) { return faults->Next(p, world.now(), world.choices()); });
  }

  // Every rank makes all its calls at once, group by group.
  bool Run() {
    for (size_t g = 0; g < ranks.size(); ++g) {
      for (int r = 0; r < hosts(); ++r) {
        for (CollectiveCall& call : calls[g]) ranks[g]->Start(r, call);
      }
    }
    return world.RunUntil([this] { return Finished(); }, world.now() + kForEver);
  }
  bool Finished() const {
    for (size_t g = 0; g < ranks.size(); ++g) {
      if (!ranks[g]->Finished(calls[g].size())) return false;
    }
    return NobodyHasIt();
  }
  bool NobodyHasIt() const {
    for (int s = 0; s < world.switches(); ++s) {
      if (world.engine(s).blocks().at(kBlock).holder) return false;
    }
    return true;
  }
  std::string Standing() const {
    std::string out;
    for (const auto& group : ranks) out += group->Standing();
    return out + (NobodyHasIt() ? "nobody has the block" : "somebody has the block");
  }
  void ExpectRight() const {
    for (size_t g = 0; g < ranks.size(); ++g) {
      for (int r = 0; r < hosts(); ++r) {
        for (size_t k = 0; k < calls[g].size(); ++k) {
          ASSERT_EQ(ranks[g]->state(r, static_cast<int>(k)), CallState::kDone) << calls[g][k].Describe();
          ASSERT_EQ(calls[g][k].Wrong(r), 0u)
              << calls[g][k].Describe() << ", rank " << r << " of group " << g;
        }
      }
    }
  }
  // Of a group's requests, at the root.
  const engine::ContextCounters& at_root(size_t g) const {
    return world.context(0, static_cast<int>(g) + 1).counters;
  }

  World world;
  Choices choices;
  std::unique_ptr<RandomFaults> faults;
  std::vector<std::unique_ptr<GroupRanks>> ranks;
  std::vector<Calls> calls;
};

size_t BytesOf(const WorldConfig& config) { return ArenaBytesOf(FirstGroupOf(config), config); }

class BlocksTest : public testing::TestWithParam<engine::Mode> {};

TEST_P(BlocksTest, GroupsTakeTurnsOverBadLinks) {
  const TestSeeds seeds = SeedsToRun(4);
  uint64_t granted = 0, busy = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay: EPIC_SEED=" << seed << " with this test as --gtest_filter");
    for (const TreeSpec& tree : {Star(3), FullTree(2, 2), UnevenTree()}) {
      for (const uint64_t inline_bytes : {0, 200}) {
        WorldConfig config = ConfigOf(tree, GetParam(), inline_bytes);
        // Half of them are granted calls in slices.
        if (seed % 2 == 0) config.invocation_bytes = 1000;
        SharedWorld shared(config, 3, BytesOf(config), seed);
        shared.FaultsFrom(kBadLinks);
        ASSERT_TRUE(shared.Run()) << shared.Standing();
        shared.ExpectRight();
        for (size_t g = 0; g < shared.ranks.size(); ++g) {
          granted += shared.at_root(g).grants;
          busy += shared.at_root(g).busy;
        }
      }
    }
  }
  EXPECT_GT(granted, 0u);
  EXPECT_GT(busy, 0u);
}

// A group that has the block to itself gets it each time.
TEST_P(BlocksTest, OneOwnerIsNeverBusy) {
  const WorldConfig config = ConfigOf(FullTree(2, 2), GetParam(), 0);
  SharedWorld shared(config, 1, BytesOf(config), 1);
  ASSERT_TRUE(shared.Run()) << shared.Standing();
  shared.ExpectRight();
  EXPECT_EQ(shared.at_root(0).busy, 0u);
  EXPECT_GT(shared.at_root(0).grants, 5u);
}

// A block with room for less than the groups' window.
TEST_P(BlocksTest, ASmallBlockIsASmallWindow) {
  for (const TreeSpec& tree : {Star(3), FullTree(2, 2)}) {
    const WorldConfig config = ConfigOf(tree, GetParam(), 0);
    WorldConfig small = config;
    small.window_messages = 1;
    SharedWorld shared(config, 2, BytesOf(small), 1);
    shared.FaultsFrom(kBadLinks);
    ASSERT_TRUE(shared.Run()) << shared.Standing();
    shared.ExpectRight();
    EXPECT_GT(shared.at_root(0).grants + shared.at_root(1).grants, 0u);
    EXPECT_EQ(shared.world.context(0, 1).config.window_messages, 1u);
  }
}

// How long the second of two such calls takes, with a block if it has one to itself: from where all ranks
// make it until all have its result.
Picos TimeOf(const WorldConfig& config, bool block, const ControlHeader& header) {
  World world(config, 1);
  GroupSpec spec = FirstGroupOf(config);
  if (block) {
    spec.block = kBlock;
    spec.block_bytes = ArenaBytesOf(spec, config);
  }
  const int group = world.AddGroup(spec);
  Choices choices(1);
  GroupRanks ranks(world, group, SmallWay(), choices);
  Calls calls;
  Picos started = 0;
  for (const size_t k : {0, 1}) {
    calls.emplace_back(header, world.ranks(group), static_cast<int>(k));
    started = world.clock();
    for (int r = 0; r < world.ranks(group); ++r) ranks.Start(r, calls.back());
    EXPECT_TRUE(world.RunUntil([&] { return ranks.Finished(k + 1); }, world.now() + kForEver));
    if (k == 0) world.RunUntil([&] { return world.AllDone(group); }, world.now() + kForEver);
  }
  return world.clock() - started;
}

// To ask takes what a Barrier takes and no more, whatever is asked for.
TEST_P(BlocksTest, AGrantedCallTakesARoundTripMore) {
  for (const TreeSpec& tree : {Star(4), FullTree(2, 2)}) {
    for (const uint64_t inline_bytes : {0, 200}) {
      const WorldConfig config = ConfigOf(tree, GetParam(), inline_bytes);
      const Picos round_trip = TimeOf(config, true, {.collective = Collective::kBarrier});
      EXPECT_EQ(round_trip, TimeOf(config, false, {.collective = Collective::kBarrier}));
      for (const uint64_t count : {1, 40, 4000}) {
        const ControlHeader header = {.collective = Collective::kAllReduce,
                                      .op = ReduceOp::kSum,
                                      .type = DataType::kInt32,
                                      .count = count};
        const Picos own = TimeOf(config, false, header);
        EXPECT_GT(TimeOf(config, true, header), own);
        EXPECT_LE(TimeOf(config, true, header), own + round_trip)
            << count << " elements, inlined " << inline_bytes;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, BlocksTest,
                         testing::Values(engine::Mode::kTranslated, engine::Mode::kAugmented),
                         [](const auto& of) { return "Mode" + std::to_string(static_cast<int>(of.param)); });

}  // namespace
}  // namespace epic::sim
