#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "incmanager/policies/forwarding.h"
#include "incmanager/policies/tree.h"
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
      : topology(t), tables(ComputeForwarding(topology)), offers(t.switches.size()) {}

  Result<Tree> Build(const std::vector<std::string>& hosts) const {
    std::vector<NodeId> ids;
    for (const std::string& host : hosts) ids.push_back(*topology.FindNode(host));
    return BuildTree(topology, tables, offers, ids);
  }
  std::string TreeOf(const std::vector<std::string>& hosts) const {
    const auto result = Build(hosts);
    if (!result.ok()) return "failure: " + result.failure().message;
    return Text(topology, *result);
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
  const auto built = *tree.Build(Hosts(4));
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
  const auto& tree = *all;
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
    const auto tree = *policies.Build(Hosts(3));
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
            "failure: h2 (rank 2) hangs on leaf2, which cannot take part: its agent is lost");
  EXPECT_EQ(tree.TreeOf({"h0", "h1"}), "leaf1(0 1)");
  tree.Offer("leaf2").unusable = "";
  tree.Offer("root").unusable = "its engine is down";
  const auto refused = tree.Build(Hosts(4)).failure();
  EXPECT_EQ(refused.code, ErrorCode::kNoTree);
  EXPECT_EQ(refused.switch_name, "root");
  EXPECT_EQ(refused.message,
            "no path over usable switches joins h0 and h2; not usable: root (its engine is down)");
}

TEST(BuildTree, TooManyChildrenAreNamed) {
  Policies star(testing::Star(5).Build());
  star.Offer("s1").max_children = 4;
  EXPECT_EQ(star.TreeOf(Hosts(4)), "s1(0 1 2 3)");
  const auto refused = star.Build(Hosts(5)).failure();
  EXPECT_EQ(refused.code, ErrorCode::kNoResource);
  EXPECT_EQ(refused.switch_name, "s1");
  EXPECT_EQ(refused.message, "s1 would have 5 children in this group; it takes at most 4");
}

TEST(Forwarding, EveryPairIsReachedOnAShortestPath) {
  for (const Topology& topology :
       {testing::Star(4).Build(), testing::Tree32().Build(), testing::FatTree4().Build()}) {
    const std::vector<Forwarding> tables = ComputeForwarding(topology);
    for (NodeId to = 0; to < topology.nodes.size(); ++to) {
      const std::vector<uint32_t> distance = testing::Distances(topology, to);
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
    for (NodeId source = static_cast<NodeId>(topology.switches.size()); source < topology.nodes.size();
         ++source) {
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

}  // namespace
}  // namespace epic::manager
