#include "incmanager/policies/forwarding.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "incmanager/policies/flooding.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

void SetState(Topology* topology, LinkEnd end, LinkState state) {
  const LinkEnd there = topology->Across(end);
  topology->nodes[end.node].hops[end.hop].state = state;
  topology->nodes[there.node].hops[there.hop].state = state;
}

// The first link between two nodes, as the first one sees it.
LinkEnd Between(const Topology& topology, const std::string& a, const std::string& b) {
  const NodeId node = *topology.FindNode(a);
  for (uint32_t i = 0; i < topology.nodes[node].hops.size(); ++i) {
    if (topology.nodes[topology.nodes[node].hops[i].peer].name == b) return {node, i};
  }
  return {};
}

std::string WayOf(const Topology& topology, const std::vector<Forwarding>& tables, const std::string& from,
                  const std::string& to) {
  std::string text;
  for (const NodeId node : Walk(topology, tables, *topology.FindNode(from), *topology.FindNode(to)))
    text += (text.empty() ? "" : " ") + topology.nodes[node].name;
  return text;
}

TEST(Forwarding, GoesRoundALinkThatIsDown) {
  Topology topology = testing::TwoSpines().Build();
  for (const char* spine : {"spine1", "spine2"}) {
    const std::string other = spine == std::string("spine1") ? "spine2" : "spine1";
    SetState(&topology, Between(topology, "leaf1", spine), LinkState::kDown);
    const std::vector<Forwarding> tables = ComputeForwarding(topology);
    EXPECT_EQ(WayOf(topology, tables, "h0", "h2"), fmt::format("h0 leaf1 {} leaf2 h2", other));
    EXPECT_EQ(WayOf(topology, tables, "h2", "h0"), fmt::format("h2 leaf2 {} leaf1 h0", other));
    SetState(&topology, Between(topology, "leaf1", spine), LinkState::kUp);
    topology.nodes[*topology.FindNode(spine)].passes = false;
    EXPECT_EQ(WayOf(topology, ComputeForwarding(topology), "h0", "h2"),
              fmt::format("h0 leaf1 {} leaf2 h2", other));
    topology.nodes[*topology.FindNode(spine)].passes = true;
  }
}

TEST(Forwarding, TakesALinkThatIsDownWhereThereIsNoOtherAndNeverOneThatIsGone) {
  Topology topology = testing::Tree32().Build();
  const std::vector<Forwarding> before = ComputeForwarding(topology);
  SetState(&topology, Between(topology, "root", "leaf2"), LinkState::kDown);
  EXPECT_EQ(ComputeForwarding(topology), before) << "so it is there at once when the carrier is back";
  SetState(&topology, Between(topology, "root", "leaf2"), LinkState::kGone);
  EXPECT_EQ(WayOf(topology, ComputeForwarding(topology), "h0", "h2"), "");
  EXPECT_EQ(WayOf(topology, ComputeForwarding(topology), "h0", "h1"), "h0 leaf1 h1");
}

// Of two ways over links that are down that with fewer.
TEST(Forwarding, TakesAsFewLinksThatAreDownAsItCan) {
  testing::TopologyBuilder builder;
  builder.Switch("a").Switch("b").Switch("c").Switch("d").Switch("e").Host("h0").Host("h1");
  builder.Link("a", "b").Link("b", "c");                 // both down
  builder.Link("a", "d").Link("d", "e").Link("e", "c");  // the first one down
  builder.Link("a", "h0").Link("c", "h1");
  Topology topology = builder.Build();
  for (const auto& [x, y] : {std::pair{"a", "b"}, {"b", "c"}, {"a", "d"}})
    SetState(&topology, Between(topology, x, y), LinkState::kDown);
  EXPECT_EQ(WayOf(topology, ComputeForwarding(topology), "h0", "h1"), "h0 a d e c h1");
}

TEST(Forwarding, OnlyWhatALinkTookMoves) {
  Topology topology = testing::FatTree4().Build();
  const std::vector<Forwarding> before = ComputeForwarding(topology);
  const LinkEnd end = Between(topology, "edge1", "agg1");
  SetState(&topology, end, LinkState::kDown);
  const std::vector<Forwarding> after = ComputeForwarding(topology, {.tables = &before, .ways = {}});
  size_t moved = 0;
  for (NodeId target = 0; target < topology.nodes.size(); ++target) {
    const bool moves = before[end.node].hop_to[target] != after[end.node].hop_to[target];
    EXPECT_TRUE(!moves || before[end.node].hop_to[target] == end.hop);
    moved += moves ? 1 : 0;
  }
  EXPECT_GT(moved, 0u);
  SetState(&topology, end, LinkState::kUp);
  std::vector<Forwarding> again = ComputeForwarding(topology, {.tables = &after, .ways = {}});
  for (const NodeId node : topology.switches) EXPECT_EQ(again[node].hop_to, before[node].hop_to);
}

// As whoever is placed now is told, from one host to another.
std::vector<Way> ToldWay(const Topology& topology, const std::vector<Forwarding>& tables,
                         const std::string& from, const std::string& to) {
  std::vector<Way> ways;
  const NodeId target = *topology.FindNode(to);
  for (const NodeId at : Walk(topology, tables, *topology.FindNode(from), target)) {
    if (topology.IsSwitch(at)) ways.push_back({target, at, tables[at].HopTo(target)});
  }
  return ways;
}

TEST(Forwarding, WaysStayForThoseWhoRelyOnThem) {
  Topology topology = testing::TwoSpines().Build();
  const std::vector<Forwarding> free = ComputeForwarding(topology);
  const std::vector<Way> first = ToldWay(topology, free, "h2", "h0");
  const std::string taken = topology.nodes[Walk(topology, free, 6, 4)[2]].name;
  ASSERT_EQ(topology.nodes[6].name + topology.nodes[4].name, "h2h0");
  SetState(&topology, Between(topology, "leaf1", taken), LinkState::kDown);
  bool detours = true;
  // Where it is broken another way is taken, which whoever comes then relies on.
  const std::vector<Forwarding> cut =
      ComputeForwarding(topology, {.tables = &free, .ways = {&first}}, &detours);
  EXPECT_NE(WayOf(topology, cut, "h2", "h0"), WayOf(topology, free, "h2", "h0"));
  EXPECT_FALSE(detours);
  const std::vector<Way> second = ToldWay(topology, cut, "h2", "h0");
  SetState(&topology, Between(topology, "leaf1", taken), LinkState::kUp);
  const std::vector<Forwarding> mended = ComputeForwarding(topology, {.tables = &cut, .ways = {&first}});
  EXPECT_EQ(WayOf(topology, mended, "h2", "h0"), WayOf(topology, free, "h2", "h0"));
  const std::vector<Forwarding> kept =
      ComputeForwarding(topology, {.tables = &cut, .ways = {&second}}, &detours);
  EXPECT_EQ(WayOf(topology, kept, "h2", "h0"), WayOf(topology, cut, "h2", "h0"));
  EXPECT_TRUE(detours);
  // Of two that contradict each other the older one stays, also when it was not to be had meanwhile.
  EXPECT_EQ(ComputeForwarding(topology, {.tables = &cut, .ways = {&first, &second}}), mended);
  EXPECT_EQ(ComputeForwarding(topology, {.tables = &cut, .ways = {&second, &first}}), kept);
  // Nor is it longer for ever, or over what is broken.
  const std::vector<Forwarding> freed = ComputeForwarding(topology, {.tables = &kept, .ways = {}}, &detours);
  EXPECT_EQ(WayOf(topology, freed, "h2", "h0"), WayOf(topology, free, "h2", "h0"));
  EXPECT_FALSE(detours);
  const std::string other = taken == "spine1" ? "spine2" : "spine1";
  SetState(&topology, Between(topology, "leaf1", other), LinkState::kDown);
  const std::vector<Forwarding> moved = ComputeForwarding(topology, {.tables = &kept, .ways = {&second}});
  EXPECT_EQ(WayOf(topology, moved, "h2", "h0"), fmt::format("h2 leaf2 {} leaf1 h0", taken));
}

TEST(Forwarding, TheFloodingTreeKeepsWhatItCan) {
  Topology topology = testing::FatTree4().Build();
  const std::vector<Forwarding> before = ComputeForwarding(topology);
  const std::vector<LinkEnd> links = FloodedLinks(topology, before);
  ASSERT_EQ(links.size(), 19u);
  SetState(&topology, links[5], LinkState::kDown);
  const std::vector<Forwarding> after = ComputeForwarding(topology, {.tables = &before, .ways = {}});
  const std::vector<LinkEnd> now = FloodedLinks(topology, after);
  EXPECT_EQ(now.size(), 19u);
  size_t kept = 0;
  for (const LinkEnd& link : now) kept += static_cast<size_t>(std::ranges::count(links, link));
  EXPECT_EQ(kept, 18u);
}

}  // namespace
}  // namespace epic::manager
