// Broadcast and AllGather by multicast between the hosts of a world (docs/PROTOCOL-MULTICAST.md): nobody is
// overrun where links keep order, whoever is late, slow or stopped; and all is right where they do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/seeds_testing.h"
#include "sim/faults.h"
#include "sim/group_ranks.h"

namespace epic::sim {
namespace {

constexpr Nanos kLongEnough = 60 * kSecond;

// Calls of both collectives, of other ones between them.
Calls RandomCalls(int n, int count, uint64_t most_bytes, Choices& choices) {
  Calls calls;
  for (int k = 0; k < count; ++k) {
    ControlHeader header{.collective = Collective::kBroadcast, .type = DataType::kByte};
    switch (choices.Below(8)) {
      case 0:
        header = {.collective = Collective::kBarrier};
        break;
      case 1:
        header = {.collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kInt32};
        break;
      case 2:
      case 3:
      case 4:
        header = {
            .collective = Collective::kAllGather, .type = DataType::kByte, .parts = static_cast<uint32_t>(n)};
        break;
      default:
        header.root = static_cast<uint32_t>(choices.Below(static_cast<uint64_t>(n)));
    }
    const uint64_t most = most_bytes / header.parts;
    if (header.collective != Collective::kBarrier)
      header.count = choices.Below(choices.Below(3) == 0 ? 100 : most / 4) + 1;
    calls.emplace_back(header, n, k);
  }
  return calls;
}

// Which rank is on which host of a tree.
struct RanksOfTree {
  std::string name;
  TreeSpec tree;
  std::vector<int> rank_host;
};

const std::vector<RanksOfTree>& Places() {
  static const std::vector<RanksOfTree> places = {
      {"star-2", Star(2), {0, 1}},
      {"star-3", Star(3), {2, 0, 1}},
      {"star-8", Star(8), {0, 1, 2, 3, 4, 5, 6, 7}},
      {"tree-3-2", FullTree(2, 2), {0, 2, 1, 3}},
      {"uneven", UnevenTree(), {0, 1, 2, 3, 4}},
      {"interleaved", InterleavedTree(), {0, 1, 2, 3, 4}},
      {"tree-3-2, shared hosts", FullTree(2, 2), {0, 3, 0, 2, 2, 0}},
      {"one host", Star(2), {1, 1, 1}}};
  return places;
}

constexpr int64_t kGigabit = 1'000'000'000;

WorldConfig ConfigOf(const RanksOfTree& place, int64_t rate, bool returns_multicast = true) {
  return {.tree = place.tree,
          .path_mtu = 256,
          .bits_per_second = rate,
          .host_timeout = 12,
          .arena_bytes = 4 << 20,
          .returns_multicast = returns_multicast};
}

// One group whose calls go by multicast, and all of its calls.
struct OneGroup {
  OneGroup(const RanksOfTree& place, const WorldConfig& config, const HostsWay& way, uint64_t seed)
      : choices(seed),
        world(config, seed),
        group(world.AddGroup({.rank_host = place.rank_host})),
        ranks(world, group, way, choices) {}
  int size() const { return world.ranks(group); }

  // The rank makes all calls.
  void StartAll(int rank) {
    for (CollectiveCall& call : calls) ranks.Start(rank, call);
  }
  void StopFor(int rank, Nanos at, Nanos time) {
    world.At(at, [this, rank] { world.host(rank, group).SetStopped(true); });
    world.At(at + time, [this, rank] { world.host(rank, group).SetStopped(false); });
  }
  // Every rank makes all its calls at a moment before `late`, and stands still `stops` times at most after
  // that, each time shorter than `within`.
  void Start(Nanos late, uint64_t stops, Nanos within) {
    const auto below = [this](Nanos time) {
      return 1 + static_cast<Nanos>(choices.Below(static_cast<uint64_t>(time)));
    };
    for (int r = 0; r < size(); ++r) {
      Nanos at = late == 0 ? 0 : below(late);
      world.At(at, [this, r] { StartAll(r); });
      for (uint64_t k = choices.Below(stops + 1); k > 0; --k) {
        at += below(within);
        const Nanos time = below(within);
        StopFor(r, at, time);
        at += time;
      }
    }
  }
  void RunToEnd() {
    ASSERT_TRUE(world.RunUntil([&] { return ranks.Finished(calls.size()); }, world.now() + kLongEnough))
        << ranks.Standing();
    for (int r = 0; r < size(); ++r) {
      for (const CollectiveCall& call : calls) {
        ASSERT_EQ(ranks.state(r, call.number()), CallState::kDone) << call.Describe();
        ASSERT_EQ(call.Wrong(r), 0u) << call.Describe() << ", rank " << r;
      }
    }
  }
  void ExpectNothingLost() {
    for (int r = 0; r < size(); ++r) {
      const MulticastCounts counts = ranks.multicast(r);
      EXPECT_EQ(ranks.unposted(r), 0u) << "rank " << r;
      EXPECT_EQ(counts.read, 0u) << "rank " << r;
      EXPECT_EQ(counts.came, counts.expected) << "rank " << r;
      EXPECT_EQ(counts.stranger + counts.stale + counts.alien + counts.length + counts.again, 0u);
    }
  }

  Choices choices;
  World world;
  const int group;
  GroupRanks ranks;
  Calls calls;
};

HostPathConfig PathOf(uint32_t chunk_bytes, uint32_t staging_chunks, uint32_t tokens) {
  return {.algorithm = Algorithm::kMulticast,
          .message_bytes = 4 * chunk_bytes,
          .staging_bytes = 8192,
          .inline_bytes = 512,
          .chunk_bytes = chunk_bytes,
          .staging_chunks = staging_chunks,
          .tokens = tokens};
}

// With a staging ring that has room for a chunk of each part: then nobody is overrun.
HostsWay RandomWay(int n, Choices& choices) {
  const auto parts = static_cast<uint32_t>(n), tokens = static_cast<uint32_t>(1 + choices.Below(4));
  const auto more = static_cast<uint32_t>(choices.Below(parts * (choices.Below(2) == 0 ? 10 : 80)));
  HostsWay way{.path = PathOf(choices.Below(2) == 0 ? 256 : 64, std::max(2 * tokens, parts + more), tokens),
               .tell_ns = 5 * kMicrosecond};
  way.path.addresses = static_cast<uint32_t>(1 + choices.Below(3));
  way.path.message_bytes = way.path.chunk_bytes * static_cast<uint32_t>(1 + choices.Below(4));
  way.completion_ns = choices.OneOf({0, 100, 5000});
  way.path.agrees_by_exchange = choices.Below(2) == 0;
  if (!way.path.agrees_by_exchange) way.abilities = {};  // switches that serve nothing
  return way;
}

// On a tree every link keeps order, and what hosts send each other goes where datagrams go.
TEST(MulticastTest, NobodyIsOverrunWhoeverIsLateOrSlowOrStopped) {
  const TestSeeds seeds = SeedsToRun(8);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    for (const RanksOfTree& place : Places()) {
      SCOPED_TRACE(testing::Message()
                   << "replay: EPIC_SEED=" << seed << " with this test as --gtest_filter; " << place.name);
      Choices choices(seed * 100);
      const auto n = static_cast<int>(place.rank_host.size());
      const HostsWay way = RandomWay(n, choices);
      const bool shares_hosts = place.name.find("host") != std::string::npos;
      OneGroup run(
          place,
          ConfigOf(place, choices.OneOf({1, 10, 100}) * kGigabit, shares_hosts || choices.Below(2) == 0), way,
          seed);
      const uint64_t staging = uint64_t{way.path.chunk_bytes} * way.path.staging_chunks;
      run.calls = RandomCalls(n, 5, staging * (1 + choices.Below(8)), choices);
      const Nanos late = choices.OneOf({0, 10, 1000}) * kMicrosecond;
      run.Start(late, choices.OneOf({0, 3, 30}), choices.OneOf({1, 20, 500}) * kMicrosecond);
      run.RunToEnd();
      run.ExpectNothingLost();
      if (HasFailure()) return;
    }
  }
}

// On slow links, where what waits for the link is most of a call.
TEST(MulticastTest, AStoppedRankHoldsUpTheOthersAndLosesNothing) {
  for (const RanksOfTree& place : {Places()[1], Places()[3]}) {
    const auto n = static_cast<int>(place.rank_host.size());
    for (const Collective collective : {Collective::kBroadcast, Collective::kAllGather}) {
      for (const uint32_t tokens : {1, 2, 4}) {
        for (const int moment : {1, 3, 5, 7}) {
          SCOPED_TRACE(testing::Message() << place.name << ", collective " << static_cast<int>(collective)
                                          << ", tokens " << tokens << ", moment " << moment);
          OneGroup run(place, ConfigOf(place, kGigabit), {.path = PathOf(256, 128, tokens)}, 1);
          ControlHeader header{
              .collective = collective, .type = DataType::kByte, .count = uint64_t{256} * 128 * 8};
          if (collective == Collective::kAllGather) {
            header.parts = static_cast<uint32_t>(n);
            header.count /= header.parts;
          }
          run.calls.emplace_back(header, n, 0);
          for (int r = 0; r < n; ++r) run.StartAll(r);
          // All of it takes 1.8 ms at least.
          run.StopFor(1 + moment % (n - 1), moment * 200 * kMicrosecond, 50 * kMillisecond);
          run.RunToEnd();
          run.ExpectNothingLost();
          EXPECT_GT(run.world.now(), 50 * kMillisecond) << "it was not held up";
          if (HasFailure()) return;
        }
      }
    }
  }
}

// Datagrams are lost, repeated and held back like all packets, and several spines let tokens overtake them.
TEST(MulticastTest, AllIsRightOverBadLinksAndSeveralSpines) {
  constexpr FaultRates kRates[] = {
      {},
      {.loss_ppm = 10'000, .duplicate_ppm = 10'000, .delay_ppm = 10'000, .corrupt_ppm = 10'000},
      {.loss_ppm = 50'000},
      {.duplicate_ppm = 100'000, .delay_ppm = 100'000}};
  std::vector<RanksOfTree> places = Places();
  places.push_back({"spine-2-2-2", LeafSpine(2, 2, 2), {0, 1, 2, 3}});
  places.push_back({"spine-3-4-2", LeafSpine(4, 3, 2), {7, 0, 3, 5, 1, 6}});
  uint64_t read = 0, again = 0;
  const TestSeeds seeds = SeedsToRun(4);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    for (const RanksOfTree& place : places) {
      SCOPED_TRACE(testing::Message()
                   << "replay: EPIC_SEED=" << seed << " with this test as --gtest_filter; " << place.name);
      Choices choices(seed * 100 + 1);
      const auto n = static_cast<int>(place.rank_host.size());
      HostsWay way = RandomWay(n, choices);
      // Less than nobody is overrun with.
      if (choices.Below(2) == 0) way.path.staging_chunks = 2 * way.path.tokens;
      OneGroup run(place, ConfigOf(place, choices.OneOf({1, 10, 100}) * kGigabit), way, seed);
      RandomFaults faults(kRates[choices.Below(std::size(kRates))]);
      run.world.SetFaultRule(
          [&](const LinkPacket& p) { return faults.Next(p, run.world.now(), run.world.choices()); });
      run.calls = RandomCalls(n, 5, 20'000, choices);
      run.Start(choices.OneOf({0, 10, 1000}) * kMicrosecond, choices.OneOf({0, 3}), 100 * kMicrosecond);
      if (choices.Below(2) == 0) run.world.GiveGroupPorts();
      run.RunToEnd();
      if (HasFailure()) return;
      for (int r = 0; r < n; ++r) {
        read += run.ranks.multicast(r).read;
        again += run.ranks.multicast(r).again;
      }
    }
  }
  if (seeds.count < 4) return;
  EXPECT_GT(read, 0u);
  EXPECT_GT(again, 0u);
}

// A chunk of each part does not fit: who is late or stands still is overrun, and reads what he has missed.
TEST(MulticastTest, WithAStagingRingShorterThanThePartsAllIsRight) {
  const RanksOfTree& place = Places()[2];
  const auto n = static_cast<int>(place.rank_host.size());
  uint64_t read = 0;
  for (const uint32_t tokens : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "tokens " << tokens);
    HostsWay way{.path = PathOf(256, 2 * tokens, tokens)};
    ASSERT_LT(way.path.staging_chunks, static_cast<uint32_t>(n));
    OneGroup run(place, ConfigOf(place, 10 * kGigabit), way, tokens);
    for (int k = 0; k < 4; ++k) {
      ControlHeader header{
          .collective = Collective::kBroadcast, .type = DataType::kByte, .count = uint64_t{256} * 64};
      if (k % 2 == 0) {
        header.collective = Collective::kAllGather;
        header.parts = static_cast<uint32_t>(n);
      }
      run.calls.emplace_back(header, n, k);
    }
    run.Start(100 * kMicrosecond, 30, 100 * kMicrosecond);
    run.RunToEnd();
    for (int r = 0; r < n; ++r) read += run.ranks.multicast(r).read;
  }
  EXPECT_GT(read, 0u) << "nobody was overrun";
}

// Two leaves, three spines: of each part a block goes to each of three addresses, over a spine of its own.
TEST(MulticastTest, EachAddressTakesATreeOfItsOwn) {
  constexpr int kChunks = 12;
  const RanksOfTree place{"spine-2-3-2", LeafSpine(2, 3, 2), {0, 1, 2, 3}};
  HostsWay way{.path = PathOf(256, 512, 1)};
  way.path.addresses = 3;
  OneGroup run(place, ConfigOf(place, kGigabit), way, 1);
  run.world.GiveGroupPorts();
  std::map<std::pair<int, uint32_t>, int> by_spine;  // and address: datagrams
  run.world.SetSendWatch([&](const LinkPacket& p, Fate) {
    const Ip to = p.packet->dst_ip;
    if (to.is_multicast() && p.to < run.world.switches() && p.from < run.world.switches() && p.from != 1 &&
        p.from != 2)
      ++by_spine[{p.from, Raw(to.v4()) & 0xf}];
  });
  run.calls.emplace_back(
      ControlHeader{
          .collective = Collective::kAllGather, .type = DataType::kByte, .count = kChunks * 256, .parts = 4},
      4, 0);
  for (int r = 0; r < 4; ++r) run.StartAll(r);
  run.RunToEnd();
  // Each spine sends what comes from one leaf to the other one.
  const std::map<std::pair<int, uint32_t>, int> third = {
      {{0, 0}, 4 * kChunks / 3}, {{3, 1}, 4 * kChunks / 3}, {{4, 2}, 4 * kChunks / 3}};
  EXPECT_EQ(by_spine, third);
}

}  // namespace
}  // namespace epic::sim
