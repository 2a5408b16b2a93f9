// In a network that loses nothing and keeps the order of packets, nothing is dropped, refused or sent twice:
// in every mode and collective, however unevenly its links and hosts are held up (docs/PROTOCOL.md, section
// 4).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "base/seeds_testing.h"
#include "sim/collectives.h"
#include "sim/realisations_testing.h"

namespace epic::sim {
namespace {

class BackpressureTest : public testing::TestWithParam<Realisation> {};

INSTANTIATE_TEST_SUITE_P(Modes, BackpressureTest, testing::ValuesIn(Realisations()),
                         [](const auto& param) { return std::string(param.param.name); });

// How links hold packets up, by chance; of those to and from one host oftener.
struct Delays {
  uint64_t ppm = 0;
  int slow_host = -1;
  uint64_t slow_ppm = 0;
};

// What was not as it must be, at each place where it was not; empty if all is well.
std::string Trouble(World& world) {
  std::string out;
  const auto add = [&out](const std::string& where, const char* what, uint64_t count) {
    if (count != 0) out += fmt::format("{}: {} {}\n", where, count, what);
  };
  for (int s = 0; s < world.switches(); ++s) {
    const engine::Context& ctx = world.context(s);
    const std::string where = fmt::format("switch {}", s);
    for (size_t reason = 0; reason < ctx.counters.drops.size(); ++reason) {
      add(where, engine::Name(static_cast<engine::DropReason>(reason)), ctx.counters.drops[reason]);
    }
    add(where, "repeats", ctx.counters.repeats);
    add(where, "timeouts towards the parent", ctx.counters.uplink_timeouts);
    const auto endpoint = [&](const engine::Endpoint& ep, const std::string& at) {
      add(at, "gaps", ep.counters.gaps);
      add(at, "duplicates", ep.counters.duplicates);
      add(at, "NAKs", ep.counters.naks_sent);
      add(at, "RNR NAKs", ep.counters.rnr_naks_sent);
      add(at, "CNPs", ep.counters.cnps_sent);
      add(at, "prompts", ep.counters.prompts);
    };
    for (size_t c = 0; c < ctx.children.size(); ++c)
      endpoint(ctx.children[c], fmt::format("{}, child {}", where, c));
    if (!ctx.is_root()) endpoint(ctx.parent, where + ", parent");
  }
  for (int r = 0; r < world.ranks(); ++r) {
    const roce::QpCounters& counters = world.host(r).qp().counters();
    const std::string where = fmt::format("rank {}", r);
    add(where, "packets repeated", counters.packets_repeated);
    add(where, "NAKs", counters.naks_sent);
    add(where, "RNR NAKs", counters.rnr_naks_sent);
    add(where, "duplicates", counters.duplicates);
    add(where, "timeouts", counters.timeouts);
  }
  return out;
}

// send_windows: of each rank, in messages; empty: the group's.
void ExpectNoTrouble(const WorldConfig& config, const std::vector<ControlHeader>& headers,
                     const Delays& delays, uint64_t seed, const std::vector<uint32_t>& send_windows = {}) {
  World world(config, seed);
  const auto ranks = static_cast<uint32_t>(world.ranks());
  world.SetFaultRule([&](const LinkPacket& p) {
    const int slow = delays.slow_host < 0 ? -1 : world.node_of_host(delays.slow_host);
    const bool is_slow = p.from == slow || p.to == slow;
    return world.choices().Chance(is_slow ? delays.slow_ppm : delays.ppm) ? Fate::kHold : Fate::kDeliver;
  });
  for (size_t r = 0; r < send_windows.size(); ++r)
    world.host(static_cast<int>(r)).SetSendWindow(send_windows[r]);
  Calls calls;
  for (ControlHeader header : headers) {
    if (HasPartPerRank(header.collective)) header.parts = ranks;
    calls.emplace_back(header, world.ranks(), static_cast<int>(calls.size()));
  }
  for (int r = 0; r < world.ranks(); ++r) StartCalls(world, 0, r, calls, 0, 0);
  ASSERT_TRUE(world.RunUntil([&] { return Finished(world, 0, calls); }, 100 * kSecond)) << Standing(world, 0);
  for (const CollectiveCall& call : calls) {
    for (int r = 0; r < world.ranks(); ++r) EXPECT_EQ(call.Wrong(r), 0u) << call.Describe();
  }
  EXPECT_EQ(Trouble(world), "") << "in " << world.now() / kMicrosecond << " us of virtual time";
}

struct NamedTree {
  const char* name;
  TreeSpec tree;
};
const NamedTree kTrees[] = {{"star-4", Star(4)},
                            {"tree-3-2", FullTree(2, 2)},
                            {"three levels", FullTree(3, 2)},
                            {"uneven", UnevenTree()},
                            {"interleaved", InterleavedTree()}};

constexpr Collective kEvery[] = {Collective::kAllReduce, Collective::kReduce,    Collective::kBroadcast,
                                 Collective::kBarrier,   Collective::kAllGather, Collective::kReduceScatter};

ControlHeader HeaderOf(Collective collective, uint64_t count, uint32_t root) {
  ControlHeader header{.collective = collective};
  if (collective == Collective::kBarrier) return header;
  header.type = DataType::kInt32;
  header.count = count;
  if (Reduces(collective)) header.op = ReduceOp::kSum;
  if (collective == Collective::kReduce || collective == Collective::kBroadcast) header.root = root;
  return header;
}

// Some delays by chance, and each host in turn slower than the others.
TEST_P(BackpressureTest, EachCollectiveByItself) {
  const auto [first, count] = SeedsToRun(4);
  for (const NamedTree& tree : kTrees) {
    for (const Collective collective : kEvery) {
      for (uint64_t seed = first; seed < first + count; ++seed) {
        SCOPED_TRACE(fmt::format("{}, collective {}; replay: EPIC_SEED={} with this test as --gtest_filter",
                                 tree.name, static_cast<int>(collective), seed));
        const auto hosts = static_cast<int>(tree.tree.rank_switch.size());
        const int slow = static_cast<int>(seed) % (hosts + 1) - 1;
        WorldConfig config{.mode = ModesFor(GetParam(), tree.tree),
                           .tree = tree.tree,
                           .path_mtu = 256,
                           .message_packets = static_cast<uint32_t>(1 + seed % 4),
                           .window_messages = static_cast<uint32_t>(1 + seed / 2 % 4),
                           .prompt_ns = 20 * kMillisecond,
                           .super_frames = static_cast<SuperFrameLinks>(seed % 4)};
        const uint32_t root = static_cast<uint32_t>(seed) % static_cast<uint32_t>(hosts);
        // Six of the longest windows.
        ExpectNoTrouble(config, {HeaderOf(collective, 6500, root)}, {20000, slow, 200000}, seed);
        if (HasFailure()) break;
      }
    }
  }
}

// Up to sixteen calls open: short and long, of all collectives.
void ExpectNoTroubleInARow(const Realisation& realisation, const NamedTree& tree, uint64_t seed) {
  SCOPED_TRACE(fmt::format("{}; replay: EPIC_SEED={} with this test as --gtest_filter", tree.name, seed));
  Choices choices(seed * 7919);
  const auto hosts = tree.tree.rank_switch.size();
  WorldConfig config{.mode = ModesFor(realisation, tree.tree),
                     .tree = tree.tree,
                     .path_mtu = 256,
                     .message_packets = static_cast<uint32_t>(1 + choices.Below(8)),
                     .window_messages = static_cast<uint32_t>(1 + choices.Below(8)),
                     .prompt_ns = 20 * kMillisecond,
                     .super_frames = static_cast<SuperFrameLinks>(seed % 4)};
  std::vector<ControlHeader> headers;
  for (int k = 0; k < 30; ++k) {
    headers.push_back(HeaderOf(kEvery[choices.Below(std::size(kEvery))], 1 + choices.Below(4000),
                               static_cast<uint32_t>(choices.Below(hosts))));
  }
  const int slow = static_cast<int>(choices.Below(hosts + 1)) - 1;
  const Delays delays{choices.Below(50000), slow, choices.Below(500000)};
  // In half of them each: small calls' data in the control message, shared acknowledgements, send windows
  // that differ.
  if (choices.Below(2) == 0) config.inline_bytes = config.message_packets * config.path_mtu - 64;
  if (choices.Below(2) == 0) config.host_ack_delay_ns = 50 * kMicrosecond;
  std::vector<uint32_t> send_windows;
  for (size_t r = 0; r < hosts && seed % 2 == 0; ++r)
    send_windows.push_back(static_cast<uint32_t>(1 + choices.Below(config.window_messages)));
  ExpectNoTrouble(config, headers, delays, seed, send_windows);
}

TEST_P(BackpressureTest, CallsBehindEachOther) {
  const auto [first, count] = SeedsToRun(24);
  for (const NamedTree& tree : kTrees) {
    for (uint64_t seed = first; seed < first + count; ++seed) {
      ExpectNoTroubleInARow(GetParam(), tree, seed);
      if (HasFailure()) break;
    }
  }
}

// Mode I below mode III, with a window to the parent that counts packets and not indices: the parent's slots
// were too few.
TEST_P(BackpressureTest, WhatWasFoundStaysRepaired) { ExpectNoTroubleInARow(GetParam(), kTrees[1], 238); }

}  // namespace
}  // namespace epic::sim
