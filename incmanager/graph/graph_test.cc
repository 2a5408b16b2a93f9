#include "incmanager/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "incmanager/graph/graph_testing.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using testing::AddressOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kPinned;
using testing::MacOf;
using testing::Reports;

TEST(Graph, ALinkIsThereWhenBothEndsNameEachOther) {
  Reports reports;
  reports.Register(1);
  reports.Register(2);
  EXPECT_THAT(reports.Events(), ElementsAre("switch s1 is new", "switch s2 is new"));
  reports.Hear(1, 1, 2, 3);
  reports.TellAll();
  EXPECT_THAT(reports.Links(), IsEmpty()) << "one end alone";
  reports.Hear(2, 3, 1, 1);
  const uint64_t before = reports.graph.version();
  reports.TellAll();
  EXPECT_THAT(reports.Links(), ElementsAre("s1:p1 s2:p3"));
  EXPECT_GT(reports.graph.version(), before);
  EXPECT_THAT(reports.Events(), ElementsAre("link between s1:p1 and s2:p3 is new"));
  const uint64_t then = reports.graph.version();
  reports.TellAll();
  EXPECT_EQ(reports.graph.version(), then) << "nothing new";
}

TEST(Graph, ALinkThatIsCutKeepsItsPlace) {
  Reports reports;
  for (const int number : {1, 2}) reports.Register(number);
  reports.Join(1, 1, 2, 1);
  reports.Join(1, 2, 2, 2);
  reports.TellAll();
  const auto end = *reports.graph.topology().EndAt(0, "p1");
  reports.Port(1, 1).up = false;
  reports.Port(1, 1).neighbours.clear();
  reports.Tell(1);
  EXPECT_THAT(reports.Links(), ElementsAre("s1:p2 s2:p2"));
  EXPECT_THAT(reports.Links(LinkState::kDown), ElementsAre("s1:p1 s2:p1"));
  EXPECT_THAT(reports.Events(), Contains("link between s1:p1 and s2:p1 is down"));
  reports.Port(1, 1).up = true;
  reports.Hear(1, 1, 2, 1);
  reports.Tell(1);
  EXPECT_THAT(reports.Links(), ElementsAre("s1:p1 s2:p1", "s1:p2 s2:p2"));
  EXPECT_EQ(*reports.graph.topology().EndAt(0, "p1"), end);
}

TEST(Graph, WhatAnotherLinkHasTakenIsGone) {
  Reports reports;
  for (const int number : {1, 2, 3}) reports.Register(number);
  reports.Join(1, 1, 2, 1);
  reports.TellAll();
  reports.Port(2, 1).neighbours.clear();
  reports.Join(1, 1, 3, 1);
  reports.TellAll();
  EXPECT_THAT(reports.Links(), ElementsAre("s1:p1 s3:p1"));
  EXPECT_THAT(reports.Links(LinkState::kGone), ElementsAre("s1:p1 s2:p1"));
  EXPECT_EQ(reports.graph.topology().EndAt(0, "p1")->hop, 1u) << "what is there now";
}

TEST(Graph, HostsAreFoundAndMove) {
  Reports reports;
  for (const int number : {1, 2}) reports.Register(number);
  reports.Join(1, 1, 2, 1);
  reports.SeeHost(1, 2, 7);
  reports.TellAll();
  EXPECT_THAT(reports.Links(), ElementsAre("s1:p1 s2:p1", "s1:p2 10.10.0.7"));
  const NodeId host = *reports.graph.topology().FindHostByAddress(AddressOf(7));
  reports.graph.NameHost(host, "alpha");
  EXPECT_EQ(reports.graph.topology().nodes[host].name, "alpha");
  reports.Events();
  reports.Port(1, 2).up = false;
  reports.Port(1, 2).neighbours.clear();
  reports.SeeHost(2, 4, 7);
  reports.TellAll();
  EXPECT_THAT(reports.Links(), ElementsAre("s1:p1 s2:p1", "s2:p4 alpha"));
  EXPECT_THAT(reports.Events(), Contains("host alpha has moved from s1:p2 to s2:p4"));
  EXPECT_EQ(reports.graph.topology().FindHostByAddress(AddressOf(7)), host);
  reports.Port(2, 4).neighbours.clear();
  reports.Port(1, 2).up = true;
  reports.SeeHost(1, 2, 7);
  reports.TellAll();
  EXPECT_EQ(reports.graph.topology().nodes[host].hops.size(), 2u) << "its place is used again";
  EXPECT_EQ(reports.graph.topology().Attached(host).peer, 0u);
}

TEST(Graph, WhereACarrierIsBackAndNobodyIsHeardThatIsSaid) {
  Reports reports;
  reports.Register(1);
  reports.SeeHost(1, 2, 7);
  reports.Tell(1);
  reports.Port(1, 2).up = false;
  const std::vector<Neighbour> heard = std::exchange(reports.Port(1, 2).neighbours, {});
  reports.Tell(1);
  EXPECT_THAT(reports.Events(), Contains("link between s1:p2 and 10.10.0.7 is down"));
  const LinkEnd end = *reports.graph.topology().EndAt(0, "p2");
  EXPECT_FALSE(reports.graph.topology().nodes[0].hops[end.hop].unheard);
  reports.Port(1, 2).up = true;
  reports.Tell(1);
  EXPECT_THAT(
      reports.Events(),
      ElementsAre("link between s1:p2 and 10.10.0.7 has a carrier, and nobody has been heard there yet"));
  EXPECT_TRUE(reports.graph.topology().nodes[0].hops[end.hop].unheard);
  reports.Port(1, 2).neighbours = heard;
  reports.Tell(1);
  EXPECT_THAT(reports.Events(), ElementsAre("link between s1:p2 and 10.10.0.7 is up"));
  EXPECT_FALSE(reports.graph.topology().nodes[0].hops[end.hop].unheard);
}

TEST(Graph, AHostThatFallsSilentBesideAnotherIsDown) {
  Reports reports;
  reports.Register(1);
  reports.SeeHost(1, 2, 7);
  reports.SeeHost(1, 2, 8);
  reports.Tell(1);
  EXPECT_THAT(reports.Links(), ElementsAre("s1:p2 10.10.0.7", "s1:p2 10.10.0.8"));
  reports.Port(1, 2).neighbours.erase(reports.Port(1, 2).neighbours.begin());
  reports.Tell(1);
  EXPECT_THAT(reports.Links(LinkState::kDown), ElementsAre("s1:p2 10.10.0.7")) << "it may speak again";
  EXPECT_THAT(reports.Links(LinkState::kGone), IsEmpty());
  reports.Register(2);
  reports.Port(1, 2).neighbours.clear();
  reports.Join(1, 2, 2, 1);
  reports.TellAll();
  EXPECT_THAT(reports.Links(LinkState::kGone), ElementsAre("s1:p2 10.10.0.7", "s1:p2 10.10.0.8"));
}

TEST(Graph, TwoWithOneAddressOrMacAreBothNamed) {
  Reports reports;
  for (const int number : {1, 2}) reports.Register(number);
  reports.SeeHost(1, 1, 7);
  reports.SeeHost(2, 2, 7);
  reports.TellAll();
  EXPECT_THAT(reports.Events(), Contains("the MAC 02:00:00:00:00:07 is both at s1:p1 and at s2:p2"));
  EXPECT_THAT(reports.Links(), ElementsAre("s1:p1 10.10.0.7")) << "the first stays";
  reports.Port(2, 2).neighbours[0].mac = MacOf(8);
  reports.Tell(2);
  EXPECT_THAT(reports.Events(),
              Contains("the address 10.10.0.7 is both that of 02:00:00:00:00:07 at s1:p1 and of "
                       "02:00:00:00:00:08 at s2:p2"));
  reports.Tell(2);
  EXPECT_THAT(reports.Events(), IsEmpty()) << "once";
  EngineReport other = reports.Engine(1);
  other.name = "s9";
  EXPECT_THAT(std::string(reports.graph.Admit(other, false).message()),
              HasSubstr("s1 and s9 both have 10.10.0.201"));
  other = reports.Engine(1);
  other.mac = MacOf(99);
  EXPECT_THAT(std::string(reports.graph.Admit(other, true).message()), HasSubstr("is there already"));
  EXPECT_TRUE(reports.graph.Admit(other, false).ok()) << "the other one is not heard any more";
}

TEST(Graph, WhoContradictsItsRegistrationIsNamedAndJoinsNothing) {
  Reports reports;
  for (const int number : {1, 2}) reports.Register(number);
  reports.Join(1, 1, 2, 1);
  reports.Port(1, 1).neighbours[0].mac = MacOf(66);
  reports.TellAll();
  EXPECT_THAT(reports.Links(), IsEmpty());
  EXPECT_THAT(
      reports.Events(),
      Contains("s1:p1 hears a switch s2 with the MAC 02:00:00:00:00:42; the one that is registered has "
               "02:00:00:00:00:ca"));
  reports.Join(1, 1, 2, 1);
  reports.Port(1, 1).neighbours.push_back(reports.Port(1, 1).neighbours[0]);
  reports.Port(1, 1).neighbours[1].port = "p2";
  reports.TellAll();
  EXPECT_THAT(reports.Links(), IsEmpty());
  EXPECT_THAT(reports.Events(), Contains("s1:p1 hears both s2:p1 and s2:p2: no link is taken from there"));
}

TEST(Graph, AHostThatClaimsToBeASwitchIsNamed) {
  Reports reports;
  reports.Register(1);
  reports.Hear(1, 1, 9, 1);
  reports.Tell(1);
  reports.Events();
  reports.now += Graph::kStrangerAfter;
  reports.Tell(1);
  EXPECT_THAT(reports.Events(), ElementsAre("s1:p1 hears a switch s9, which has not registered"));
  reports.SeeHost(1, 2, 7);
  reports.Port(1, 2).neighbours[0].ip = AddressOf(201);
  reports.Tell(1);
  EXPECT_THAT(reports.Events(), ElementsAre("a host at s1:p2 has the address 10.10.0.201 of the switch s1"));
  EXPECT_THAT(reports.Links(), IsEmpty());
}

TEST(Graph, AFileMayPinAndForbid) {
  Reports reports(*ParseTopology(kPinned, "net.yaml"));
  EXPECT_THAT(reports.Links(), ElementsAre("s1:p1 s2:p1"));
  for (const int number : {1, 2, 3}) reports.Register(number);
  reports.Join(1, 1, 3, 1);
  reports.Join(1, 4, 3, 2);
  reports.Join(2, 2, 3, 3);
  reports.TellAll();
  EXPECT_THAT(reports.Links(), ElementsAre("s1:p1 s2:p1", "s2:p2 s3:p3"));
  EXPECT_THAT(reports.Events(), Contains("net.yaml:8: links s1:p1 to s2:p1, but it hears s3:p1"));
  EngineReport forbidden = reports.Engine(3);
  forbidden.name = "s4";
  EXPECT_THAT(std::string(reports.graph.Admit(forbidden, false).message()),
              HasSubstr("net.yaml:10 forbids s4"));
  EngineReport second = reports.Engine(1);
  second.name = "s5";
  EXPECT_THAT(std::string(reports.graph.Admit(second, false).message()),
              HasSubstr("s1 (net.yaml:5) and s5 both have"));
}

TEST(Graph, WithoutDiscoveryReportsAreOfCarriers) {
  Reports reports(*ParseTopology(testing::Tree32().Yaml(), "tree.yaml"));
  const Topology& topology = reports.graph.topology();
  EngineReport root{.name = "root"};
  for (const char* port : {"swp1", "swp2"}) root.ports.push_back({.name = port, .up = true});
  reports.graph.OnReport(kSecond, 0, root);
  reports.graph.Follow(kSecond);
  EXPECT_THAT(reports.Links(LinkState::kDown), IsEmpty()) << "leaf1 has not said anything yet";
  root.ports[1].up = false;
  reports.graph.OnReport(2 * kSecond, 0, root);
  reports.graph.Follow(2 * kSecond);
  EXPECT_THAT(reports.Links(LinkState::kDown), ElementsAre("root:swp2 leaf2:swp3"));
  EXPECT_EQ(topology.nodes.size(), 7u);
}

TEST(Graph, WhereNoSwitchIsHeardHostsMayBe) {
  Reports reports;
  for (const int number : {1, 2}) reports.Register(number);
  reports.Join(1, 1, 2, 1);
  reports.Port(1, 3).up = false;
  reports.TellAll();
  EXPECT_THAT(reports.graph.EdgePorts(0), IsEmpty());
  const uint64_t before = reports.graph.version();
  reports.now += Graph::kEdgeAfter;
  reports.TellAll();
  EXPECT_THAT(reports.graph.EdgePorts(0), ElementsAre("p2", "p4"));
  EXPECT_GT(reports.graph.version(), before);
  reports.Port(1, 3).up = true;
  reports.Join(1, 4, 2, 4);
  reports.Port(1, 1).neighbours.clear();
  reports.TellAll();
  EXPECT_THAT(reports.graph.EdgePorts(0), ElementsAre("p2")) << "a port that came up may be a switch's";
  reports.now += 10 * Graph::kEdgeAfter;
  reports.TellAll();
  EXPECT_THAT(reports.graph.EdgePorts(0), ElementsAre("p2", "p3")) << "the link at p1 is down, not gone";
}

}  // namespace
}  // namespace epic::manager
