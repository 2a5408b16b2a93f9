// Names, addresses, rates and bounds of what is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "incmanager/graph/graph.h"
#include "incmanager/graph/graph_testing.h"

namespace epic::manager {
namespace {

using testing::AddressOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::MacOf;
using testing::Reports;

// Its engine would refuse any table that leads there.
TEST(Graph, ALinkWhosePortIsNotThereIsGone) {
  Reports reports;
  for (const int number : {1, 2}) reports.Register(number);
  reports.Join(1, 4, 2, 4);
  reports.SeeHost(1, 3, 7);
  reports.TellAll();
  const std::vector<PortState> ports = reports.Engine(1).ports;
  reports.Engine(1).ports.resize(2);
  reports.TellAll();
  EXPECT_THAT(reports.Links(LinkState::kGone), ElementsAre("s1:p3 10.10.0.7", "s1:p4 s2:p4"));
  reports.Engine(1).ports = ports;
  reports.TellAll();
  EXPECT_THAT(reports.Links(), ElementsAre("s1:p3 10.10.0.7", "s1:p4 s2:p4"));
}

TEST(Graph, AHostWithTheNameOfASwitchGivesWay) {
  Reports reports;
  reports.Register(1);
  reports.SeeHost(1, 1, 7);
  reports.Port(1, 1).neighbours[0].name = "s2";
  reports.SeeHost(1, 2, 8);
  reports.Tell(1);
  reports.graph.NameHost(*reports.graph.topology().FindHostByAddress(AddressOf(8)), "s3");
  EXPECT_THAT(reports.Links(), ElementsAre("s1:p1 s2", "s1:p2 s3"));
  reports.Register(2);
  reports.Register(3);
  EXPECT_THAT(reports.Events(), ::testing::IsSupersetOf({"host 10.10.0.7 has the name of the switch s2",
                                                         "host 10.10.0.8 has the name of the switch s3",
                                                         "a host at s1:p1 has the name of the switch s2"}));
  EXPECT_THAT(reports.Links(), ElementsAre("s1:p1 10.10.0.7", "s1:p2 10.10.0.8"));
  for (const char* name : {"s2", "s3"}) EXPECT_TRUE(reports.graph.topology().FindSwitch(name));
}

TEST(Graph, NamesAreChecked) {
  Reports reports;
  reports.Register(1);
  EngineReport other{.name = "s 2", .address = AddressOf(202), .mac = MacOf(202)};
  for (const std::string name : {"", "s 2", "s\n", "s\"\x01", "s:2", "\xff"}) {
    other.name = name;
    const Status status = reports.graph.Admit(other, false);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("name: "));
  }
}

TEST(Graph, ReportsThatFlapAreTakenInSeldom) {
  Reports reports;
  reports.Register(1);
  const NodeId s1 = 0;
  const uint64_t before = reports.graph.updates();
  for (int i = 0; i < 50; ++i) {
    reports.now += Graph::kUpdateEvery / 10;
    reports.Port(1, 1).up = i % 2 == 0;
    reports.graph.OnReport(reports.now, s1, reports.Engine(1));
    reports.graph.Follow(reports.now);
  }
  EXPECT_LE(reports.graph.updates() - before, 5u);
  reports.Hear(1, 1, 9, 1);
  reports.Tell(1);
  reports.now += Graph::kStrangerAfter;
  reports.Tell(1);
  const uint64_t told = reports.graph.updates();
  for (int i = 0; i < 10; ++i) reports.Tell(1);
  EXPECT_EQ(reports.graph.updates(), told) << "a stranger is told of once";
  reports.Port(1, 2).up = false;
  reports.Tell(1);
  const uint64_t changes = reports.graph.updates();
  reports.Port(1, 2).up = true;
  reports.graph.OnReport(reports.now, s1, reports.Engine(1));
  reports.graph.Follow(reports.now);
  EXPECT_EQ(reports.graph.updates(), changes);
  reports.graph.Follow(reports.now + Graph::kUpdateEvery);
  EXPECT_EQ(reports.graph.updates(), changes + 1) << "without another report";
}

TEST(Graph, HostsLeaveRoomForSwitches) {
  Reports reports;
  reports.Register(1);
  std::vector<PortState>& ports = reports.Engine(1).ports;
  ports.clear();
  int host = 0;
  const auto see = [&](int count) {
    ports.push_back({.name = "q" + std::to_string(ports.size()), .up = true});
    for (int i = 0; i < count; ++i, ++host) {
      ports.back().neighbours.push_back(
          {.kind = NeighbourKind::kHost,
           .ip = Ipv4{0x0b000000u + static_cast<uint32_t>(host)},
           .mac = {2, 1, 0, 0, static_cast<uint8_t>(host >> 8), static_cast<uint8_t>(host)},
           .heard_by = HeardBy::kArp});
    }
  };
  see(65);
  reports.Tell(1);
  EXPECT_EQ(reports.Links().size(), Graph::kMaxHostsAtPort);
  EXPECT_THAT(reports.Events(), Contains("no more than 64 hosts at one port: others at s1:q0 are left out"));
  while (host < 4200) see(50);
  reports.Tell(1);
  EXPECT_EQ(reports.Links().size(), Graph::kMaxNodes - Graph::kForSwitches);
  reports.Register(2);
  EXPECT_TRUE(reports.graph.topology().FindSwitch("s2"));
}

TEST(Graph, AFoundLinksRateIsThatOfItsInterfacesNow) {
  Reports reports;
  for (const int number : {1, 2}) reports.Register(number);
  reports.Join(1, 1, 2, 1);
  reports.TellAll();
  const auto rates = [&reports] {
    const Topology& topology = reports.graph.topology();
    return std::pair(topology.nodes[0].hops[0].rate_gbps, topology.nodes[1].hops[0].rate_gbps);
  };
  EXPECT_EQ(rates(), std::pair(10.0, 10.0)) << "the default";
  reports.Port(1, 1).rate_mbps = 25000;
  reports.TellAll();
  EXPECT_EQ(rates(), std::pair(25.0, 25.0));
  reports.Port(2, 1).rate_mbps = 1000;
  reports.TellAll();
  EXPECT_EQ(rates(), std::pair(1.0, 1.0));
}

// A foreign daemon says first where its host is managed, which need not be what it sends data with.
TEST(Graph, AHostIsKnownByTheAddressOfItsData) {
  Reports reports;
  reports.Register(1);
  std::vector<Neighbour>& heard = reports.Port(1, 1).neighbours;
  const auto lldp = [](int address, const std::string& version) {
    return Neighbour{.kind = NeighbourKind::kHost,
                     .name = "alpha",
                     .ip = AddressOf(address),
                     .mac = MacOf(7),
                     .version = version,
                     .heard_by = HeardBy::kLldp};
  };
  const auto address = [&reports] {
    reports.Tell(1);
    return reports.graph.topology().nodes[1].address;
  };
  heard = {lldp(99, "")};
  EXPECT_EQ(address(), AddressOf(99)) << "for want of a better one";
  reports.SeeHost(1, 1, 7);
  EXPECT_EQ(address(), AddressOf(7));
  EXPECT_EQ(reports.graph.topology().nodes[1].name, "alpha");
  heard.pop_back();
  EXPECT_EQ(address(), AddressOf(7)) << "it has been silent for a while";
  heard = {lldp(99, ""), lldp(8, "0.1.0")};
  reports.SeeHost(1, 1, 7);
  EXPECT_EQ(address(), AddressOf(8)) << "of a daemon of ours";
}

}  // namespace
}  // namespace epic::manager
