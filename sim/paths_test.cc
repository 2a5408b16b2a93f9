// Calls between the hosts of a world, by the core that the library runs: every collective, type, operation
// and algorithm while links misbehave; ranks that disagree, or come late; and exact times where nothing goes
// wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/seeds_testing.h"
#include "sim/faults.h"
#include "sim/group_ranks.h"

namespace epic::sim {
namespace {

constexpr Nanos kForEver = 60 * kSecond;
constexpr FaultRates kBadLinks{
    .loss_ppm = 10'000, .duplicate_ppm = 10'000, .delay_ppm = 10'000, .corrupt_ppm = 10'000};

// Messages, staging and inlined data so small that calls take several of each.
HostsWay SmallWay(Algorithm algorithm) {
  return {.path = {.algorithm = algorithm, .message_bytes = 96, .staging_bytes = 1024, .inline_bytes = 512},
          .tell_ns = 5 * kMicrosecond};
}

WorldConfig ConfigOf(const TreeSpec& tree) {
  return {.tree = tree, .path_mtu = 256, .host_timeout = 8, .arena_bytes = 4 << 20};
}

// A world whose links misbehave, with one group.
struct BadWorld {
  BadWorld(const TreeSpec& tree, const HostsWay& way, uint64_t seed)
      : world(ConfigOf(tree), seed), faults(kBadLinks), choices(seed), ranks(world, 0, way, choices) {
    world.SetFaultRule([this](const LinkPacket& p) { return faults.Next(p, world.now(), world.choices()); });
  }
  void StartAll(Calls& calls) {
    for (int r = 0; r < world.ranks(); ++r) {
      for (CollectiveCall& call : calls) ranks.Start(r, call);
    }
  }
  bool Run(size_t calls) {
    return world.RunUntil([this, calls] { return ranks.Finished(calls); }, world.now() + kForEver);
  }

  World world;
  RandomFaults faults;
  Choices choices;
  GroupRanks ranks;
};

ControlHeader HeaderOf(Collective collective, DataType type, ReduceOp op, int n, Choices& choices) {
  ControlHeader header{.collective = collective, .type = type};
  if (Reduces(collective)) header.op = op;
  if (HasPartPerRank(collective)) header.parts = static_cast<uint32_t>(n);
  if (collective == Collective::kReduce || collective == Collective::kBroadcast)
    header.root = static_cast<uint32_t>(choices.Below(static_cast<uint64_t>(n)));
  header.count = choices.Below(choices.Below(2) == 0 ? 8 : 300 / header.parts);
  return header;
}

// A call of each collective with each type and operation that it can have.
Calls OneOfEach(int n, Choices& choices) {
  Calls calls;
  const auto add = [&](const ControlHeader& header) {
    calls.emplace_back(header, n, static_cast<int>(calls.size()));
  };
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
                                      Collective::kReduceScatter, Collective::kAllGather}) {
    for (const auto& type : kCallerTypes) {
      for (const auto& op : kReduceOps) {
        if (Reduces(collective) ? !CanReduce(op.op, type.type) : op.op != kReduceOps[0].op) continue;
        add(HeaderOf(collective, type.type, op.op, n, choices));
      }
    }
    add({.collective = Collective::kBarrier});
  }
  return calls;
}

void ExpectRight(const BadWorld& world, const Calls& calls, int n) {
  for (int r = 0; r < n; ++r) {
    for (size_t k = 0; k < calls.size(); ++k) {
      ASSERT_EQ(world.ranks.state(r, static_cast<int>(k)), CallState::kDone) << calls[k].Describe();
      ASSERT_EQ(calls[k].Wrong(r), 0u) << calls[k].Describe() << ", rank " << r << " of " << n;
    }
  }
}

class PathsTest : public testing::TestWithParam<Algorithm> {};

TEST_P(PathsTest, EveryCallIsRightOverBadLinks) {
  const TestSeeds seeds = SeedsToRun(2);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay: EPIC_SEED=" << seed << " with this test as --gtest_filter");
    for (int n = 2; n <= 8; ++n) {
      BadWorld bad(Star(n), SmallWay(GetParam()), seed);
      Choices choices(seed + 100 * static_cast<uint64_t>(n));
      Calls calls = OneOfEach(n, choices);
      bad.StartAll(calls);
      ASSERT_TRUE(bad.Run(calls.size())) << n << " ranks\n" << bad.ranks.Standing();
      ExpectRight(bad, calls, n);
      EXPECT_EQ(bad.world.host(0).qp().counters().packets_sent, 0u) << "nothing of them goes by the network";
    }
  }
}

// Through the switches of trees, with several spines and several ranks on a host.
TEST_P(PathsTest, TreesAndSeveralRanksOnAHost) {
  for (const TreeSpec& tree : {FullTree(2, 2), LeafSpine(2, 2, 2), UnevenTree()}) {
    World world(ConfigOf(tree), 1);
    GroupSpec spec{.mode = kDefaultMode, .rank_host = {0, 1, 0, 2, 2}};
    const int group = world.AddGroup(spec);
    Choices choices(2);
    GroupRanks ranks(world, group, SmallWay(GetParam()), choices);
    Calls calls = OneOfEach(5, choices);
    for (int r = 0; r < 5; ++r) {
      for (CollectiveCall& call : calls) ranks.Start(r, call);
    }
    ASSERT_TRUE(world.RunUntil([&] { return ranks.Finished(calls.size()); }, kForEver)) << ranks.Standing();
    for (int r = 0; r < 5; ++r) {
      for (const CollectiveCall& call : calls) ASSERT_EQ(call.Wrong(r), 0u) << call.Describe();
    }
  }
}

// Nobody has a result before the last has called, and everybody has it then.
TEST_P(PathsTest, ALateRankIsWaitedFor) {
  for (int n = 2; n <= 8; ++n) {
    for (int late = 0; late < n; ++late) {
      BadWorld bad(Star(n), SmallWay(GetParam()), static_cast<uint64_t>(n));
      Calls calls;
      calls.emplace_back(ControlHeader{.collective = Collective::kBroadcast,
                                       .type = DataType::kByte,
                                       .count = 700,
                                       .root = static_cast<uint32_t>((late + 1) % n)},
                         n, 0);
      for (int r = 0; r < n; ++r) {
        if (r != late) bad.ranks.Start(r, calls[0]);
      }
      ASSERT_FALSE(bad.world.RunUntil([] { return false; }, 10 * kSecond));
      for (int r = 0; r < n; ++r) {
        EXPECT_EQ(r != late && bad.ranks.state(r, 0) != CallState::kRunning, false) << r;
      }
      bad.ranks.Start(late, calls[0]);
      ASSERT_TRUE(bad.Run(1)) << bad.ranks.Standing();
      ExpectRight(bad, calls, n);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, PathsTest,
                         testing::Values(Algorithm::kAuto, Algorithm::kDoubling, Algorithm::kRing),
                         [](const auto& each) {
                           return std::string(AlgorithmName(AlgorithmFlags(each.param)));
                         });

struct Difference {
  ControlField field;
  std::function<void(ControlHeader&)> make;
};
const Difference kDifferences[] = {
    {ControlField::kCollective, [](ControlHeader& h) { h.collective = Collective::kAllReduce, h.root = 0; }},
    {ControlField::kOp, [](ControlHeader& h) { h.op = ReduceOp::kMax; }},
    {ControlField::kType, [](ControlHeader& h) { h.type = DataType::kUint64; }},
    {ControlField::kCount, [](ControlHeader& h) { h.count += 100; }},
    {ControlField::kRoot, [](ControlHeader& h) { h.root = 1; }},
};

// One rank calls otherwise: all end in the same error, which names it and what differs. `by_hosts`: the ranks
// agree by their own connections; else by the switches.
void ExpectMismatch(const Difference& difference, int n, int culprit, bool by_hosts) {
  SCOPED_TRACE(testing::Message() << "field " << static_cast<int>(difference.field) << ", rank " << culprit
                                  << " of " << n << (by_hosts ? "" : ", by the switches"));
  HostsWay way = SmallWay(Algorithm::kAuto);
  way.path.agrees_by_exchange = by_hosts;
  way.abilities = {};  // that serve nothing
  BadWorld bad(Star(n), way, static_cast<uint64_t>(n * 10 + culprit));
  const ControlHeader header{
      .collective = Collective::kReduce, .op = ReduceOp::kSum, .type = DataType::kInt64, .count = 100};
  ControlHeader other = header;
  difference.make(other);
  Calls barriers, reduces, others;
  barriers.emplace_back(ControlHeader{.collective = Collective::kBarrier}, n, 0);
  reduces.emplace_back(header, n, 1);
  others.emplace_back(other, n, 1);
  for (int r = 0; r < n; ++r) {
    bad.ranks.Start(r, barriers[0]);
    bad.ranks.Start(r, r == culprit ? others[0] : reduces[0]);
    bad.ranks.Start(r, barriers[0]);
  }
  const auto all_ended = [&] {
    for (int r = 0; r < n; ++r) {
      if (bad.ranks.state(r, 2) == CallState::kRunning) return false;
    }
    return true;
  };
  // One whose last message's acknowledgement is lost repeats it to a queue pair that is gone, and ends when
  // the manager tells it that the others have.
  if (!bad.world.RunUntil(all_ended, kSecond)) {
    for (int r = 0; r < n; ++r) bad.world.AbortRank(r, 0);
  }
  ASSERT_TRUE(bad.world.RunUntil(all_ended, kForEver)) << bad.ranks.Standing();
  for (int r = 0; r < n; ++r) {
    EXPECT_EQ(bad.ranks.state(r, 0), CallState::kDone);
    EXPECT_EQ(bad.ranks.outcome(r, 1), Outcome::kRefused) << r;
    const ControlHeader& reply = bad.world.host(r).reply(1);
    EXPECT_EQ(reply.status, ControlStatus::kMismatch);
    EXPECT_EQ(reply.field, difference.field);
    // If rank 0 differs, so do all others from it, and rank 1 is the first.
    if (!by_hosts) continue;
    EXPECT_EQ(reply.culprit, static_cast<uint32_t>(std::max(culprit, 1))) << r;
  }
}

TEST(PathsMismatchTest, AllRanksEndInTheSameErrorThatNamesFieldAndRank) {
  for (const Difference& difference : kDifferences) {
    for (const int n : {2, 3, 4, 5, 8}) {
      for (int culprit = 0; culprit < n; ++culprit) ExpectMismatch(difference, n, culprit, true);
    }
    for (int culprit = 0; culprit < 3; ++culprit) ExpectMismatch(difference, 3, culprit, false);
  }
}

// What so many bytes of payload take of a link at 200 Gbit/s, and of several with switches between.
constexpr Picos OnLink(int64_t bytes) { return (bytes + 80) * 40; }
constexpr Picos Through(int links, int64_t bytes) { return links * (ToPicos(kMicrosecond) + OnLink(bytes)); }

// How long a call takes of all ranks at once, the connections made by one like it before.
Picos TimeOfSecond(World& world, const std::optional<HostsWay>& way, const ControlHeader& header) {
  const int n = world.ranks();
  Choices choices(1);
  GroupRanks ranks(world, 0, way, choices);
  Calls calls;
  for (int k = 0; k < 2; ++k) calls.emplace_back(header, n, k);
  for (int r = 0; r < n; ++r) ranks.Start(r, calls[0]);
  EXPECT_TRUE(world.RunUntil([&] { return ranks.Finished(1); }, kSecond));
  Picos first = 0;
  world.At(world.now() + kMillisecond, [&] {
    first = world.clock();
    for (int r = 0; r < n; ++r) ranks.Start(r, calls[1]);
  });
  EXPECT_TRUE(world.RunUntil([&] { return ranks.Finished(2); }, kSecond));
  for (int r = 0; r < n; ++r) EXPECT_EQ(calls[1].Wrong(r), 0u);
  return world.clock() - first;
}

// Of a ring AllReduce of chunks of so many full packets.
Picos TimeOfRing(const TreeSpec& tree, int packets) {
  World world({.tree = tree, .path_mtu = 256, .bits_per_second = 200'000'000'000}, 1);
  const auto n = static_cast<uint64_t>(world.ranks());
  const uint64_t chunk = 256 * static_cast<uint64_t>(packets);
  const HostsWay way{.path = {.algorithm = Algorithm::kRing,
                              .message_bytes = static_cast<uint32_t>(chunk),
                              .staging_bytes = chunk * n,
                              .inline_bytes = 256}};
  return TimeOfSecond(world, way,
                      {.collective = Collective::kAllReduce,
                       .op = ReduceOp::kSum,
                       .type = DataType::kInt32,
                       .count = chunk / 4 * n});
}

// Each round is a header's way, and what is received is acknowledged before anything else is sent. Beside a
// cube of p ranks the folded one costs a round, not two: a cube's other ranks do not wait for it, so that
// only the last round is later.
Picos ExchangeOnStar(int n) {
  int rounds = 0;
  while (2 << rounds <= n) ++rounds;
  if (n > 1 << rounds) ++rounds;
  // With three the headers of both others are on the proxy's link at once, and so are its two
  // acknowledgements before the outcome for the folded rank, which begins last.
  const Picos behind = n == 3 ? OnLink(kControlBytes) + OnLink(0) : 0;
  return rounds * (Through(2, kControlBytes) + OnLink(0)) + behind;
}

TEST(PathsTimeTest, ARingTakesTheClosedFormBehindItsExchange) {
  for (const int n : {2, 3, 4, 5, 8}) {
    for (const int packets : {1, 3, 8}) {
      const Picos delay = Through(2, 256) - OnLink(256);
      const Picos ring = 2 * (n - 1) * (delay + packets * OnLink(256));
      const Picos acks = (2 * (n - 1) - 1) * OnLink(0);
      // The call ends when its last message is acknowledged.
      EXPECT_EQ(TimeOfRing(Star(n), packets), ExchangeOnStar(n) + ring + acks + Through(2, 0))
          << n << " ranks, " << packets << " packets";
    }
  }
}

// Of a product of 8 bytes of eight ranks, whose switch serves nothing.
Picos TimeOfSmallProduct(Algorithm algorithm, bool agrees_by_exchange) {
  World world({.tree = Star(8), .path_mtu = 256, .bits_per_second = 200'000'000'000}, 1);
  HostsWay way{.path = {.algorithm = algorithm, .agrees_by_exchange = agrees_by_exchange}};
  way.abilities = {};
  return TimeOfSecond(
      world, way,
      {.collective = Collective::kAllReduce, .op = ReduceOp::kProduct, .type = DataType::kInt64, .count = 1});
}

// What a switch lacks is slower than by the hosts alone by the switch's agreement: a round trip.
TEST(PathsTimeTest, WhatASwitchLacksTakesARoundTripMoreThanByTheHosts) {
  // What has come of it is acknowledged before anything else is sent.
  const Picos round_trip = Through(2, kControlBytes) + OnLink(0);
  for (const Algorithm algorithm : {Algorithm::kAuto, Algorithm::kDoubling}) {
    const Picos by_hosts = TimeOfSmallProduct(algorithm, true);
    EXPECT_EQ(TimeOfSmallProduct(algorithm, false), by_hosts + round_trip);
  }
  EXPECT_GT(TimeOfSmallProduct(Algorithm::kRing, false), TimeOfSmallProduct(Algorithm::kAuto, false));
}

// Every collective through the switches and between the hosts, of all shares so many bytes together.
struct Race {
  Picos by_choice = 0, by_switches = 0, by_hosts = 0, round_trip = 0;
};

Race RaceOf(const TreeSpec& tree, ModeSpec mode, Collective collective, uint64_t bytes) {
  const auto time = [&](const std::optional<HostsWay>& way, Collective what) {
    World world({.mode = mode,
                 .tree = tree,
                 .window_messages = 16,
                 .inline_bytes = 4096,
                 .arena_bytes = 4 << 20,
                 .ranks_take_turns = true},
                1);
    ControlHeader header{.collective = what};
    if (what == Collective::kBarrier) return TimeOfSecond(world, way, header);
    const auto n = static_cast<uint32_t>(world.ranks());
    header.parts = HasPartPerRank(what) ? n : 1;
    header.op = Reduces(what) ? ReduceOp::kSum : ReduceOp::kNone;
    header.type = DataType::kInt32;
    header.count = bytes / 4 / header.parts;
    return TimeOfSecond(world, way, header);
  };
  const HostsWay exchange{.path = {.agrees_by_exchange = true}};
  return {.by_choice = time(HostsWay{.path = {.agrees_by_exchange = false}}, collective),
          .by_switches = time(std::nullopt, collective),
          .by_hosts = time(exchange, collective),
          .round_trip = time(exchange, Collective::kBarrier)};
}

constexpr std::array kWithData = {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
                                  Collective::kReduceScatter, Collective::kAllGather};

// Where links are what is scarce. A round trip is a Barrier between the hosts, as in bench/compare
// --against-hosts.
TEST(PathsTimeTest, NoCallTakesMoreThanARoundTripLongerThanBetweenTheHosts) {
  const auto expect = [](const TreeSpec& tree, Mode mode, Collective collective, uint64_t bytes) {
    const Race race = RaceOf(tree, mode, collective, bytes);
    EXPECT_LE(race.by_choice, race.by_hosts + race.round_trip)
        << "collective " << static_cast<int>(collective) << " of " << bytes << " bytes, by the switches "
        << race.by_switches;
  };
  for (const Collective collective : kWithData) {
    for (const uint64_t bytes : {64, 4 << 10, 32 << 10, 280 << 10, 700 << 10}) {
      expect(Star(4), kDefaultMode, collective, bytes);
      expect(FullTree(2, 2), kDefaultMode, collective, bytes);
    }
    for (const ModeInfo& mode : kModesOfOwnMemory) expect(Star(4), mode.mode, collective, 280 << 10);
  }
}

// One after the other, the parts of this one take S/B: a rank receives nothing while its own is sent.
TEST(PathsTimeTest, ALongAllGatherHasAllLinksBusyAllTheTime) {
  const Race race = RaceOf(Star(4), kDefaultMode, Collective::kAllGather, 4 << 20);
  EXPECT_EQ(race.by_choice, race.by_switches);
  EXPECT_LE(race.by_switches, race.by_hosts + race.round_trip);
}

TEST(PathsTimeTest, ALargeReduceScatterIsShorterAroundTheRing) {
  const Race race = RaceOf(Star(4), kDefaultMode, Collective::kReduceScatter, 4 << 20);
  EXPECT_GT(race.by_switches, race.by_hosts + race.round_trip) << "why it is not left to them";
  EXPECT_LE(race.by_choice, race.by_hosts + race.round_trip);
  const Race small = RaceOf(Star(4), kDefaultMode, Collective::kReduceScatter, 256 << 10);
  EXPECT_EQ(small.by_choice, small.by_switches);
}

// Two ranks on each of two leaves: every other step is from leaf to leaf, by four links, whichever rank one
// follows. Of the exchange the second round goes there, of both ranks by the same links.
TEST(PathsTimeTest, ARingTakesTheClosedFormOverATree) {
  for (const int packets : {1, 3, 8}) {
    const Picos chunk = packets * OnLink(256), first = OnLink(256);
    const Picos ring = 3 * (Through(2, 256) - first + chunk) + 3 * (Through(4, 256) - first + chunk);
    const Picos exchange =
        Through(2, kControlBytes) + OnLink(0) + Through(4, kControlBytes) + OnLink(kControlBytes) + OnLink(0);
    const Picos acks = 5 * OnLink(0);
    EXPECT_EQ(TimeOfRing(FullTree(2, 2), packets), exchange + ring + acks + Through(4, 0))
        << packets << " packets";
  }
}

}  // namespace
}  // namespace epic::sim
