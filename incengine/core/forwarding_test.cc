#include "incengine/core/forwarding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "roce/lldp.h"

namespace epic::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr roce::MacAddress kBroadcast = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

roce::MacAddress Mac(int n) { return {0x02, 0, 0, 0, static_cast<uint8_t>(n >> 8), static_cast<uint8_t>(n)}; }

class Learning : public ::testing::Test {
 protected:
  std::vector<PortId> Route(PortId ingress, const roce::MacAddress& src, const roce::MacAddress& dst,
                            Nanos now = 0) {
    drop_ = ForwardDrop::kCount;
    const auto ports = forwarding_.Route(now, ingress, src, dst, &drop_);
    return {ports.begin(), ports.end()};
  }
  Forwarding forwarding_{ForwardingMode::kLearning, 4};
  ForwardDrop drop_ = ForwardDrop::kCount;
};

class Static : public Learning {
 protected:
  Static() { forwarding_ = Forwarding(ForwardingMode::kStatic, 4); }
};

TEST_F(Learning, FloodsTheUnknownToAllButTheIngress) {
  EXPECT_THAT(Route(1, Mac(1), Mac(2)), ElementsAre(0, 2, 3));
  EXPECT_THAT(Route(1, Mac(1), kBroadcast), ElementsAre(0, 2, 3));
}

TEST_F(Learning, SendsToTheLearnedPortOnly) {
  Route(1, Mac(1), kBroadcast);
  EXPECT_THAT(Route(3, Mac(3), Mac(1)), ElementsAre(1));
  Route(2, Mac(1), kBroadcast);  // the station has moved
  EXPECT_THAT(Route(3, Mac(3), Mac(1)), ElementsAre(2));
}

TEST_F(Learning, NeverSendsBackToTheIngress) {
  Route(1, Mac(1), kBroadcast);
  EXPECT_THAT(Route(1, Mac(5), Mac(1)), IsEmpty());
  EXPECT_EQ(drop_, ForwardDrop::kBackToIngress);
}

TEST_F(Learning, ForgetsAfterFiveMinutes) {
  Route(1, Mac(1), kBroadcast, 0);
  EXPECT_THAT(Route(3, Mac(3), Mac(1), 300 * kSecond), ElementsAre(1));
  EXPECT_THAT(Route(3, Mac(3), Mac(1), 300 * kSecond + 1), ElementsAre(0, 1, 2));
}

TEST_F(Learning, TheTableIsBoundedAndReusesAgedPlaces) {
  for (int i = 0; i < 5000; ++i) Route(1, Mac(i), kBroadcast, 0);
  EXPECT_EQ(forwarding_.learned_count(), Forwarding::kMaxLearned);
  EXPECT_EQ(forwarding_.learn_failures(), 5000 - Forwarding::kMaxLearned);
  Route(2, Mac(6000), kBroadcast, 301 * kSecond);
  EXPECT_EQ(forwarding_.learned_count(), 1u);
  EXPECT_THAT(Route(3, Mac(3), Mac(6000), 301 * kSecond), ElementsAre(2));
}

TEST_F(Learning, AManagersEntryIsNotUnlearned) {
  ASSERT_TRUE(
      forwarding_.SetTable({.entries = {{Mac(1), std::nullopt, 3}}, .flood_ports = {0, 1, 2, 3}}).ok());
  Route(1, Mac(1), kBroadcast);
  EXPECT_THAT(Route(0, Mac(2), Mac(1)), ElementsAre(3));
}

TEST_F(Learning, AManagersFloodPortsBoundFlooding) {
  ASSERT_TRUE(forwarding_.SetTable({.entries = {}, .flood_ports = {0, 2}}).ok());
  EXPECT_THAT(Route(0, Mac(1), Mac(2)), ElementsAre(2));
  EXPECT_THAT(Route(1, Mac(3), Mac(2)), IsEmpty());
  EXPECT_EQ(drop_, ForwardDrop::kUnknownUnicast);
}

TEST_F(Learning, ReservedGroupsAndGroupSourcesAreDropped) {
  EXPECT_THAT(Route(1, Mac(1), {0x01, 0x80, 0xc2, 0, 0, 0x0e}), IsEmpty());
  EXPECT_EQ(drop_, ForwardDrop::kReservedGroup);
  EXPECT_THAT(Route(1, Mac(1), {0x01, 0x80, 0xc2, 0, 0, 0x10}), ElementsAre(0, 2, 3));
  EXPECT_THAT(Route(1, kBroadcast, Mac(1)), IsEmpty());
  EXPECT_EQ(drop_, ForwardDrop::kBadSource);
}

TEST_F(Static, DropsTheUnknownAndLearnsNothing) {
  EXPECT_THAT(Route(1, Mac(1), kBroadcast), IsEmpty());
  EXPECT_EQ(drop_, ForwardDrop::kNoFloodPort);
  EXPECT_THAT(Route(2, Mac(2), Mac(1)), IsEmpty());
  EXPECT_EQ(drop_, ForwardDrop::kUnknownUnicast);
  EXPECT_EQ(forwarding_.learned_count(), 0u);
}

TEST_F(Static, SendsByTheTable) {
  ASSERT_TRUE(forwarding_.SetTable({.entries = {{Mac(1), Ipv4{0x0a000001}, 2}}, .flood_ports = {}}).ok());
  EXPECT_THAT(Route(0, Mac(9), Mac(1)), ElementsAre(2));
  EXPECT_THAT(Route(2, Mac(9), Mac(1)), IsEmpty());
  EXPECT_EQ(drop_, ForwardDrop::kBackToIngress);
  ASSERT_NE(forwarding_.FindIp(Ipv4{0x0a000001}), nullptr);
  EXPECT_EQ(forwarding_.FindIp(Ipv4{0x0a000001})->mac, Mac(1));
  EXPECT_EQ(forwarding_.FindIp(Ipv4{0x0a000002}), nullptr);
}

TEST_F(Static, GuardsThePortsOfTheHostsThatTheTableNames) {
  ASSERT_TRUE(
      forwarding_
          .SetTable({.entries = {{Mac(1), Ipv4{1}, 0, true}, {Mac(2), Ipv4{2}, 2, false}}, .flood_ports = {}})
          .ok());
  ASSERT_NE(forwarding_.GuardedHost(0), nullptr);
  EXPECT_EQ(forwarding_.GuardedHost(0)->mac, Mac(1));
  for (PortId port = 1; port < 4; ++port) EXPECT_EQ(forwarding_.GuardedHost(port), nullptr);
  ASSERT_TRUE(forwarding_.SetTable({}).ok());
  EXPECT_EQ(forwarding_.GuardedHost(0), nullptr);
}

TEST_F(Learning, GuardsNoPort) {
  ASSERT_TRUE(forwarding_.SetTable({.entries = {{Mac(1), Ipv4{1}, 0, true}}, .flood_ports = {0, 1}}).ok());
  EXPECT_EQ(forwarding_.GuardedHost(0), nullptr);
}

TEST_F(Static, BroadcastsStayWithinTheFloodPorts) {
  ASSERT_TRUE(forwarding_.SetTable({.entries = {}, .flood_ports = {0, 1, 2}}).ok());
  EXPECT_THAT(Route(0, Mac(1), kBroadcast), ElementsAre(1, 2));
  EXPECT_THAT(Route(3, Mac(1), kBroadcast), IsEmpty());
  EXPECT_EQ(drop_, ForwardDrop::kNoFloodPort);
}

constexpr roce::MacAddress kGroup = {0x01, 0x00, 0x5e, 0x40, 0x00, 0x01};
constexpr roce::MacAddress kOtherGroup = {0x01, 0x00, 0x5e, 0x40, 0x00, 0x02};

// In both modes.
TEST(Groups, WhatIsForOneLeavesByItsPortsAlone) {
  for (const ForwardingMode mode : {ForwardingMode::kStatic, ForwardingMode::kLearning}) {
    Forwarding forwarding(mode, 5);
    const auto route = [&](PortId ingress, const roce::MacAddress& dst) {
      ForwardDrop drop = ForwardDrop::kCount;
      const auto ports = forwarding.Route(0, ingress, Mac(1), dst, &drop);
      EXPECT_EQ(drop, ports.empty() ? ForwardDrop::kNoFloodPort : ForwardDrop::kCount);
      return std::vector<PortId>(ports.begin(), ports.end());
    };
    ASSERT_TRUE(
        forwarding.SetTable({.entries = {}, .flood_ports = {0, 1, 2}, .groups = {{kGroup, {3, 1, 0}}}}).ok());
    EXPECT_THAT(route(0, kGroup), ElementsAre(3, 1));
    EXPECT_THAT(route(3, kGroup), ElementsAre(1, 0)) << "it is the group's, and no flood port";
    EXPECT_THAT(route(2, kGroup), ElementsAre(3, 1, 0)) << "from who is no member";
    EXPECT_THAT(route(4, kGroup), IsEmpty()) << "neither";
    EXPECT_THAT(route(0, kOtherGroup), ElementsAre(1, 2)) << "flooded as ever";
    EXPECT_THAT(route(0, kBroadcast), ElementsAre(1, 2));
    // One that is for nobody here, or for who has sent it, goes nowhere.
    ASSERT_TRUE(
        forwarding
            .SetTable({.entries = {}, .flood_ports = {0, 1, 2}, .groups = {{kGroup, {}}, {kOtherGroup, {1}}}})
            .ok());
    EXPECT_THAT(route(0, kGroup), IsEmpty());
    EXPECT_THAT(route(1, kOtherGroup), IsEmpty());
    ASSERT_TRUE(forwarding.SetTable({.entries = {}, .flood_ports = {0, 1, 2}}).ok());
    EXPECT_THAT(route(0, kGroup), ElementsAre(1, 2)) << "not a group's any more";
  }
}

TEST_F(Static, ASecondTableReplacesTheFirst) {
  ASSERT_TRUE(forwarding_.SetTable({.entries = {{Mac(1), Ipv4{1}, 2}}, .flood_ports = {0, 1}}).ok());
  ASSERT_TRUE(forwarding_.SetTable({.entries = {{Mac(2), Ipv4{2}, 3}}, .flood_ports = {2, 3}}).ok());
  EXPECT_THAT(Route(0, Mac(9), Mac(1)), IsEmpty());
  EXPECT_THAT(Route(0, Mac(9), Mac(2)), ElementsAre(3));
  EXPECT_THAT(Route(2, Mac(9), kBroadcast), ElementsAre(3));
  EXPECT_EQ(forwarding_.FindIp(Ipv4{1}), nullptr);
}

TEST_F(Static, ABadTableChangesNothingAndNamesTheField) {
  ASSERT_TRUE(forwarding_.SetTable({.entries = {{Mac(1), Ipv4{1}, 2}}, .flood_ports = {}}).ok());
  const std::vector<std::pair<ForwardingTable, const char*>> bad = {
      {{.entries = {{Mac(5), std::nullopt, 4}}, .flood_ports = {}}, "entries[0].port"},
      {{.entries = {{kBroadcast, std::nullopt, 1}}, .flood_ports = {}}, "entries[0].mac"},
      {{.entries = {{Mac(5), Ipv4{5}, 1}, {Mac(5), Ipv4{6}, 2}}, .flood_ports = {}}, "entries[1].mac"},
      {{.entries = {{Mac(5), Ipv4{5}, 1}, {Mac(6), Ipv4{5}, 2}}, .flood_ports = {}}, "entries[1].ip"},
      {{.entries = {{Mac(5), Ipv4{5}, 1, true}, {Mac(6), Ipv4{6}, 1, true}}, .flood_ports = {}},
       "entries[1].source_guard"},
      {{.entries = {}, .flood_ports = {1, 4}}, "flood_ports[1]"},
      {{.entries = {}, .flood_ports = {}, .groups = {{kGroup, {}}, {Mac(5), {1}}}},
       "groups[1].mac: is no group"},
      {{.entries = {}, .flood_ports = {}, .groups = {{roce::kLldpMac, {1}}}}, "groups[0].mac: is reserved"},
      {{.entries = {}, .flood_ports = {}, .groups = {{roce::kHelloMac, {1}}}}, "groups[0].mac: is reserved"},
      {{.entries = {}, .flood_ports = {}, .groups = {{kBroadcast, {1}}}}, "groups[0].mac: is everybody's"},
      {{.entries = {}, .flood_ports = {}, .groups = {{kGroup, {1}}, {kGroup, {2}}}},
       "groups[1].mac: is there twice"},
      {{.entries = {}, .flood_ports = {}, .groups = {{kGroup, {1, 4}}}}, "groups[0].ports[1]: no such port"},
      {{.entries = {}, .flood_ports = {}, .groups = {{kGroup, {1, 2, 1}}}},
       "groups[0].ports[2]: is there twice"},
  };
  for (const auto& [table, field] : bad) {
    const Status status = forwarding_.SetTable(table);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  }
  EXPECT_THAT(Route(0, Mac(9), Mac(1)), ElementsAre(2));
}

}  // namespace
}  // namespace epic::engine
