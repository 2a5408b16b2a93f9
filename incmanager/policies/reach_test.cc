// Who reaches whom by ordinary forwarding, and over what.
#include "incmanager/policies/reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

struct Net {
  explicit Net(const testing::TopologyBuilder& builder)
      : topology(builder.Build()), tables(ComputeForwarding(topology)), stopped(topology.switches.size()) {}
  NodeId Id(const std::string& name) const { return *topology.FindNode(name); }
  std::variant<Footprint, Obstacle> Among(const std::vector<std::string>& names) const {
    std::vector<NodeId> hosts;
    for (const std::string& name : names) hosts.push_back(Id(name));
    return ReachAmong(topology, tables, stopped, hosts);
  }

  Topology topology;
  std::vector<Forwarding> tables;
  std::vector<std::string> stopped;
};

// Each switch and link of each walk, both ways, and nothing else.
TEST(ReachAmong, CrossesWhatTheWalksDo) {
  const Net fat(testing::FatTree4());
  const std::vector<std::string> names = {"h3", "h0", "h14", "h7", "h2", "h14"};
  const auto reach = fat.Among(names);
  ASSERT_TRUE(std::holds_alternative<Footprint>(reach));
  Footprint expected;
  for (const std::string& from : names) {
    for (const std::string& to : names) {
      if (from == to) continue;
      const std::vector<NodeId> walk = Walk(fat.topology, fat.tables, fat.Id(from), fat.Id(to));
      ASSERT_GE(walk.size(), 3u);
      expected.switches.insert(walk.begin() + 1, walk.end() - 1);
      Cross(fat.topology, fat.tables, {fat.Id(from), 0}, fat.Id(to), &expected);
    }
  }
  EXPECT_EQ(std::get<Footprint>(reach).switches, expected.switches);
  EXPECT_EQ(std::get<Footprint>(reach).links, expected.links);
}

TEST(ReachAmong, RanksOnOneHostNeedNoWay) {
  Net star(testing::Star(2));
  star.stopped[0] = "it is lost";
  const auto alone = star.Among({"h1", "h1", "h1"});
  ASSERT_TRUE(std::holds_alternative<Footprint>(alone));
  EXPECT_TRUE(std::get<Footprint>(alone).links.empty());
  const auto both = star.Among({"h1", "h1", "h0"});
  ASSERT_TRUE(std::holds_alternative<Obstacle>(both));
  EXPECT_EQ(std::get<Obstacle>(both).from, star.Id("h1"));
  EXPECT_EQ(std::get<Obstacle>(both).to, star.Id("h0"));
  EXPECT_EQ(std::get<Obstacle>(both).culprit, star.Id("s1"));
  EXPECT_EQ(std::get<Obstacle>(both).why, "s1 is between them, and it is lost");
}

// The table of a switch that does not forward still names it: there is no other way.
TEST(ReachAmong, OnlySwitchesOnTheWayAreInTheWay) {
  Net fat(testing::FatTree4());
  const auto reach = fat.Among({"h0", "h4"});
  ASSERT_TRUE(std::holds_alternative<Footprint>(reach));
  const std::set<NodeId> crossed = std::get<Footprint>(reach).switches;
  for (const NodeId node : fat.topology.switches) {
    fat.stopped.assign(fat.topology.switches.size(), "");
    fat.stopped[node] = "its engine is down";
    EXPECT_EQ(std::holds_alternative<Obstacle>(fat.Among({"h0", "h4"})), crossed.contains(node))
        << fat.topology.nodes[node].name;
  }
}

// A router or a filter may be at any link, also between a switch and its host.
TEST(ReachAmong, WhatIsInALinkStopsHostsBothWays) {
  for (const char* what : {", port_security: true", ", a_next_hop_mac: \"02:f0:00:00:00:0a\""}) {
    testing::TopologyBuilder builder;
    builder.Switch("s1").Host("h0").Host("h1").Host("h2");
    const Net star(builder.Link("s1", "h0").Link("s1", "h1", what).Link("s1", "h2"));
    EXPECT_TRUE(std::holds_alternative<Footprint>(star.Among({"h0", "h2"})));
    const auto to = star.Among({"h2", "h0", "h1"});
    ASSERT_TRUE(std::holds_alternative<Obstacle>(to));
    EXPECT_EQ(std::get<Obstacle>(to).from, star.Id("h2"));
    EXPECT_EQ(std::get<Obstacle>(to).to, star.Id("h1"));
    EXPECT_THAT(std::get<Obstacle>(to).why, ::testing::HasSubstr("between s1 and h1"));
    const auto from = star.Among({"h1", "h0"});
    ASSERT_TRUE(std::holds_alternative<Obstacle>(from));
    EXPECT_THAT(std::get<Obstacle>(from).why, ::testing::HasSubstr("between h1 and s1"));
  }
}

}  // namespace
}  // namespace epic::manager
