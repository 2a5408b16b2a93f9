// All six collectives in virtual time: the daemon's engine in each mode, the host library's core, lossy
// links.
#include "sim/collectives.h"

#include <gtest/gtest.h>

#include <string>

#include "base/seeds_testing.h"
#include "sim/calls_testing.h"
#include "sim/faults.h"
#include "sim/realisations_testing.h"

namespace epic::sim {
namespace {

class CollectivesTest : public testing::TestWithParam<Realisation> {};

INSTANTIATE_TEST_SUITE_P(Modes, CollectivesTest, testing::ValuesIn(Realisations()),
                         [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(Initiated, CollectivesTest, testing::ValuesIn(RealisationsThatReadHosts()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(CollectivesTest, EachWithEachTypeAndOperationAndRoot) {
  for (const TreeSpec& tree : {Star(3), FullTree(2, 2), UnevenTree(), InterleavedTree()}) {
    World world({.mode = ModesFor(GetParam(), tree), .tree = tree}, 1);
    const int ranks = world.ranks();
    std::vector<Calls> by_group(1);
    Calls& calls = by_group[0];
    for (int c = 1; c <= 6; ++c) {
      for (int type = 1; type <= 5; ++type) {
        for (int op = 0; op <= 3; ++op) {
          ControlHeader header{.collective = static_cast<Collective>(c),
                               .op = static_cast<ReduceOp>(op),
                               .type = static_cast<DataType>(type)};
          if (Reduces(header.collective) ? op == 0 || type == 5 : op != 0) continue;
          if (header.collective == Collective::kBarrier) header = {};
          if (header.collective != Collective::kBarrier) header.count = 1500 + static_cast<uint64_t>(type);
          if (HasPartPerRank(header.collective)) header.parts = static_cast<uint32_t>(ranks);
          header.root = static_cast<uint32_t>(calls.size()) % static_cast<uint32_t>(ranks);
          if (header.collective != Collective::kReduce && header.collective != Collective::kBroadcast) {
            header.root = 0;
          }
          calls.emplace_back(header, ranks, static_cast<int>(calls.size()));
        }
      }
    }
    ASSERT_TRUE(RunCalls(world, by_group, 0, 100 * kSecond));
    EXPECT_EQ(world.context(0).counters.repeats, 0u) << "nothing was lost, so nothing needs repeating";
  }
}

// One message each way, and its acknowledgement, whatever the collective; nothing waits for a reply.
TEST_P(CollectivesTest, ASmallCallIsAPacketAndAnAcknowledgementEachWay) {
  World world({.mode = ModesFor(GetParam(), Star(4)),
               .tree = Star(4),
               .path_mtu = 4096,
               .message_packets = 2,
               .window_messages = 2,
               .inline_bytes = 4032},
              1);
  const auto ranks = static_cast<uint32_t>(world.ranks());
  std::vector<CollectiveCall> calls;
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast, Collective::kReduceScatter,
        Collective::kAllGather, Collective::kBarrier}) {
    ControlHeader header{.collective = collective};
    if (collective != Collective::kBarrier) header.type = DataType::kFloat16;
    if (Reduces(collective)) header.op = ReduceOp::kMax;
    if (HasPartPerRank(collective)) header.parts = ranks;
    if (collective != Collective::kBarrier) header.count = 2016 / header.parts;
    calls.emplace_back(header, world.ranks(), static_cast<int>(calls.size()));
  }
  for (CollectiveCall& call : calls) {
    SCOPED_TRACE(call.Describe());
    const int64_t packets = world.packets();
    const Nanos begin = world.now();
    for (int r = 0; r < world.ranks(); ++r) call.Start(world, r);
    ASSERT_TRUE(world.RunUntil([&] { return world.AllDone(); }, world.now() + kSecond));
    for (int r = 0; r < world.ranks(); ++r) EXPECT_EQ(call.Wrong(r), 0u);
    EXPECT_EQ(world.packets() - packets, 4 * world.ranks());
    // Links of a microsecond: up and down, and in mode II the acknowledgement up and down.
    EXPECT_LT(world.now() - begin, 6 * kMicrosecond);
    // The call itself ends with its result.
    for (int r = 0; r < world.ranks(); ++r)
      EXPECT_LT(world.host(r).finished_at(static_cast<int>(&call - calls.data())) - begin, 3 * kMicrosecond);
  }
}

// Random calls of the first group, with a rank on every host, and of the others at the same time.
void RandomCalls(const Realisation& realisation, const TreeSpec& tree, const FaultRates& faults,
                 int calls_per_world, uint64_t seeds, const std::vector<GroupSpec>& others = {}) {
  const auto [first, count] = SeedsToRun(seeds);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay: EPIC_SEED=" << seed << " with this test as --gtest_filter");
    Choices shape(seed * 7919);
    Choices types(seed * 7919 + 9);
    World world({.mode = ModesFor(realisation, tree),
                 .tree = tree,
                 .path_mtu = 256u << shape.Below(3),
                 .message_packets = static_cast<uint32_t>(1 + shape.Below(8)),
                 .window_messages = static_cast<uint32_t>(1 + shape.Below(8)),
                 .inline_bytes = seed % 2 == 0 ? kMaxInlineBytes : 0,
                 .arena_bytes = size_t{1 + others.size()} << 20,
                 .super_frames = static_cast<SuperFrameLinks>(seed / 2 % 4)},
                seed);
    world.SetFaultRule([&](const LinkPacket& p) { return RandomFate(faults, p.packets, world.choices()); });
    for (const GroupSpec& other : others) world.AddGroup(other);
    std::vector<Calls> by_group(1 + others.size());
    for (int g = 0; g < world.groups(); ++g) {
      for (int k = 0; k < calls_per_world; ++k) {
        ControlHeader header = RandomHeader(world.choices(), world.ranks(g), 6000);
        if (k % 2 == 1) ChooseType(types, &header);
        by_group[static_cast<size_t>(g)].emplace_back(header, world.ranks(g), 1000 * g + k);
      }
    }
    const Nanos spread = static_cast<Nanos>(shape.Below(4)) * 20 * kMicrosecond;
    if (!RunCalls(world, by_group, spread, 600 * kSecond)) return;
  }
}

constexpr FaultRates kAll = {.loss_ppm = 10000, .cut_ppm = 20000, .duplicate_ppm = 10000, .delay_ppm = 10000};

TEST_P(CollectivesTest, AThousandRandomCalls) { RandomCalls(GetParam(), FullTree(2, 2), {}, 1000, 1); }
TEST_P(CollectivesTest, AThousandRandomCallsWithFaults) {
  RandomCalls(GetParam(), FullTree(2, 2), kAll, 1000, 1);
}
TEST_P(CollectivesTest, RandomCallsOnAStar) { RandomCalls(GetParam(), Star(4), kAll, 30, 30); }
TEST_P(CollectivesTest, RandomCallsOnATree) { RandomCalls(GetParam(), FullTree(2, 2), kAll, 30, 30); }
TEST_P(CollectivesTest, RandomCallsOnThreeLevels) { RandomCalls(GetParam(), FullTree(3, 2), kAll, 30, 15); }
TEST_P(CollectivesTest, RandomCallsOnAnUnevenTree) { RandomCalls(GetParam(), UnevenTree(), kAll, 30, 30); }
TEST_P(CollectivesTest, RandomCallsWithRanksInterleaved) {
  RandomCalls(GetParam(), InterleavedTree(), kAll, 30, 30);
}
TEST_P(CollectivesTest, HeavyLoss) { RandomCalls(GetParam(), FullTree(2, 2), {.loss_ppm = 100000}, 30, 10); }

// Rank 3 lacks the first result and its repetition is lost; the others go on through a Broadcast, to which it
// contributes nothing, and begin the next call. Ended in a hang in mode II when they came to the result's
// slot; three packets each are the lengths that lead there.
TEST_P(CollectivesTest, AResultIsKeptWhileABroadcastGoesPastARankThatLacksIt) {
  World world(
      {.mode = ModesFor(GetParam(), Star(4)), .tree = Star(4), .message_packets = 2, .window_messages = 2},
      1);
  int results = 0, sends = 0;
  world.SetFaultRule([&](const LinkPacket& p) {
    if (p.packet->payload.size() != 4) return Fate::kDeliver;
    const bool first_result = p.to == world.node_of_rank(3) && ++results == 1;
    const bool first_repetition = p.from == world.node_of_rank(3) && ++sends == 2;
    return first_result || first_repetition ? Fate::kDrop : Fate::kDeliver;
  });
  const ControlHeader sum{
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kInt32, .count = 1};
  const ControlHeader copy{
      .collective = Collective::kBroadcast, .type = DataType::kInt32, .count = 768, .root = 1};
  ControlHeader long_sum = sum;
  long_sum.count = 768;
  std::vector<Calls> by_group(1);
  for (const ControlHeader& header : {sum, copy, long_sum}) {
    by_group[0].emplace_back(header, 4, static_cast<int>(by_group[0].size()));
  }
  RunCalls(world, by_group, 0, 10 * kSecond);
}

// Of every mode, on the same and on other switches, with two ranks on one host.
TEST_P(CollectivesTest, RandomCallsOfGroupsOfEachModeAtOnce) {
  RandomCalls(GetParam(), FullTree(2, 2), kAll, 20, 15, GroupsOfEachMode());
}

}  // namespace
}  // namespace epic::sim
