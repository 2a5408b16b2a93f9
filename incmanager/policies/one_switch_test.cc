#include "incmanager/policies/one_switch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "incmanager/policies/explain.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

class OneSwitchNet {
 public:
  explicit OneSwitchNet(const testing::TopologyBuilder& builder)
      : topology(builder.Build()), tables(ComputeForwarding(topology)), offers(topology.nodes.size()) {}

  Result<Tree> Build(const std::vector<std::string>& hosts, std::vector<RootCandidate>* all = nullptr) const {
    std::vector<NodeId> ids;
    for (const std::string& host : hosts) ids.push_back(*topology.FindNode(host));
    return BuildOneSwitchTree(topology, tables, offers, ids, all);
  }
  // "root: 0 swp1, 1 swp2", or what is wrong.
  std::string Text(const std::vector<std::string>& hosts) const {
    const auto tree = Build(hosts);
    if (!tree.ok()) return tree.failure().message;
    std::string out = topology.nodes[tree->inner.at(0).node].name + ":";
    EXPECT_EQ(tree->inner.size(), 1u);
    for (const TreeChild& child : tree->inner[0].children) {
      EXPECT_TRUE(child.is_host);
      out += fmt::format("{} {} {}", child.rank == 0 ? "" : ",", child.rank, child.port);
      if (child.ingress_port != child.port) out += fmt::format(" in {}", child.ingress_port);
    }
    return out;
  }
  SwitchOffer& Offer(const std::string& name) { return offers[*topology.FindSwitch(name)]; }

  Topology topology;
  std::vector<Forwarding> tables;
  std::vector<SwitchOffer> offers;
};

TEST(OneSwitch, IsTheLowestThatAllHostsReach) {
  const OneSwitchNet net(testing::Tree32());
  EXPECT_EQ(net.Text({"h0", "h1"}), "leaf1: 0 swp1, 1 swp2");
  EXPECT_EQ(net.Text({"h3", "h2"}), "leaf2: 0 swp2, 1 swp1");
  EXPECT_EQ(net.Text({"h0", "h1", "h2"}), "root: 0 swp1, 1 swp1, 2 swp2") << "both leaves forward";
  EXPECT_EQ(net.Text({"h0", "h0", "h1"}), "leaf1: 0 swp1, 1 swp1, 2 swp2") << "two ranks on a host";
  const auto tree = net.Build({"h0", "h1", "h2", "h3"});
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(tree->depth_links, 2u);
  EXPECT_EQ(tree->delay_us, 40);
  EXPECT_EQ(tree->rate_gbps, 10);
  EXPECT_EQ(tree->inner[0].hop_us, 40);
}

// Higher up, where all have it: the hosts reach that, too.
TEST(OneSwitch, WhoLacksSomethingForwards) {
  OneSwitchNet net(testing::Tree32());
  net.Offer("leaf1").lacks = "leaf1 has no pool (incengine --pool)";
  EXPECT_EQ(net.Text({"h0", "h1"}), "root: 0 swp1, 1 swp1");
  net.Offer("root").lacks = "root has no pool (incengine --pool)";
  net.Offer("leaf2").lacks = "leaf2 has no pool (incengine --pool)";
  const auto none = net.Build({"h0", "h1"});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.failure().code, ErrorCode::kNoTree);
  EXPECT_EQ(none.failure().message, "leaf1 has no pool (incengine --pool)");
  EXPECT_EQ(none.failure().switch_name, "leaf1");
}

TEST(OneSwitch, WhatIsUnusablePassesNothing) {
  OneSwitchNet net(testing::Tree32());
  net.Offer("root").unusable = "its engine is down";
  EXPECT_EQ(net.Text({"h0", "h1"}), "leaf1: 0 swp1, 1 swp2");
  EXPECT_EQ(
      net.Text({"h0", "h1", "h2"}),
      "no switch is reached by all hosts by ordinary forwarding, as mode V needs: h0 and h2 have none in "
      "common; not usable: root (its engine is down)");
  EXPECT_EQ(net.Build({"h0", "h2"}).failure().code, ErrorCode::kNoTree);
}

// A router passes only what is for the switch behind it.
TEST(OneSwitch, ARouterEndsTheWay) {
  const OneSwitchNet net(testing::RoutedTree32());
  EXPECT_EQ(net.Text({"h2", "h3"}), "leaf2: 0 swp1, 1 swp2");
  EXPECT_THAT(net.Text({"h0", "h2"}), ::testing::HasSubstr("h0 and h2 have none in common"));
}

TEST(OneSwitch, HasNoMoreChildrenThanItTakes) {
  OneSwitchNet net(testing::Star(4));
  net.Offer("s1").max_children = 3;
  const auto refused = net.Build({"h0", "h1", "h2", "h3"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code, ErrorCode::kNoResource);
  EXPECT_EQ(refused.failure().message, "s1 would have 4 children in this group; it takes at most 3");
}

TEST(OneSwitch, ExplainsEachSwitch) {
  const OneSwitchNet net(testing::TwoSpines());
  std::vector<RootCandidate> all;
  ASSERT_TRUE(net.Build({"h0", "h2"}, &all).ok());
  const std::vector<RootChoice> choices = ExplainRoots(net.topology, net.offers, all);
  ASSERT_EQ(choices.size(), 4u);
  EXPECT_TRUE(choices[0].chosen);
  EXPECT_EQ(choices[1].why, "equal to spine1, which comes first");
  EXPECT_EQ(choices[2].why, "deeper: 3 links, spine1 has 2");
}

TEST(OneSwitch, EdgesHaveTheWaysBothWays) {
  const OneSwitchNet net(testing::TwoSpines());
  const NodeId spine = *net.topology.FindNode("spine1"), host = *net.topology.FindNode("h3");
  const auto edge = EdgeToHost(net.topology, net.tables, net.offers, spine, host);
  ASSERT_TRUE(edge.has_value());
  EXPECT_EQ(edge->port, "swp2");
  EXPECT_EQ(edge->ingress_port, ArrivalPort(net.topology, net.tables, host, spine));
  EXPECT_EQ(edge->links, 2u);
  EXPECT_EQ(edge->down_links, 0u);
}

}  // namespace
}  // namespace epic::manager
