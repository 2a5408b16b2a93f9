// Super-frames in virtual time (docs/PROTOCOL.md, section 9): which links carry them and what joins; that one
// which is lost, cut short, damaged, late or repeated is so for its packets, in their order; and that every
// call ends right whichever of them that happens to, in each mode and collective.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "roce/super_frame.h"
#include "sim/calls_testing.h"
#include "sim/realisations_testing.h"

namespace epic::sim {
namespace {

using testing::Each;
using testing::ElementsAreArray;

constexpr Collective kAll[] = {Collective::kAllReduce, Collective::kReduce,        Collective::kBroadcast,
                               Collective::kAllGather, Collective::kReduceScatter, Collective::kBarrier};

WorldConfig Config(const Realisation& realisation, SuperFrameLinks links = SuperFrameLinks::kAll) {
  const TreeSpec tree = FullTree(2, 2);
  WorldConfig config{.mode = ModesFor(realisation, tree),
                     .tree = tree,
                     .path_mtu = 256,
                     .message_packets = 4,
                     .window_messages = 4,
                     .host_timeout = 14,
                     .packet_life_ns = kMillisecond,
                     .super_frames = links};
  config.arena_bytes = ArenaBytesOf(FirstGroupOf(config), config);
  return config;
}

// A call of so many bytes, the shares of all ranks together, and a small one behind it.
std::vector<Calls> CallsOf(Collective collective, uint64_t bytes = 4096) {
  constexpr int kRanks = 4;
  ControlHeader header{.collective = collective};
  if (collective != Collective::kBarrier) header.type = DataType::kInt32;
  if (Reduces(collective)) header.op = ReduceOp::kSum;
  if (HasPartPerRank(collective)) header.parts = kRanks;
  if (collective != Collective::kBarrier) header.count = bytes / 4 / header.parts;
  const ControlHeader next{
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kInt32, .count = 1};
  std::vector<Calls> by_group(1);
  by_group[0].emplace_back(header, kRanks, 0);
  by_group[0].emplace_back(next, kRanks, 1);
  return by_group;
}

class WorldSuperFramesTest : public testing::TestWithParam<Realisation> {};

INSTANTIATE_TEST_SUITE_P(Modes, WorldSuperFramesTest, testing::ValuesIn(Realisations()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(WorldSuperFramesTest, OnlyLinksWhoseEndsHaveAgreedCarryThem) {
  for (const SuperFrameLinks links :
       {SuperFrameLinks::kNone, SuperFrameLinks::kAll, SuperFrameLinks::kSwitches, SuperFrameLinks::kHosts}) {
    World world(Config(GetParam(), links), 1);
    int to_hosts = 0, from_hosts = 0, between_switches = 0;
    world.SetFaultRule([&](const LinkPacket& p) {
      const int first_host = world.node_of_host(0);
      if (p.packets > 1)
        ++(p.to >= first_host ? to_hosts : p.from >= first_host ? from_hosts : between_switches);
      return Fate::kDeliver;
    });
    std::vector<Calls> calls = CallsOf(Collective::kAllReduce, 16384);
    ASSERT_TRUE(RunCalls(world, calls, 0, kSecond));
    SCOPED_TRACE(testing::Message() << "links " << static_cast<int>(links));
    const bool hosts = links == SuperFrameLinks::kAll || links == SuperFrameLinks::kHosts;
    const bool switches = links == SuperFrameLinks::kAll || links == SuperFrameLinks::kSwitches;
    // A switch of mode II sends on packet by packet what comes to it so.
    const bool all = hosts && switches;
    EXPECT_TRUE(all ? to_hosts > 0 : hosts || to_hosts == 0) << to_hosts;
    EXPECT_EQ(from_hosts > 0, hosts);
    EXPECT_TRUE(all ? between_switches > 0 : switches || between_switches == 0) << between_switches;
    EXPECT_EQ(world.super_frames(), to_hosts + from_hosts + between_switches);
  }
}

TEST_P(WorldSuperFramesTest, WhatJoinsIsOneFlowOfOneLengthWithinTheBounds) {
  for (const uint32_t mtu : {256u, 4096u}) {
    WorldConfig config = Config(GetParam());
    config.path_mtu = mtu;
    config.message_packets = 16;
    config.arena_bytes = ArenaBytesOf(FirstGroupOf(config), config);
    World world(config, 1);
    struct Part {
      size_t bytes;
      Qpn qpn;
    };
    std::map<int64_t, std::vector<Part>> frames;
    world.SetSendWatch([&](const LinkPacket& p, Fate) {
      frames[p.frame].push_back(
          {roce::FrameBytes(*p.packet) - roce::kSuperFrameHeadBytes, p.packet->bth.dest_qp});
      EXPECT_LE(frames[p.frame].size(), static_cast<size_t>(p.packets));
    });
    std::vector<Calls> calls = CallsOf(Collective::kAllReduce, 100 * uint64_t{mtu});
    ASSERT_TRUE(RunCalls(world, calls, 0, kSecond));
    size_t most = 0;
    for (const auto& [number, parts] : frames) {
      most = std::max(most, parts.size());
      size_t bytes = roce::kSuperFrameHeadBytes;
      for (const Part& part : parts) {
        bytes += part.bytes;
        EXPECT_EQ(part.qpn, parts[0].qpn);
        if (&part == &parts.back()) {
          EXPECT_LE(part.bytes, parts[0].bytes);
        } else {
          EXPECT_EQ(part.bytes, parts[0].bytes);
        }
      }
      EXPECT_LE(bytes, roce::kMaxSuperFrameBytes);
      EXPECT_LE(parts.size(), roce::kMaxSuperFramePackets);
    }
    if (mtu == 4096) {
      EXPECT_EQ(most, 15u);
    } else {
      EXPECT_GT(most, 15u) << "there is no other bound within a window of 64";
    }
  }
}

// What was seen of the first long super-frame of a run, which meets with a fault.
struct OneStruck {
  std::vector<Fate> fates;        // of its packets
  std::vector<int64_t> arrivals;  // their places in it, in the order in which they came
  int64_t packets = 0;
};

OneStruck Strike(const Realisation& realisation, Fate fate, uint64_t seed) {
  World world(Config(realisation), seed);
  OneStruck struck;
  int64_t number = -1;
  world.SetFaultRule([&](const LinkPacket& p) {
    if (number >= 0 || p.packets < 4) return Fate::kDeliver;
    number = p.number;
    struck.packets = p.packets;
    return fate;
  });
  world.SetSendWatch([&](const LinkPacket& p, Fate of_packet) {
    if (p.frame == number) struck.fates.push_back(of_packet);
  });
  world.SetArrivalWatch([&](const LinkPacket& p, bool) {
    if (p.frame == number) struck.arrivals.push_back(p.number - number);
  });
  std::vector<Calls> calls = CallsOf(Collective::kAllReduce);
  EXPECT_TRUE(RunCalls(world, calls, 0, 10 * kSecond));
  // Copies may come long after the calls have ended.
  world.RunUntil([] { return false; }, world.now() + 2 * kMillisecond);
  EXPECT_EQ(struck.fates.size(), static_cast<size_t>(struck.packets));
  return struck;
}

std::vector<int64_t> Places(int64_t count) {
  std::vector<int64_t> places;
  for (int64_t k = 0; k < count; ++k) places.push_back(k);
  return places;
}

TEST_P(WorldSuperFramesTest, TheyAreLostLateAndRepeatedAsOne) {
  EXPECT_TRUE(Strike(GetParam(), Fate::kDrop, 1).arrivals.empty());
  for (const Fate fate : {Fate::kDeliver, Fate::kDelay, Fate::kHold}) {
    const OneStruck late = Strike(GetParam(), fate, 1);
    EXPECT_THAT(late.fates, Each(fate));
    EXPECT_THAT(late.arrivals, ElementsAreArray(Places(late.packets)));
  }
  for (const Fate fate : {Fate::kDuplicate, Fate::kLinger}) {
    const OneStruck twice = Strike(GetParam(), fate, 1);
    std::vector<int64_t> places = Places(twice.packets);
    places.insert(places.end(), places.begin(), places.end());
    EXPECT_THAT(twice.arrivals, ElementsAreArray(places)) << "the copy behind it, as a whole";
  }
}

TEST_P(WorldSuperFramesTest, OfOneCutShortTheFirstPacketsArrive) {
  std::set<size_t> kept;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const OneStruck cut = Strike(GetParam(), Fate::kCut, seed);
    kept.insert(cut.arrivals.size());
    ASSERT_LT(cut.arrivals.size(), cut.fates.size());
    EXPECT_THAT(cut.arrivals, ElementsAreArray(Places(static_cast<int64_t>(cut.arrivals.size()))));
    for (size_t k = 0; k < cut.fates.size(); ++k)
      EXPECT_EQ(cut.fates[k], k < cut.arrivals.size() ? Fate::kDeliver : Fate::kCut);
  }
  EXPECT_GT(kept.size(), 1u) << "where is by chance";
}

TEST_P(WorldSuperFramesTest, OfOneDamagedAPacketIsLost) {
  const OneStruck damaged = Strike(GetParam(), Fate::kCorrupt, 1);
  EXPECT_EQ(std::ranges::count(damaged.fates, Fate::kCorrupt), 1);
  EXPECT_EQ(std::ranges::count(damaged.fates, Fate::kDeliver), damaged.packets - 1);
  EXPECT_EQ(damaged.arrivals.size(), damaged.fates.size() - 1);
  EXPECT_TRUE(std::ranges::is_sorted(damaged.arrivals));
}

// The numbers of the super-frames of a run without faults: those of their first packets.
std::vector<int64_t> SuperFramesOf(const WorldConfig& config, std::vector<Calls> calls) {
  World world(config, 1);
  std::vector<int64_t> numbers;
  world.SetFaultRule([&](const LinkPacket& p) {
    if (p.packets > 1) numbers.push_back(p.number);
    return Fate::kDeliver;
  });
  EXPECT_TRUE(RunCalls(world, calls, 0, kSecond));
  return numbers;
}

// What it is that happens does not change the run before it, so each of the reference's is met in turn. Where
// a choice is left, as where one is cut, it is another for each.
TEST_P(WorldSuperFramesTest, EachThatMeetsWithAFaultIsRepairedInEachCollective) {
  const WorldConfig config = Config(GetParam());
  for (const Collective collective : kAll) {
    const std::vector<int64_t> numbers = SuperFramesOf(config, CallsOf(collective));
    EXPECT_TRUE(collective == Collective::kBarrier || numbers.size() > 4);
    for (const Fate fate :
         {Fate::kDrop, Fate::kCut, Fate::kCorrupt, Fate::kDuplicate, Fate::kDelay, Fate::kLinger}) {
      for (const int64_t number : numbers) {
        SCOPED_TRACE(testing::Message() << "collective " << static_cast<int>(collective) << ", fate "
                                        << static_cast<int>(fate) << " of the one at packet " << number);
        World world(config, 1 + static_cast<uint64_t>(number));
        int hits = 0;
        world.SetFaultRule([&](const LinkPacket& p) {
          if (p.number != number || p.packets < 2) return Fate::kDeliver;
          ++hits;
          return fate;
        });
        std::vector<Calls> calls = CallsOf(collective);
        ASSERT_TRUE(RunCalls(world, calls, 0, 10 * kSecond));
        ASSERT_EQ(hits, 1);
      }
    }
  }
}

TEST_P(WorldSuperFramesTest, EachPairOfLossesIsRepaired) {
  const WorldConfig config = Config(GetParam());
  const std::vector<int64_t> numbers = SuperFramesOf(config, CallsOf(Collective::kAllReduce));
  for (size_t a = 0; a < numbers.size(); ++a) {
    // What is repeated after the first loss is met as well.
    for (size_t b = a + 1; b < numbers.size() + 4; ++b) {
      SCOPED_TRACE(testing::Message() << "super-frames " << a << " and " << b << " lost");
      World world(config, 1);
      size_t seen = 0;
      world.SetFaultRule([&](const LinkPacket& p) {
        if (p.packets < 2) return Fate::kDeliver;
        const size_t at = seen++;
        return at == a || at == b ? Fate::kDrop : Fate::kDeliver;
      });
      std::vector<Calls> calls = CallsOf(Collective::kAllReduce);
      ASSERT_TRUE(RunCalls(world, calls, 0, 10 * kSecond));
    }
  }
}

}  // namespace
}  // namespace epic::sim
