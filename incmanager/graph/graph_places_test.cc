// Hosts of the file that are not where it has them (docs/PROTOCOL.md, "A cable in another port").
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "incmanager/graph/graph.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A star with h0, h1 and h2 at swp1 to swp3, and swp4 at which nothing is stated.
class Places : public ::testing::Test {
 protected:
  static Topology Star() {
    testing::TopologyBuilder builder;
    builder.Switch("s1");
    for (const char* host : {"h0", "h1", "h2"}) builder.Host(host);
    for (const char* host : {"h0", "h1", "h2"}) builder.Link("s1", host);
    return builder.Build();
  }
  Places() {
    const Node& node = graph.topology().nodes[0];
    engine = {.name = node.name, .address = node.address, .mac = node.mac};
    for (int i = 1; i <= 4; ++i)
      engine.ports.push_back({.name = "swp" + std::to_string(i), .mtu = 4200, .up = true});
  }
  NodeId Host(int number) const { return *graph.topology().FindNode("h" + std::to_string(number)); }
  // By LLDP or ARP, as a switch hears it; of one that has spoken since, no other place is told.
  void Hear(int port, int host) {
    const Node& node = graph.topology().nodes[Host(host)];
    engine.ports[static_cast<size_t>(port) - 1].neighbours.push_back(
        {.kind = NeighbourKind::kHost, .ip = node.address, .mac = node.mac, .heard_by = HeardBy::kArp});
  }
  void Forget(int port) { engine.ports[static_cast<size_t>(port) - 1].neighbours.clear(); }
  void Pass(Nanos time) {
    for (const Nanos end = now + time; now < end;) {
      now += Graph::kUpdateEvery;
      graph.OnReport(now, 0, engine);
      graph.Follow(now);
    }
  }
  const std::string& Misplaced(int host) const { return graph.topology().nodes[Host(host)].misplaced; }
  std::string Line(int host) const {
    return "test:" + std::to_string(graph.topology().Attached(Host(host)).line);
  }
  std::vector<std::string> Warnings() {
    std::vector<std::string> texts;
    for (const GraphEvent& event : graph.TakeEvents()) {
      if (event.warning) texts.push_back(event.text);
    }
    return texts;
  }

  Graph graph{Star()};
  EngineReport engine;
  Nanos now = kSecond;
};

TEST_F(Places, TwoHostsWhoseCablesAreSwappedAreTold) {
  Hear(1, 1);
  Hear(2, 0);
  Hear(3, 2);
  Pass(kSecond);
  EXPECT_THAT(Warnings(), IsEmpty()) << "they are asked first";
  EXPECT_THAT(graph.Sought(), ElementsAre(Host(0), Host(1)));
  const uint64_t before = graph.version();
  Pass(Graph::kDoubtFor);
  const std::string h0 =
      Line(0) + ": links h0 to s1:swp1, but it is heard at s1:swp2, where " + Line(1) + " has h1";
  const std::string h1 =
      Line(1) + ": links h1 to s1:swp2, but it is heard at s1:swp1, where " + Line(0) + " has h0";
  EXPECT_THAT(Warnings(), ElementsAre(h0, h1));
  EXPECT_EQ(Misplaced(0), h0);
  EXPECT_EQ(Misplaced(1), h1);
  EXPECT_EQ(Misplaced(2), "");
  EXPECT_GT(graph.version(), before) << "groups are looked at";
  EXPECT_THAT(graph.complaints(), ElementsAre(h0, h1));
  EXPECT_THAT(graph.Sought(), IsEmpty());
  Pass(10 * kSecond);
  EXPECT_THAT(Warnings(), IsEmpty()) << "once";

  for (const int port : {1, 2}) Forget(port);
  Hear(1, 0);
  Hear(2, 1);
  Pass(kSecond);
  EXPECT_EQ(Misplaced(0), "");
  EXPECT_EQ(Misplaced(1), "");
  EXPECT_THAT(graph.complaints(), IsEmpty());
}

TEST_F(Places, WhoAnswersWhereItIsToBeIsNotElsewhere) {
  Hear(2, 0);
  Pass(kSecond);
  EXPECT_THAT(graph.Sought(), Contains(Host(0)));
  Hear(1, 0);
  Pass(10 * kSecond);
  EXPECT_THAT(Warnings(), IsEmpty()) << "somebody else says that he is h0";
  EXPECT_EQ(Misplaced(0), "");
}

TEST_F(Places, WhosePlaceIsTakenIsToldWithWhoHasTakenIt) {
  Hear(1, 1);
  Pass(5 * kSecond);
  EXPECT_EQ(Misplaced(0), Line(0) + ": links h0 to s1:swp1, but h1 is heard there");
  EXPECT_THAT(Misplaced(1), StartsWith(Line(1) + ": links h1 to s1:swp2, but it is heard at s1:swp1"));
  Hear(1, 0);
  Pass(kSecond);
  EXPECT_EQ(Misplaced(0), "") << "both are there";
}

TEST_F(Places, AtAPortOfWhichTheFileSaysNothing) {
  Hear(4, 0);
  Pass(5 * kSecond);
  EXPECT_EQ(Misplaced(0), Line(0) + ": links h0 to s1:swp1, but it is heard at s1:swp4");
}

TEST_F(Places, HostsAreSoughtWhenTheirPortsComeUp) {
  Pass(kSecond);
  EXPECT_THAT(graph.Sought(), ElementsAre(Host(0), Host(1), Host(2)));
  Hear(1, 0);
  Pass(kSecond);
  graph.OnNotFound(Host(1));
  EXPECT_THAT(graph.Sought(), ElementsAre(Host(2)));
  graph.OnNotFound(Host(2));
  Pass(kSecond);
  EXPECT_THAT(graph.Sought(), IsEmpty());
  engine.ports[1].up = false;
  Pass(kSecond);
  EXPECT_THAT(graph.Sought(), IsEmpty());
  engine.ports[1].up = true;
  Pass(kSecond);
  EXPECT_THAT(graph.Sought(), ElementsAre(Host(1)));
  graph.Seek(Host(0));
  EXPECT_THAT(graph.Sought(), ElementsAre(Host(1))) << "h0 is heard there";
}

TEST_F(Places, WhatNoReportSaysIsNothingAgainstAHost) {
  Pass(60 * kSecond);
  EXPECT_THAT(Warnings(), IsEmpty());
  engine.ports[0].neighbours.push_back({.kind = NeighbourKind::kHost,
                                        .ip = Ipv4{0x0a0a0a0a},
                                        .mac = {2, 2, 2, 2, 2, 2},
                                        .heard_by = HeardBy::kArp});
  Pass(60 * kSecond);
  EXPECT_THAT(Warnings(), IsEmpty()) << "a guest of h0's";
  EXPECT_EQ(Misplaced(0), "");
}

}  // namespace
}  // namespace epic::manager
