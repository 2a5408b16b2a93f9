// Switches of the virtual-time world under judgement: everything that the daemon's core sends is allowed by
// the model, in all modes and collectives, whatever the links do.
#include <gtest/gtest.h>

#include <string>

#include "base/seeds_testing.h"
#include "check/conform/world_testing.h"
#include "sim/faults.h"
#include "sim/realisations_testing.h"

namespace epic::conform {
namespace {

using sim::Calls;
using sim::FaultRates;
using sim::Realisation;

class ConformWorldTest : public testing::TestWithParam<Realisation> {};

INSTANTIATE_TEST_SUITE_P(Modes, ConformWorldTest, testing::ValuesIn(sim::Realisations()),
                         [](const auto& param) { return std::string(param.param.name); });

// Whether every switch's packets were accepted; the first violations are a failure.
bool Accepted(const Monitors& monitors) {
  bool accepted = true;
  for (size_t s = 0; s < monitors.all().size(); ++s) {
    if (!monitors.all()[s]) continue;
    const Verdict& verdict = monitors.all()[s]->verdict();
    for (const Violation& violation : verdict.first)
      ADD_FAILURE() << "switch " << s << ": " << Describe(violation);
    accepted &= verdict.accepted();
    EXPECT_GT(verdict.packets_out, 0u);
  }
  return accepted;
}

// Random calls of the first group and of the others at the same time, then the verdicts.
void RandomCalls(const Realisation& realisation, const sim::TreeSpec& tree, const FaultRates& faults,
                 uint64_t seeds, const std::vector<sim::GroupSpec>& others = {}) {
  const auto [first, count] = SeedsToRun(seeds);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay: EPIC_SEED=" << seed << " with this test as --gtest_filter");
    sim::Choices shape(seed * 7919);
    sim::Choices types(seed * 7919 + 9);
    sim::World world({.mode = ModesFor(realisation, tree),
                      .tree = tree,
                      .path_mtu = 256u << shape.Below(3),
                      .message_packets = static_cast<uint32_t>(1 + shape.Below(8)),
                      .window_messages = static_cast<uint32_t>(1 + shape.Below(8)),
                      .inline_bytes = seed % 2 == 0 ? kMaxInlineBytes : 0,
                      .arena_bytes = size_t{1 + others.size()} << 20},
                     seed);
    for (const sim::GroupSpec& other : others) world.AddGroup(other);
    const Monitors monitors(
        world, [&](const sim::LinkPacket& p) { return sim::RandomFate(faults, p.packets, world.choices()); });
    std::vector<Calls> by_group(static_cast<size_t>(world.groups()));
    for (int g = 0; g < world.groups(); ++g) {
      Calls& calls = by_group[static_cast<size_t>(g)];
      for (int k = 0; k < 20; ++k) {
        ControlHeader header = sim::RandomHeader(world.choices(), world.ranks(g), 6000);
        if (k % 2 == 1) sim::ChooseType(types, &header);
        calls.emplace_back(header, world.ranks(g), 1000 * g + k);
      }
      const Nanos spread = static_cast<Nanos>(shape.Below(4)) * 20 * kMicrosecond;
      for (int r = 0; r < world.ranks(g); ++r) sim::StartCalls(world, g, r, calls, world.now(), spread);
    }
    const auto done = [&] {
      for (int g = 0; g < world.groups(); ++g) {
        if (!sim::Finished(world, g, by_group[static_cast<size_t>(g)])) return false;
      }
      return true;
    };
    EXPECT_TRUE(world.RunUntil(done, 600 * kSecond));
    if (!Accepted(monitors)) return;
  }
}

constexpr FaultRates kAll = {.loss_ppm = 10000, .duplicate_ppm = 10000, .delay_ppm = 10000};

TEST_P(ConformWorldTest, CleanLinks) { RandomCalls(GetParam(), sim::FullTree(2, 2), {}, 4); }
TEST_P(ConformWorldTest, AStar) { RandomCalls(GetParam(), sim::Star(4), kAll, 8); }
TEST_P(ConformWorldTest, ATree) { RandomCalls(GetParam(), sim::FullTree(2, 2), kAll, 8); }
TEST_P(ConformWorldTest, ThreeLevels) { RandomCalls(GetParam(), sim::FullTree(3, 2), kAll, 4); }
TEST_P(ConformWorldTest, AnUnevenTree) { RandomCalls(GetParam(), sim::UnevenTree(), kAll, 8); }
TEST_P(ConformWorldTest, RanksInterleaved) { RandomCalls(GetParam(), sim::InterleavedTree(), kAll, 8); }
TEST_P(ConformWorldTest, HeavyLoss) { RandomCalls(GetParam(), sim::FullTree(2, 2), {.loss_ppm = 100000}, 4); }
TEST_P(ConformWorldTest, GroupsOfEachModeAtOnce) {
  RandomCalls(GetParam(), sim::FullTree(2, 2), kAll, 4, sim::GroupsOfEachMode());
}

// Ranks that call with different arguments: the merged packet says so, and the group ends.
TEST_P(ConformWorldTest, ADifferentCall) {
  const sim::TreeSpec tree = sim::FullTree(2, 2);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    // Every other time the calls are inlined, of different lengths.
    const bool small = seed % 2 == 0;
    sim::World world(
        {.mode = ModesFor(GetParam(), tree), .tree = tree, .message_packets = 2, .inline_bytes = 2048 - 64},
        seed);
    const Monitors monitors(
        world, [&](const sim::LinkPacket& p) { return sim::RandomFate(kAll, p.packets, world.choices()); });
    const ControlHeader sum{.collective = Collective::kAllReduce,
                            .op = ReduceOp::kSum,
                            .type = DataType::kInt32,
                            .count = small ? 300u : 3000u};
    ControlHeader other = sum;
    other.count = small ? 200 : 2000;
    Calls right, wrong;
    for (int k = 0; k < 3; ++k) {
      right.emplace_back(sum, world.ranks(), k);
      wrong.emplace_back(k == 1 ? other : sum, world.ranks(), k);
    }
    for (int r = 0; r < world.ranks(); ++r)
      sim::StartCalls(world, 0, r, r == 2 ? wrong : right, 0, 5 * kMicrosecond);
    const auto failed = [&] {
      for (int r = 0; r < world.ranks(); ++r) {
        if (world.host(r).calls() < 2 || world.host(r).state(1) != sim::CallState::kFailed) return false;
      }
      return true;
    };
    EXPECT_TRUE(world.RunUntil(failed, 600 * kSecond));
    if (!Accepted(monitors)) return;
  }
}

// Ranks of a later version than the switches' agree there on a call by the hosts whose type and operation the
// switches have no row for; with one that calls otherwise, they are told so.
TEST_P(ConformWorldTest, ACallByTheHostsOfALaterVersion) {
  const sim::TreeSpec tree = sim::FullTree(2, 2);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const bool differs = seed % 2 == 0;
    sim::World world({.mode = ModesFor(GetParam(), tree), .tree = tree, .message_packets = 2}, seed);
    const Monitors monitors(
        world, [&](const sim::LinkPacket& p) { return sim::RandomFate(kAll, p.packets, world.choices()); });
    const ControlHeader sum{
        .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kInt32, .count = 300};
    ControlHeader later = sum;
    later.flags = kByHostsFlag;
    later.type = DataType{40};
    later.op = ReduceOp{41};
    ControlHeader other = later;
    if (differs) other.type = DataType::kInt32;
    Calls calls, others;
    for (int k = 0; k < 3; ++k) {
      calls.emplace_back(k == 1 ? later : sum, world.ranks(), k);
      others.emplace_back(k == 1 ? other : sum, world.ranks(), k);
    }
    for (int r = 0; r < world.ranks(); ++r)
      sim::StartCalls(world, 0, r, r == 2 ? others : calls, 0, 5 * kMicrosecond);
    const auto ended = [&] {
      for (int r = 0; r < world.ranks(); ++r) {
        if (world.host(r).calls() < 3 || world.host(r).state(2) == sim::CallState::kRunning) return false;
      }
      return true;
    };
    ASSERT_TRUE(world.RunUntil(ended, 600 * kSecond));
    for (int r = 0; r < world.ranks(); ++r) {
      EXPECT_EQ(world.host(r).state(1), differs ? sim::CallState::kFailed : sim::CallState::kDone);
      if (!differs) {
        EXPECT_EQ((r == 2 ? others : calls)[2].Wrong(r), 0u);
        continue;
      }
      EXPECT_EQ(world.host(r).reply(1).status, ControlStatus::kMismatch);
      EXPECT_EQ(world.host(r).reply(1).field, ControlField::kType);
    }
    if (!Accepted(monitors)) return;
  }
}

// A host that stands still while the root of Broadcasts goes on. Mode II asks it for its acknowledgement; in
// the others who sends is told of nothing until there is room, so that nothing is refused.
TEST_P(ConformWorldTest, AHostThatStandsStill) {
  const sim::TreeSpec tree = sim::FullTree(2, 2);
  uint64_t notified = 0, refused = 0;
  for (const Nanos from : {5, 10, 20, 40}) {
    SCOPED_TRACE(testing::Message() << "from " << from << " us on");
    sim::World world(
        {.mode = ModesFor(GetParam(), tree), .tree = tree, .message_packets = 2, .window_messages = 4}, 1);
    const Monitors monitors(world, {});
    Calls calls;
    for (int k = 0; k < 8; ++k) {
      const ControlHeader header{
          .collective = Collective::kBroadcast, .type = DataType::kInt32, .count = 60000};
      calls.emplace_back(header, world.ranks(), k);
    }
    for (int r = 0; r < world.ranks(); ++r) sim::StartCalls(world, 0, r, calls, 0, 0);
    world.At(from * kMicrosecond, [&] { world.Freeze(3, 30 * kMillisecond); });
    EXPECT_TRUE(world.RunUntil([&] { return sim::Finished(world, 0, calls); }, 600 * kSecond));
    EXPECT_GT(world.now(), 30 * kMillisecond) << "it held nobody up";
    Accepted(monitors);
    for (const auto& monitor : monitors.all()) {
      notified += monitor->verdict().judged[static_cast<size_t>(Rule::kCnp)];
      refused += monitor->verdict().judged[static_cast<size_t>(Rule::kNak)];
    }
  }
  EXPECT_EQ(refused > 0, FindMode(GetParam().even)->reliability == Reliability::kEndToEnd);
  EXPECT_EQ(notified, 0u) << "who runs ahead is not congested";
}

}  // namespace
}  // namespace epic::conform
