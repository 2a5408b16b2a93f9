// Hosts at a switch's ports, by what they say of themselves, by their ARP, and asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "incengine/core/neighbours_testing.h"

namespace epic::engine::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Neighbours, AHostIsHeardByItsLldpForAsLongAsItSays) {
  Station a(1);
  EXPECT_THAT(a.Hear(0, 0, Written(HostLldp())), IsEmpty());  // it is not answered
  EXPECT_THAT(a.At(0), ElementsAre(kHostByLldp));
  a.Tick(120 * kSecond - 1);
  EXPECT_THAT(a.At(0), SizeIs(1));
  a.Tick(120 * kSecond);
  EXPECT_THAT(a.At(0), IsEmpty());
  a.Hear(121 * kSecond, 0, Written(HostLldp()));
  a.Changes();
  a.Hear(122 * kSecond, 0, Written(HostLldp("h7"sv, 0)));  // it goes
  EXPECT_THAT(a.At(0), IsEmpty());
  EXPECT_EQ(a.Changes(), 1);
}

TEST(Neighbours, WhoeverBridgesAndIsNoEpicSwitchIsABridge) {
  Station a(1);
  roce::Lldp bridge = HostLldp();
  bridge.capabilities = {roce::kCapabilityBridge, roce::kCapabilityBridge};
  a.Hear(0, 0, Written(bridge));
  EXPECT_EQ(a.At(0)[0].kind, NeighbourKind::kBridge);
  bridge.capabilities->enabled = 0;  // it could
  a.Hear(0, 0, Written(bridge));
  EXPECT_EQ(a.At(0)[0].kind, NeighbourKind::kHost);
  bridge.capabilities->enabled = roce::kCapabilityBridge;  // for its containers, say
  bridge.role = roce::EpicRole::kHost;
  a.Hear(0, 0, Written(bridge));
  EXPECT_EQ(a.At(0)[0].kind, NeighbourKind::kHost);
}

TEST(Neighbours, WhatIsToldIsPrintable) {
  Station a(1);
  roce::Lldp host = HostLldp("h\xff\n\x7f 7"sv);
  host.port_description = "e\x01"sv;
  a.Hear(0, 0, Written(host));
  EXPECT_EQ(a.At(0)[0].name, "h??? 7");
  EXPECT_EQ(a.At(0)[0].port, "e?");
}

TEST(Neighbours, AHostIsHeardByItsArp) {
  Station a(1);
  a.Hear(kSecond, 0, Written(HostArp()));  // a switch there may not have said hello yet
  EXPECT_THAT(a.At(0), IsEmpty());
  a.Hear(2 * kSecond, 0, Written(HostArp()));
  EXPECT_THAT(a.At(0), ElementsAre(kHostByArp));
  EXPECT_EQ(a.Changes(), 1);
  a.Hear(200 * kSecond, 0, Written(HostArp()));
  EXPECT_EQ(a.Changes(), 0);
  a.Tick(500 * kSecond - 1);
  EXPECT_THAT(a.At(0), SizeIs(1));
  a.Tick(500 * kSecond);
  EXPECT_THAT(a.At(0), IsEmpty());
  // Another NIC with the same address.
  a.Hear(501 * kSecond, 0, Written(HostArp()));
  a.Hear(502 * kSecond, 0, Written(HostArp(kHostIp, {2, 2, 2, 2, 2, 2})));
  ASSERT_THAT(a.At(0), SizeIs(1));
  EXPECT_EQ(a.At(0)[0].mac, (roce::MacAddress{2, 2, 2, 2, 2, 2}));
}

TEST(Neighbours, ArpThatSaysNothingOfAHostIsNotHeard) {
  Station a(1);
  const Nanos now = 5 * kSecond;
  for (const uint32_t ip : {0u, 0x7f000001u, 0xe0000001u, 0xffffffffu, Raw(SwitchIp(1))})
    a.Hear(now, 0, Written(HostArp(Ipv4{ip})));
  roce::Arp for_another = HostArp();
  for_another.src = {2, 2, 2, 2, 2, 2};
  a.Hear(now, 0, Written(for_another));
  roce::Arp tagged = HostArp();
  tagged.vlan = 5;
  a.Hear(now, 0, Written(tagged));
  EXPECT_THAT(a.At(0), IsEmpty());
}

TEST(Neighbours, NobodyHasAGroupsAddress) {
  Station a(1);
  for (const roce::MacAddress& mac : {roce::MacAddress{1, 2, 3, 4, 5, 6}, roce::MacAddress{}}) {
    a.Hear(5 * kSecond, 0, Written(HostArp(kHostIp, mac)));
    roce::Lldp lldp = HostLldp();
    lldp.src = mac;
    a.Hear(5 * kSecond, 0, Written(lldp));
  }
  EXPECT_THAT(a.At(0), IsEmpty());
  EXPECT_EQ(a.Changes(), 0);
}

TEST(Neighbours, TheHostsBehindASwitchAreNotThePorts) {
  Station a(1), b(2);
  a.Hear(5 * kSecond, 1, Written(HostArp()));
  EXPECT_THAT(a.At(1), SizeIs(1));
  Exchange(5 * kSecond, &a, &b);
  EXPECT_THAT(a.At(1), ElementsAre(SwitchAt(2, "p2", HeardBy::kLldp)));
  a.Hear(6 * kSecond, 1, Written(HostArp()));
  EXPECT_THAT(a.At(1), SizeIs(1));
}

TEST(Neighbours, AGuardedHostSpeaksForItselfOnly) {
  Station a(1, ForwardingMode::kStatic);
  ASSERT_TRUE(a.core()
                  .forwarding()
                  .SetTable({.entries = {{.mac = kHostMac, .ip = kHostIp, .port = 0, .source_guard = true}},
                             .flood_ports = {}})
                  .ok());
  const Nanos now = 5 * kSecond;
  a.Hear(now, 0, Written(HostArp(Ipv4{0x0a000009})));
  EXPECT_THAT(a.At(0), IsEmpty());
  a.Hear(now, 0, Written(HostArp()));
  EXPECT_THAT(a.At(0), ElementsAre(kHostByArp));
  // Whoever takes its place says hello; who that is, the manager judges.
  Station b(2);
  for (const Sent& sent : b.Tick(now)) a.Hear(now, 0, sent.frame);
  EXPECT_EQ(a.At(0)[0].kind, NeighbourKind::kSwitch);
}

TEST(Neighbours, LocateAsksWhereNoSwitchIs) {
  Station a(1), b(2);
  Exchange(5 * kSecond, &a, &b);
  a.core().OnPort(5 * kSecond, 2, false, a);
  a.Tick(5 * kSecond);
  EXPECT_TRUE(a.core().Locate(5 * kSecond, kHostIp, a));
  const std::vector<Sent> sent = a.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].port, 0);
  const auto request = roce::ParseArp(sent[0].frame);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->target_ip, kHostIp);
  EXPECT_EQ(request->sender_ip, SwitchIp(1));
  // The answer is for the switch: nobody else gets it, and it is no drop.
  EXPECT_THAT(a.Hear(6 * kSecond, 0, Written(roce::ArpReplyTo(*request, kHostMac))), IsEmpty());
  EXPECT_THAT(a.At(0), ElementsAre(kHostByArp));
  EXPECT_EQ(a.core().counters().frame_drops[static_cast<size_t>(FrameDrop::kNotForSwitch)], 0U);
  // Not too often.
  int asked = 1;
  while (a.core().Locate(5 * kSecond, kHostIp, a)) ++asked;
  EXPECT_EQ(asked, 20);
  EXPECT_TRUE(a.core().Locate(6 * kSecond, kHostIp, a));
}

}  // namespace
}  // namespace epic::engine::testing
