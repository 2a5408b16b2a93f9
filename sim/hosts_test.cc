// Hosts that speak to hosts: through the switches' own forwarding, over the same links as collectives, in
// exact time.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/seeds_testing.h"
#include "sim/faults.h"
#include "sim/jobs_testing.h"
#include "sim/peers_testing.h"

namespace epic::sim {
namespace {

constexpr int64_t kGigabit = 1'000'000'000;

const Shape kNetworks[] = {{"star-2", Star(2)},
                           {"star-4", Star(4)},
                           {"tree-3-2", FullTree(2, 2)},
                           {"two spines", LeafSpine(2, 2, 2)},
                           {"three spines, four leaves", LeafSpine(4, 3, 3)},
                           {"uneven", UnevenTree()}};

// What so many bytes of payload take of a link at rates of which a byte is a whole number of picoseconds.
Picos TimeOf(size_t bytes, int64_t rate) {
  return (static_cast<int64_t>(bytes) + 80) * 8 * kPicosPerSecond / rate;
}

// Links between two ranks' hosts, as the tables have it.
int Hops(const World& world, int from, int to) {
  return static_cast<int>(world.fabric().Path(world.node_of_host(from), world.node_of_host(to)).size()) - 1;
}

struct Speed {
  uint32_t path_mtu;
  int64_t rate;
};

// Each step is a chunk's time behind the path's delay, which is that of its links and a packet's time at each
// switch. The slowest chain of steps is the ring's time.
TEST(HostsTest, ARingTakesTheClosedForm) {
  constexpr Speed kSpeeds[] = {{256, 200 * kGigabit}, {1024, 100 * kGigabit}, {4096, 400 * kGigabit}};
  for (const Shape& shape : kNetworks) {
    for (const Speed& speed : kSpeeds) {
      for (const int packets : {1, 3, 4}) {
        SCOPED_TRACE(testing::Message() << shape.name << ", MTU " << speed.path_mtu << ", " << packets);
        World world({.tree = shape.tree,
                     .path_mtu = speed.path_mtu,
                     .link_delay_ns = 700,
                     .bits_per_second = speed.rate,
                     .arena_bytes = 16 << 20},
                    1);
        Ring ring(world, speed.path_mtu * static_cast<size_t>(packets), kLateAcks);
        ASSERT_TRUE(world.RunUntil([&] { return ring.done(); }, kSecond));
        ring.ExpectRight();
        const Picos packet = TimeOf(speed.path_mtu, speed.rate);
        const int n = world.ranks();
        Picos slowest = 0;
        for (int first = 0; first < n; ++first) {
          Picos chain = 0;
          for (int step = 0; step < 2 * (n - 1); ++step) {
            const int hops = Hops(world, (first + step) % n, (first + step + 1) % n);
            const Picos delay = hops * ToPicos(700) + (hops - 1) * packet;
            chain += delay + packets * packet;
          }
          slowest = std::max(slowest, chain);
        }
        EXPECT_EQ(world.clock(), slowest);
      }
    }
  }
}

// On a star all steps are alike: 2(n - 1) of them.
TEST(HostsTest, ARingOfAStarTakesItsStepsOneAfterTheOther) {
  for (const int n : {2, 3, 4, 5, 8}) {
    World world({.tree = Star(n), .path_mtu = 256, .bits_per_second = 200 * kGigabit}, 1);
    Ring ring(world, 256 * 4, kLateAcks);
    ASSERT_TRUE(world.RunUntil([&] { return ring.done(); }, kSecond));
    const Picos delay = 2 * 1'000'000 + 13'440;
    EXPECT_EQ(world.clock(), 2 * (n - 1) * (delay + 4 * 13'440)) << n << " ranks";
  }
}

// An acknowledgement of each chunk goes before what follows on the same link: all steps but the first begin
// later by the time that it takes there.
TEST(HostsTest, AcknowledgementsTakeTheirTime) {
  World world({.tree = Star(4), .path_mtu = 1024, .bits_per_second = 200 * kGigabit}, 1);
  Ring ring(world, 1024 * 5);
  ASSERT_TRUE(world.RunUntil([&] { return ring.done(); }, kSecond));
  ring.ExpectRight();
  const Picos step = 2 * 1'000'000 + 6 * TimeOf(1024, 200 * kGigabit);
  EXPECT_EQ(world.clock(), 6 * step + 5 * TimeOf(0, 200 * kGigabit));
}

// The links that packets cross are those of the tables; equal paths are spread over the spines.
TEST(HostsTest, PacketsGoByTheManagersTables) {
  World world({.tree = LeafSpine(4, 3, 3)}, 1);
  std::set<std::pair<int, int>> crossed;
  std::map<int, int> at_spine;
  world.SetFaultRule([&](const LinkPacket& p) {
    crossed.insert({p.from, p.to});
    if (p.to == 0 || p.to == 5 || p.to == 6) ++at_spine[p.to];
    return Fate::kDeliver;
  });
  Ring ring(world, 1000, kLateAcks);
  ASSERT_TRUE(world.RunUntil([&] { return ring.done(); }, kSecond));
  std::set<std::pair<int, int>> told;
  for (int r = 0; r < world.ranks(); ++r) {
    const int to = (r + 1) % world.ranks();
    const std::vector<int> path = world.fabric().Path(world.node_of_host(r), world.node_of_host(to));
    for (size_t i = 1; i < path.size(); ++i) told.insert({path[i - 1], path[i]});
  }
  EXPECT_EQ(crossed, told);
  EXPECT_GT(at_spine.size(), 1u) << "all went by one spine";
  uint64_t forwarded = 0;
  for (int s = 0; s < world.switches(); ++s) {
    forwarded += world.fabric().counters(s).forwarded_frames;
    EXPECT_EQ(std::accumulate(world.fabric().counters(s).forward_drops.begin(),
                              world.fabric().counters(s).forward_drops.end(), uint64_t{0}),
              0u);
  }
  EXPECT_EQ(forwarded, static_cast<uint64_t>(world.packets()) - 12 * 22) << "all but the hosts' own sends";
}

// A switch takes from a host's port only what bears the host's addresses.
TEST(HostsTest, SwitchesGuardTheirHosts) {
  World world({.tree = Star(3)}, 1);
  Ring ring(world, 100);
  Fabric fabric = world.fabric();
  roce::Packet packet;
  packet.src_ip = AddressOf(world.node_of_host(0));
  packet.dst_ip = AddressOf(world.node_of_host(1));
  EXPECT_EQ(fabric.Route(0, 0, 0, packet).size(), 1u);
  EXPECT_TRUE(fabric.Route(0, 0, 2, packet).empty()) << "by another host's port";
  EXPECT_EQ(fabric.counters(0).forward_drops[static_cast<size_t>(engine::ForwardDrop::kForgedSource)], 1u);
  packet.dst_ip = packet.src_ip;
  EXPECT_TRUE(fabric.Route(0, 0, 0, packet).empty());
  EXPECT_EQ(fabric.counters(0).forward_drops[static_cast<size_t>(engine::ForwardDrop::kBackToIngress)], 1u);
}

// Queue pairs repair what links do to their packets, while collectives of the same hosts run on the same
// links.
TEST(HostsTest, RingsAndCollectivesOnBadLinks) {
  const FaultRates kRates[] = {
      {.loss_ppm = 20'000},
      {.duplicate_ppm = 30'000},
      {.delay_ppm = 30'000},
      {.corrupt_ppm = 20'000},
      {.loss_ppm = 5'000, .duplicate_ppm = 5'000, .delay_ppm = 5'000, .corrupt_ppm = 5'000}};
  const TestSeeds seeds = SeedsToRun(10);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    for (const FaultRates& rates : kRates) {
      const Shape& shape = kNetworks[seed % std::size(kNetworks)];
      SCOPED_TRACE(testing::Message()
                   << "EPIC_SEED=" << seed << ", " << shape.name << ", rates " << &rates - kRates);
      World world({.mode = ModesOfOwnMemory()[seed % ModesOfOwnMemory().size()],
                   .tree = shape.tree,
                   .host_timeout = 8,
                   .super_frames = seed % 2 == 0 ? SuperFrameLinks::kAll : SuperFrameLinks::kNone,
                   .ranks_take_turns = seed % 3 == 0},
                  seed);
      RandomFaults faults(rates);
      int64_t struck = 0;
      world.SetFaultRule([&](const LinkPacket& p) {
        const Fate fate = faults.Next(p, world.now(), world.choices());
        struck += fate != Fate::kDeliver;
        return fate;
      });
      Ring ring(world, 10'000);
      std::vector<Job> jobs;
      for (int k = 0; k < 5; ++k) jobs.emplace_back(world.ranks(), 1000, k);
      for (Job& job : jobs) {
        for (int r = 0; r < world.ranks(); ++r) job.Start(world, r);
      }
      ASSERT_TRUE(world.RunUntil([&] { return ring.done() && world.AllDone(); }, 60 * kSecond));
      ring.ExpectRight();
      for (const Job& job : jobs) {
        for (int r = 0; r < world.ranks(); ++r) EXPECT_EQ(job.WrongElements(r), 0u);
      }
      EXPECT_GT(struck, 0);
    }
  }
}

// Several ranks on a host: what they send each other goes round inside it, and on no link.
TEST(HostsTest, RanksOfOneHostSpeakInside) {
  World world({.tree = Star(2)}, 1);
  const int group = world.AddGroup({.rank_host = {0, 0, 0}});
  Ring ring(world, 50'000, {}, group);
  ASSERT_TRUE(world.RunUntil([&] { return ring.done(); }, kSecond));
  ring.ExpectRight();
  EXPECT_EQ(world.packets(), 0);
  EXPECT_EQ(world.clock(), 0);
  const int mixed = world.AddGroup({.rank_host = {0, 1, 1, 0}});
  Ring other(world, 50'000, {}, mixed);
  ASSERT_TRUE(world.RunUntil([&] { return other.done(); }, kSecond));
  other.ExpectRight();
  EXPECT_GT(world.packets(), 0);
}

}  // namespace
}  // namespace epic::sim
