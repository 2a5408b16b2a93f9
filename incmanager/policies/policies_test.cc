#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "incmanager/policies/forwarding.h"
#include "incmanager/policies/tree.h"
#include "incmanager/policies/window.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;

// A tree as text: "root(leaf1(0 1) leaf2(2 3))", ports left out.
std::string Text(const Topology& topology, const Tree& tree, uint32_t index = 0) {
  std::string out = topology.nodes[tree.inner[index].node].name + "(";
  for (const TreeChild& child : tree.inner[index].children) {
    if (out.back() != '(') out += " ";
    out += child.is_host ? std::to_string(child.rank) : Text(topology, tree, child.inner);
  }
  return out + ")";
}

class Policies {
 public:
  explicit Policies(const Topology& t)
      : topology(t), tables(ComputeForwarding(topology)), offers(t.switch_count) {}

  std::variant<Tree, Failure> Build(const std::vector<std::string>& hosts) const {
    std::vector<NodeId> ids;
    for (const std::string& host : hosts) ids.push_back(*topology.FindNode(host));
    return BuildTree(topology, tables, offers, ids);
  }
  std::string TreeOf(const std::vector<std::string>& hosts) const {
    const auto result = Build(hosts);
    if (const auto* failure = std::get_if<Failure>(&result)) return "failure: " + failure->message;
    return Text(topology, std::get<Tree>(result));
  }
  SwitchOffer& Offer(const std::string& name) { return offers[*topology.FindSwitch(name)]; }

  Topology topology;
  std::vector<Forwarding> tables;
  std::vector<SwitchOffer> offers;
};

std::vector<std::string> Hosts(int count, int step = 1) {
  std::vector<std::string> hosts;
  for (int i = 0; i < count; ++i) hosts.push_back(fmt::format("h{}", i * step));
  return hosts;
}

TEST(BuildTree, StarHasOneSwitch) {
  EXPECT_EQ(Policies(testing::Star(4).Build()).TreeOf(Hosts(4)), "s1(0 1 2 3)");
  EXPECT_EQ(Policies(testing::Star(4).Build()).TreeOf({"h2", "h1"}), "s1(0 1)");
}

TEST(BuildTree, RootIsTheLowestCommonSwitch) {
  const Policies tree(testing::Tree32().Build());
  EXPECT_EQ(tree.TreeOf(Hosts(4)), "root(leaf1(0 1) leaf2(2 3))");
  EXPECT_EQ(tree.TreeOf({"h0", "h1"}), "leaf1(0 1)");
  EXPECT_EQ(tree.TreeOf({"h3", "h2"}), "leaf2(0 1)");
  const auto built = std::get<Tree>(tree.Build(Hosts(4)));
  EXPECT_EQ(built.depth_links, 2u);
  EXPECT_EQ(built.delay_us, 40);
  EXPECT_EQ(built.inner[0].children[1].port, "swp2");
  EXPECT_EQ(built.inner[2].parent_port, "swp3");
}

TEST(BuildTree, LeavesOutSwitchesWithOneChild) {
  const Policies tree(testing::Tree32().Build());
  EXPECT_EQ(tree.TreeOf({"h0", "h2"}), "root(0 1)");
  EXPECT_EQ(tree.TreeOf({"h0", "h2", "h1"}), "root(leaf1(0 2) 1)");
}

TEST(BuildTree, KeepsASwitchWithOneChildBehindARouter) {
  const Policies tree(testing::RoutedTree32().Build());
  EXPECT_EQ(tree.TreeOf(Hosts(4)), "root(leaf1(0 1) leaf2(2 3))");
  EXPECT_EQ(tree.TreeOf({"h0", "h2"}), "root(0 leaf2(1))") << "no router is in the way to h0";
}

TEST(BuildTree, KeepsASwitchWithOneChildBehindPortSecurity) {
  const Policies tree(testing::Tree32ButOneLink().Link("root", "leaf2", ", port_security: true").Build());
  EXPECT_EQ(tree.TreeOf({"h0", "h2"}), "root(0 leaf2(1))");
}

TEST(BuildTree, RanksMayShareAHost) {
  const Policies tree(testing::Tree32().Build());
  EXPECT_EQ(tree.TreeOf({"h0", "h0"}), "leaf1(0 1)");
  EXPECT_EQ(tree.TreeOf({"h0", "h2", "h0"}), "root(leaf1(0 2) 1)");
}

TEST(BuildTree, FatTree) {
  const Policies fat(testing::FatTree4().Build());
  const auto all = fat.Build(Hosts(16));
  const auto& tree = std::get<Tree>(all);
  EXPECT_EQ(tree.depth_links, 3u);
  EXPECT_EQ(tree.inner.size(), 1u + 4 + 8);
  EXPECT_EQ(tree.inner[0].children.size(), 4u);
  for (size_t i = 1; i < tree.inner.size(); ++i) EXPECT_EQ(tree.inner[i].children.size(), 2u);
  // One host below each edge switch: these are left out.
  EXPECT_EQ(fat.TreeOf(Hosts(8, 2)), "core1(agg1(0 1) agg3(2 3) agg5(4 5) agg7(6 7))");
  EXPECT_EQ(fat.TreeOf(Hosts(4)), "agg1(edge1(0 1) edge2(2 3))");
}

TEST(BuildTree, LoadedRootsAreAvoidedAmongEquals) {
  Policies fat(testing::FatTree4().Build());
  EXPECT_THAT(fat.TreeOf(Hosts(16)), ::testing::StartsWith("core1("));
  fat.Offer("core1").groups = 1;
  fat.Offer("core2").groups = 1;
  EXPECT_THAT(fat.TreeOf(Hosts(16)), ::testing::StartsWith("core3(agg2("));
}

TEST(BuildTree, GoesRoundSwitchesThatCannotTakePart) {
  Policies fat(testing::FatTree4().Build());
  fat.Offer("core1").unusable = "its agent is lost";
  fat.Offer("agg1").unusable = "its agent is lost";
  const std::string text = fat.TreeOf(Hosts(16));
  EXPECT_THAT(text, ::testing::StartsWith("core3(agg2("));
}

TEST(BuildTree, KeepsAnInnerSwitchWhereForwardingWouldCrossADeadOne) {
  // Two ways from d to a; ordinary forwarding takes one of them in each direction.
  testing::TopologyBuilder builder;
  builder.Switch("a").Switch("b").Switch("c").Switch("d").Switch("e").Host("h0").Host("h1").Host("h2");
  builder.Link("a", "b").Link("a", "c").Link("b", "d").Link("c", "d").Link("d", "e");
  builder.Link("a", "h0").Link("e", "h1").Link("d", "h2");
  const Policies alive(builder.Build());
  EXPECT_EQ(alive.TreeOf(Hosts(3)), "d(0 1 2)");
  const NodeId d = *alive.topology.FindNode("d");
  const NodeId h0 = *alive.topology.FindNode("h0");
  int crossed = 0;
  for (const char* name : {"b", "c"}) {
    Policies broken = alive;
    broken.Offer(name).unusable = "its engine is down";
    const NodeId dead = *broken.topology.FindNode(name);
    const auto uses_dead = [&](NodeId from, NodeId to) {
      const std::vector<NodeId> path = Walk(broken.topology, broken.tables, from, to);
      return std::count(path.begin(), path.end(), dead) != 0;
    };
    const bool crosses = uses_dead(d, h0) || uses_dead(h0, d);
    crossed += crosses ? 1 : 0;
    const std::string text = broken.TreeOf(Hosts(3));
    EXPECT_EQ(text == "d(0 1 2)", !crosses) << text << " without " << name;
    EXPECT_EQ(text.find(name), std::string::npos) << text;
  }
  EXPECT_GE(crossed, 1);
}

TEST(BuildTree, KnowsThePortByWhichEachEndsPacketsCome) {
  // Two ways between d and a, which is left out: each direction takes its own, by the names.
  int same = 0;
  int others = 0;
  for (int i = 0; i < 8; ++i) {
    const std::string a = fmt::format("a{}", i);
    testing::TopologyBuilder builder;
    builder.Switch(a).Switch("b").Switch("c").Switch("d").Switch("e").Host("h0").Host("h1").Host("h2");
    builder.Link(a, "b").Link(a, "c").Link("b", "d").Link("c", "d").Link("d", "e");
    builder.Link(a, "h0").Link("e", "h1").Link("d", "h2");
    const Policies policies(builder.Build());
    const auto tree = std::get<Tree>(policies.Build(Hosts(3)));
    ASSERT_EQ(Text(policies.topology, tree), "d(0 1 2)");
    const TreeChild& child = tree.inner[0].children[0];
    const NodeId d = *policies.topology.FindNode("d");
    const NodeId h0 = *policies.topology.FindNode("h0");
    const auto port_towards = [&](NodeId peer) {
      for (const Hop& hop : policies.topology.nodes[d].hops) {
        if (hop.peer == peer) return hop.port;
      }
      return std::string();
    };
    const std::vector<NodeId> up = Walk(policies.topology, policies.tables, h0, d);
    const std::vector<NodeId> down = Walk(policies.topology, policies.tables, d, h0);
    EXPECT_EQ(child.port, port_towards(down[1]));
    EXPECT_EQ(child.ingress_port, port_towards(up[up.size() - 2]));
    ++(child.port == child.ingress_port ? same : others);
    EXPECT_EQ(tree.inner[0].children[2].ingress_port, tree.inner[0].children[2].port) << "a neighbour";
  }
  EXPECT_GT(same, 0);
  EXPECT_GT(others, 0) << "both directions always take the same way: nothing is tested";
}

TEST(BuildTree, RefusalNamesTheHostAndSwitch) {
  Policies tree(testing::Tree32().Build());
  tree.Offer("leaf2").unusable = "its agent is lost";
  EXPECT_EQ(tree.TreeOf(Hosts(4)),
            "failure: no tree: h2 (rank 2) hangs on leaf2, which cannot take part: its agent is lost");
  EXPECT_EQ(tree.TreeOf({"h0", "h1"}), "leaf1(0 1)");
  tree.Offer("leaf2").unusable = "";
  tree.Offer("root").unusable = "its engine is down";
  const auto refused = std::get<Failure>(tree.Build(Hosts(4)));
  EXPECT_EQ(refused.code, ErrorCode::kNoTree);
  EXPECT_EQ(refused.switch_name, "root");
  EXPECT_EQ(refused.message,
            "no tree: no path over usable switches joins h0 and h2; not usable: root (its engine is down)");
}

TEST(BuildTree, TooManyChildrenAreNamed) {
  Policies star(testing::Star(5).Build());
  star.Offer("s1").max_children = 4;
  EXPECT_EQ(star.TreeOf(Hosts(4)), "s1(0 1 2 3)");
  const auto refused = std::get<Failure>(star.Build(Hosts(5)));
  EXPECT_EQ(refused.code, ErrorCode::kNoResource);
  EXPECT_EQ(refused.switch_name, "s1");
  EXPECT_EQ(refused.message, "s1 would have 5 children in this group; it takes at most 4");
}

TEST(Forwarding, EveryPairIsReachedOnAShortestPath) {
  for (const Topology& topology :
       {testing::Star(4).Build(), testing::Tree32().Build(), testing::FatTree4().Build()}) {
    const std::vector<Forwarding> tables = ComputeForwarding(topology);
    for (NodeId to = 0; to < topology.nodes.size(); ++to) {
      const std::vector<uint32_t> distance = Distances(topology, to);
      for (NodeId from = 0; from < topology.nodes.size(); ++from) {
        const std::vector<NodeId> path = Walk(topology, tables, from, to);
        ASSERT_EQ(path.size(), distance[from] + 1)
            << topology.nodes[from].name << " " << topology.nodes[to].name;
        ASSERT_EQ(path.back(), to);
      }
    }
  }
}

TEST(Forwarding, EqualPathsAreShared) {
  const Topology fat = testing::FatTree4().Build();
  const std::vector<Forwarding> tables = ComputeForwarding(fat);
  std::set<NodeId> cores;
  for (int i = 0; i < 8; ++i) {
    for (int j = 8; j < 16; ++j) {
      cores.insert(
          Walk(fat, tables, *fat.FindNode(fmt::format("h{}", i)), *fat.FindNode(fmt::format("h{}", j)))[3]);
    }
  }
  EXPECT_EQ(cores.size(), 4u);
}

TEST(Forwarding, OfParallelLinksEachArrivesAtItsOwnEnd) {
  std::set<std::string> taken;
  for (int i = 0; i < 8; ++i) {
    const std::string a = fmt::format("a{}", i);
    testing::TopologyBuilder builder;
    builder.Switch(a).Switch("b").Host("h0").Host("h1");
    builder.Link("b", "h0").Link(a, "b").Link(a, "b").Link(a, "h1");  // a:swp1 b:swp2, a:swp2 b:swp3
    const Topology topology = builder.Build();
    const std::vector<Forwarding> tables = ComputeForwarding(topology);
    const NodeId b = *topology.FindNode("b");
    const std::string leaves = topology.nodes[0].hops[tables[0].hop_to[b]].port;
    taken.insert(leaves);
    EXPECT_EQ(ArrivalPort(topology, tables, *topology.FindNode("h1"), b), leaves == "swp1" ? "swp2" : "swp3");
    EXPECT_EQ(ArrivalPort(topology, tables, *topology.FindNode("h0"), b), "swp1");
  }
  EXPECT_EQ(taken.size(), 2u);
}

TEST(Forwarding, FloodedFramesReachAllOnceAndEnd) {
  for (const Topology& topology :
       {testing::Star(4).Build(), testing::Tree32().Build(), testing::FatTree4().Build()}) {
    const std::vector<Forwarding> tables = ComputeForwarding(topology);
    for (NodeId source = topology.switch_count; source < topology.nodes.size(); ++source) {
      // Where a frame is, and where it came from.
      std::vector<std::pair<NodeId, NodeId>> frames{{topology.nodes[source].hops[0].peer, source}};
      std::vector<int> received(topology.nodes.size(), 0);
      for (size_t i = 0; i < frames.size(); ++i) {
        ASSERT_LT(i, 1000u) << "a loop";
        const auto [at, came_from] = frames[i];
        ++received[at];
        if (!topology.IsSwitch(at)) continue;
        const std::vector<std::string>& flood = tables[at].flood_ports;
        for (const Hop& hop : topology.nodes[at].hops) {
          const bool floods = std::find(flood.begin(), flood.end(), hop.port) != flood.end();
          if (floods && hop.peer != came_from) frames.emplace_back(hop.peer, at);
        }
      }
      for (NodeId node = 0; node < topology.nodes.size(); ++node) {
        EXPECT_EQ(received[node], node == source ? 0 : 1) << topology.nodes[node].name;
      }
    }
  }
}

Window Choose(const WindowRequest& request) { return std::get<Window>(ChooseWindow(request)); }

TEST(ChooseWindow, BeginsWithTwiceTheBandwidthDelayProductWithinBounds) {
  WindowRequest request;
  request.path_mtu = 4096;
  request.rate_gbps = 10;
  request.round_trip_us = 80;  // 100 kB: 48.8 packets
  EXPECT_EQ(Choose(request).message_packets, 8u);
  EXPECT_EQ(Choose(request).start_messages, 7u);
  EXPECT_EQ(Choose(request).slots, 128u);
  EXPECT_EQ(Choose(request).reason,
            "2*BDP of 10 Gbit/s and 80 us (80 on links, 50 in each of 0 switches passed) is 49 packets of "
            "4096 bytes; at most 64");
  request.crossings = 1;
  EXPECT_EQ(Choose(request).start_messages, 8u) << "64 of 80 packets";
  request.crossings = 0;
  request.path_mtu = 1024;
  EXPECT_EQ(Choose(request).start_messages, 8u) << "the bound";
  request.round_trip_us = 1;
  EXPECT_EQ(Choose(request).start_messages, 2u) << "at least 16 packets";
  EXPECT_EQ(Choose(request).slots, 32u);
  request.nic_packets = 4;
  EXPECT_EQ(Choose(request).message_packets * Choose(request).start_messages, 4u);
}

TEST(ChooseWindow, WIsWhatTheSlotsTake) {
  WindowRequest request;
  request.path_mtu = 4096;
  request.rate_gbps = 10;
  request.round_trip_us = 80;
  EXPECT_EQ(Choose(request).window_messages, 8u) << "56 packets to begin with need 128 slots";
  request.nic_packets = 60;
  EXPECT_EQ(Choose(request).window_messages, 7u) << "what the weakest NIC can have unacknowledged";
  request.nic_packets = 128;
  request.window_packets = 256;
  EXPECT_EQ(Choose(request).window_messages, 8u) << "of 128 slots no more than half";
  request.round_trip_us = 110;  // 67.2 packets
  EXPECT_EQ(Choose(request).start_messages, 9u);
  EXPECT_EQ(Choose(request).slots, 256u);
  EXPECT_EQ(Choose(request).window_messages, 16u);
  request.nic_packets = 100;
  EXPECT_EQ(Choose(request).window_messages, 12u);
  request.window_packets = 80;
  EXPECT_EQ(Choose(request).window_messages, 10u) << "what may be in flight";
  request.message_packets = 3;
  request.round_trip_us = 1;
  EXPECT_EQ(Choose(request).start_messages, 6u);
  EXPECT_EQ(Choose(request).slots, 64u);
  EXPECT_EQ(Choose(request).window_messages, 10u) << "60 of 64";
}

// Whatever is asked for: 1 <= start <= W, 2MW <= N, and no more slots than the window to begin with needs.
TEST(ChooseWindow, EveryWindowFitsItsSlots) {
  for (uint32_t m = 0; m <= 70; ++m) {
    for (uint32_t w = 0; w <= 70; ++w) {
      for (const uint32_t nic : {0u, 1u, 7u, 64u, 128u}) {
        for (const double round_trip_us : {0.0, 33.0, 1000.0}) {
          const WindowRequest request{.path_mtu = 1024,
                                      .rate_gbps = 10,
                                      .round_trip_us = round_trip_us,
                                      .nic_packets = nic,
                                      .message_packets = m,
                                      .window_messages = w};
          const auto chosen = ChooseWindow(request);
          if (!std::holds_alternative<Window>(chosen)) continue;
          const Window& window = std::get<Window>(chosen);
          SCOPED_TRACE(::testing::Message() << m << ' ' << w << ' ' << nic << ' ' << round_trip_us);
          const uint32_t start = w == 0 ? window.start_messages : window.window_messages;
          ASSERT_EQ(window.start_messages == 0, w != 0) << "a wish is kept to";
          ASSERT_GE(start, 1u);
          ASSERT_LE(start, window.window_messages);
          ASSERT_LE(2 * window.message_packets * window.window_messages, window.slots);
          ASSERT_LE(window.message_packets * window.window_messages, nic == 0 ? 64 : std::min(nic, 64u));
          ASSERT_LT(window.slots, 4 * window.message_packets * start);
        }
      }
    }
  }
}

TEST(ChooseWindow, WishesAreKeptOrRefused) {
  WindowRequest request;
  request.path_mtu = 4096;
  request.rate_gbps = 10;
  request.round_trip_us = 80;
  request.message_packets = 16;
  request.window_messages = 4;
  EXPECT_EQ(Choose(request).message_packets, 16u);
  EXPECT_EQ(Choose(request).window_messages, 4u);
  EXPECT_EQ(Choose(request).slots, 128u);
  EXPECT_EQ(Choose(request).start_messages, 0u) << "ranks try no others";
  request.window_messages = 0;
  EXPECT_EQ(Choose(request).start_messages, 4u);
  EXPECT_EQ(Choose(request).window_messages, 4u);
  request.message_packets = 0;
  request.window_messages = 32;
  EXPECT_EQ(Choose(request).message_packets, 2u);
  request.window_messages = 65;
  EXPECT_EQ(std::get<Failure>(ChooseWindow(request)).message,
            "M*W: 65 packets are more than the 64 that may be in flight");
}

// Of a group whose longest call is known no more is in flight than that has, with its header.
TEST(ChooseWindow, HoldsNoMoreThanTheLongestCall) {
  WindowRequest request{.path_mtu = 4096, .rate_gbps = 10, .round_trip_us = 80, .inline_bytes = 8128};
  const auto sizes = [&request](uint64_t max_bytes) {
    request.max_bytes = max_bytes;
    const Window window = Choose(request);
    return std::array{window.message_packets, window.window_messages, window.start_messages, window.slots};
  };
  using Sizes = std::array<uint32_t, 4>;
  EXPECT_EQ(sizes(1), (Sizes{1, 1, 1, 2})) << "one packet, with the header in it";
  EXPECT_EQ(sizes(4096 - 64), (Sizes{1, 1, 1, 2}));
  EXPECT_EQ(sizes(4096 - 63), (Sizes{2, 1, 1, 4}));
  EXPECT_EQ(sizes(8129), (Sizes{3, 1, 1, 8})) << "the header before the data";
  EXPECT_EQ(sizes(uint64_t{1} << 60), sizes(0)) << "more than may be in flight";
  EXPECT_EQ(sizes(32 << 10), (Sizes{5, 2, 2, 32})) << "messages of one length, and a place for each packet";
  request.path_mtu = 256;
  EXPECT_EQ(sizes(4000), (Sizes{6, 3, 3, 64})) << "more than a message is not inlined";
  request.path_mtu = 4096;
  request.max_bytes = 1000;
  EXPECT_THAT(Choose(request).reason, ::testing::HasSubstr("; a call of 1000 bytes has 1"));
  // Wishes go first.
  request.message_packets = 2;
  request.window_messages = 3;
  EXPECT_EQ(Choose(request).slots, 16u);
  request.window_messages = 0;
  EXPECT_EQ(sizes(1000), (Sizes{2, 1, 1, 4}));
  request.message_packets = 0;
  request.window_messages = 4;
  EXPECT_EQ(sizes(1000), (Sizes{1, 4, 0, 8}));
}

// Whatever is wished and declared: what is in flight has slots, and stays below what may be.
TEST(ChooseWindow, EveryWindowOfADeclaredCallFitsItsSlots) {
  for (uint32_t m = 0; m <= 20; ++m) {
    for (uint32_t w = 0; w <= 20; ++w) {
      for (const uint32_t nic : {0u, 1u, 7u, 30u, 128u}) {
        for (uint64_t bytes = 1; bytes < 200'000; bytes += 1 + bytes / 3) {
          const WindowRequest request{.path_mtu = 1024,
                                      .rate_gbps = 100,
                                      .round_trip_us = 100,
                                      .nic_packets = nic,
                                      .message_packets = m,
                                      .window_messages = w,
                                      .max_bytes = bytes,
                                      .inline_bytes = 8128};
          const auto chosen = ChooseWindow(request);
          if (!std::holds_alternative<Window>(chosen)) continue;
          const Window& window = std::get<Window>(chosen);
          SCOPED_TRACE(::testing::Message() << m << ' ' << w << ' ' << nic << ' ' << bytes);
          const uint32_t packets = window.message_packets * window.window_messages;
          ASSERT_GE(packets, 1u);
          ASSERT_LE(2 * packets, window.slots);
          ASSERT_LE(packets, nic == 0 ? 64 : std::min(nic, 64u));
          if (m != 0 || w != 0) continue;
          ASSERT_LT(packets, (bytes + 64) / 1024 + 10) << "no more than it fills";
        }
      }
    }
  }
}

}  // namespace
}  // namespace epic::manager
