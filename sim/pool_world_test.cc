// Groups whose payloads lie in one switch's pool, in virtual time: random calls of all collectives, servers
// on hosts, lossy links, late timers (docs/PROTOCOL-MODE-V.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/seeds_testing.h"
#include "sim/calls_testing.h"
#include "sim/faults.h"

namespace epic::sim {
namespace {

constexpr int kPoolHosts = 6;  // no rank is on the last one

struct PoolRun {
  int64_t parts = 0;
  uint64_t evictions = 0;
};

// One to three groups of some of the hosts; pools of any size, policy and addressing.
class PoolShape {
 public:
  explicit PoolShape(uint64_t seed) : of_(seed * 7919) {}

  WorldConfig Config() {
    const uint32_t path_mtu = 256u << of_.Below(3);
    const auto places = static_cast<uint32_t>(1 + of_.Below(of_.Below(2) == 0 ? 4 : 40));
    const auto spares = static_cast<uint32_t>(7 + of_.Below(30));
    const uint32_t buffer_bytes = 4 * path_mtu;
    return {.tree = Star(kPoolHosts),
            .first_group = false,
            .path_mtu = path_mtu,
            .message_packets = static_cast<uint32_t>(1 + of_.Below(8)),
            .window_messages = static_cast<uint32_t>(1 + of_.Below(8)),
            .inline_bytes = of_.Below(2) == 0 ? kMaxInlineBytes : 0,
            .accumulator_mtus = 4,
            .arena_bytes = 1 << 20,
            .pool = engine::PoolConfig{.bytes = size_t{places + spares} * buffer_bytes,
                                       .buffer_bytes = buffer_bytes,
                                       .addressing = static_cast<engine::PoolAddressing>(of_.Below(2)),
                                       .policy = static_cast<engine::PoolPolicy>(of_.Below(4)),
                                       .most_places = places,
                                       .age = of_.Below(3) == 0 ? 30 * kMicrosecond : 0},
            .super_frames = static_cast<SuperFrameLinks>(of_.Below(4)),
            .late_timers_ns = of_.Below(2) == 0 ? 300 * kMicrosecond : 0};
  }
  std::vector<GroupSpec> Groups() {
    std::vector<GroupSpec> groups(1 + of_.Below(3));
    for (GroupSpec& group : groups) {
      group.mode = engine::Mode::kAugmented;
      for (int host = 0; host < kPoolHosts - 1; ++host) {
        if (of_.Below(3) > 0) group.rank_host.push_back(host);
      }
      // What one rank alone gives is combined with nothing, which calls here have no reference for.
      for (int host = 0; group.rank_host.size() < 2; ++host) {
        if (std::ranges::find(group.rank_host, host) == group.rank_host.end())
          group.rank_host.push_back(host);
      }
      group.server_host = of_.Below(2) == 0 ? kPoolHosts - 1 : static_cast<int>(of_.Below(kPoolHosts));
    }
    return groups;
  }
  Choices& of() { return of_; }

 private:
  Choices of_;
};

void RunPool(uint64_t seed, const FaultRates& faults, int calls_of_each, PoolRun* run) {
  PoolShape shape(seed);
  World world(shape.Config(), seed);
  const bool lossy = shape.of().Below(3) > 0;
  world.SetFaultRule(
      [&](const LinkPacket& p) { return lossy ? RandomFate(faults, p.packets, world.choices()) : Fate{}; });
  std::vector<Calls> by_group;
  for (const GroupSpec& group : shape.Groups()) {
    const int g = world.AddGroup(group);
    by_group.emplace_back();
    for (int k = 0; k < calls_of_each; ++k) {
      ControlHeader header = RandomHeader(world.choices(), world.ranks(g), 3000);
      if (k % 2 == 1) ChooseType(shape.of(), &header);
      if (k % 4 == 3) PutInBlocks(&header);
      header.priority = static_cast<uint32_t>(shape.of().Below(5)) << 16;
      by_group.back().emplace_back(header, world.ranks(g), 1000 * g + k);
    }
  }
  const Nanos spread = static_cast<Nanos>(shape.of().Below(4)) * 20 * kMicrosecond;
  if (!RunCalls(world, by_group, spread, 600 * kSecond)) return;
  // What the hosts have acknowledged last is on its way, and what lies at servers has been fetched.
  const engine::Engine& a_switch = world.engine(0);
  EXPECT_TRUE(world.RunUntil([&] { return a_switch.pool()->spare() == a_switch.pool()->buffers(); },
                             world.now() + 10 * kSecond))
      << a_switch.pool()->spare() << " of " << a_switch.pool()->buffers() << " buffers are spare";
  for (int g = 0; g < world.groups(); ++g) {
    EXPECT_TRUE(world.server(g).empty()) << "group " << g;
    EXPECT_EQ(world.server(g).wrong(), "") << "group " << g;
    EXPECT_TRUE(a_switch.LegStatus(static_cast<uint64_t>(g) + 1).ok());
    run->parts += world.server(g).parts();
    run->evictions += a_switch.pool()->counters(static_cast<uint64_t>(g) + 1).evictions;
  }
}

void RunPools(const FaultRates& faults, int calls_of_each, uint64_t seeds) {
  const auto [first, count] = SeedsToRun(seeds);
  PoolRun run;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay: EPIC_SEED=" << seed << " with this test as --gtest_filter");
    RunPool(seed, faults, calls_of_each, &run);
    if (testing::Test::HasFailure()) return;
  }
  if (count < seeds) return;
  EXPECT_GT(run.parts, 10 * static_cast<int64_t>(count));
  EXPECT_GT(run.evictions, 0u);
}

constexpr FaultRates kPoolFaults = {
    .loss_ppm = 10000, .cut_ppm = 20000, .duplicate_ppm = 10000, .delay_ppm = 10000};

// One of lowest priority beside two of the highest, which call all the time: it ends all the same.
TEST(PoolWorldTest, AGroupThatAlwaysLosesEnds) {
  constexpr uint32_t kMtu = 256, kPlaces = 2;
  World world({.tree = Star(kPoolHosts),
               .first_group = false,
               .path_mtu = kMtu,
               .accumulator_mtus = 4,
               .pool = engine::PoolConfig{.bytes = size_t{kPlaces + 16} * 4 * kMtu,
                                          .buffer_bytes = 4 * kMtu,
                                          .policy = engine::PoolPolicy::kPriority,
                                          .most_places = kPlaces}},
              1);
  std::vector<Calls> by_group(3);
  for (int g = 0; g < 3; ++g) {
    ASSERT_EQ(world.AddGroup({.mode = engine::Mode::kAugmented, .rank_host = {0, 1, 2, 3}, .server_host = 5}),
              g);
    for (int k = 0; k < (g == 0 ? 2 : 12); ++k) {
      by_group[static_cast<size_t>(g)].emplace_back(
          ControlHeader{.collective = Collective::kAllReduce,
                        .op = ReduceOp::kSum,
                        .type = DataType::kInt32,
                        .count = 2000,
                        .priority = g == 0 ? kLeastPriority : kMostPriority},
          4, 1000 * g + k);
    }
  }
  ASSERT_TRUE(RunCalls(world, by_group, 0, 60 * kSecond));
  const engine::Pool& pool = *world.engine(0).pool();
  EXPECT_EQ(pool.counters(2).evictions + pool.counters(3).evictions, 0u) << "nobody loses to it";
  EXPECT_GT(pool.counters(1).passes, 0u);
  EXPECT_GT(world.server(0).parts(), 0);
}

TEST(PoolWorldTest, RandomCallsOfGroupsInOnePool) { RunPools(kPoolFaults, 12, 40); }
TEST(PoolWorldTest, HeavyLoss) { RunPools({.loss_ppm = 100000}, 6, 10); }

}  // namespace
}  // namespace epic::sim
