// What a switch takes at the port of a host that is guarded, and what it does not.
#include "incengine/core/source_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "incengine/core/switch.h"
#include "incengine/core/switch_testing.h"
#include "roce/arp.h"

namespace epic::engine {
namespace {

using testing::Bytes;
using testing::HostIp;
using testing::HostMac;
using testing::kSwitchIp;
using testing::kSwitchMac;

constexpr uint16_t kEtherTypeRarp = 0x8035;
constexpr uint16_t kEtherTypeIpv6 = 0x86dd;
constexpr uint16_t kEtherTypeServiceTag = 0x88a8;

class PortsSink final : public FrameSink {
 public:
  void Send(PortId port, std::span<const uint8_t>) override { ports.push_back(port); }
  void SetTimer(TimerId, Nanos) override {}
  std::vector<PortId> ports;
};

Bytes Ethernet(const roce::MacAddress& src, uint16_t type, std::optional<uint16_t> vlan = std::nullopt) {
  const roce::EthernetHeader header{roce::kBroadcastMac, src, vlan, type};
  Bytes frame(header.header_bytes() + 46, 0x5a);
  header.Write(frame.data());
  return frame;
}

Bytes Ip(const roce::MacAddress& src, Ipv4 from, std::optional<uint16_t> vlan = std::nullopt) {
  Bytes frame = Ethernet(src, roce::kEtherTypeIpv4, vlan);
  roce::Ipv4Header{.total_length = 46, .src = from, .dst = Ipv4{0xe0000116}}.Write(&frame[vlan ? 18 : 14]);
  return frame;
}

Bytes Arp(const roce::MacAddress& src, const roce::MacAddress& sender, Ipv4 sender_ip,
          roce::ArpOp op = roce::ArpOp::kRequest, std::optional<uint16_t> vlan = std::nullopt) {
  Bytes frame(roce::kMaxArpFrameBytes);
  frame.resize(roce::WriteArp({.dst = roce::kBroadcastMac,
                               .src = src,
                               .vlan = vlan,
                               .op = op,
                               .sender_mac = sender,
                               .sender_ip = sender_ip,
                               .target_mac = {},
                               .target_ip = Ipv4{0x0a0000aa}},
                              frame));
  return frame;
}

struct Case {
  std::string what;
  Bytes frame;
};

std::vector<Case> OfHost0() {
  return {{"IPv4", Ip(HostMac(0), HostIp(0))},
          {"IPv4 with a priority tag", Ip(HostMac(0), HostIp(0), 0x6000)},
          {"IPv4 in a VLAN", Ip(HostMac(0), HostIp(0), 0x0005)},
          {"IGMP before it has its address", Ip(HostMac(0), Ipv4{0})},
          {"ARP", Arp(HostMac(0), HostMac(0), HostIp(0))},
          {"ARP's reply", Arp(HostMac(0), HostMac(0), HostIp(0), roce::ArpOp::kReply)},
          {"ARP probe", Arp(HostMac(0), HostMac(0), Ipv4{0})},
          {"LLDP", Ethernet(HostMac(0), 0x88cc)},
          {"IPv6", Ethernet(HostMac(0), kEtherTypeIpv6)},
          {"RARP", Ethernet(HostMac(0), kEtherTypeRarp)}};
}

std::vector<Case> Forged() {
  Bytes cut_ip = Ip(HostMac(0), HostIp(0));
  cut_ip.resize(30);
  Bytes cut_arp = Arp(HostMac(0), HostMac(0), HostIp(0));
  cut_arp.resize(40);
  return {{"the MAC of another", Ip(HostMac(1), HostIp(0))},
          {"the address of another", Ip(HostMac(0), HostIp(1))},
          {"both", Ip(HostMac(1), HostIp(1))},
          {"the switch's address", Ip(HostMac(0), kSwitchIp)},
          {"the address of another, in a VLAN", Ip(HostMac(0), HostIp(1), 0x0005)},
          {"a MAC that nobody has", Ethernet(HostMac(77), 0x88cc)},
          {"ARP for another", Arp(HostMac(0), HostMac(0), HostIp(1))},
          {"ARP with the MAC of another", Arp(HostMac(0), HostMac(1), HostIp(0))},
          {"ARP's reply for the switch", Arp(HostMac(0), HostMac(0), kSwitchIp, roce::ArpOp::kReply)},
          {"ARP for another, tagged", Arp(HostMac(0), HostMac(0), HostIp(1), roce::ArpOp::kRequest, 0)},
          {"ARP from another", Arp(HostMac(1), HostMac(0), HostIp(0))},
          {"a probe with the MAC of another", Arp(HostMac(0), HostMac(1), Ipv4{0})},
          {"half an IPv4 header", cut_ip},
          {"half an ARP packet", cut_arp},
          {"two tags", Ethernet(HostMac(0), roce::kEtherTypeVlan, 0)},
          {"a service tag", Ethernet(HostMac(0), kEtherTypeServiceTag)}};
}

class SourceGuardTest : public ::testing::Test {
 protected:
  // Host 0 on port 0, guarded; host 1 on port 1, not; another switch behind port 2.
  explicit SourceGuardTest(ForwardingMode mode = ForwardingMode::kStatic)
      : switch_({.address = kSwitchIp,
                 .mac = kSwitchMac,
                 .port_count = 3,
                 .arena_bytes = 4096,
                 .forwarding = mode}) {
    EXPECT_TRUE(
        switch_.forwarding()
            .SetTable({.entries = {{HostMac(0), HostIp(0), 0, true}, {HostMac(1), HostIp(1), 1, false}},
                       .flood_ports = {0, 1, 2}})
            .ok());
  }
  // The ports that it leaves by.
  std::vector<PortId> Receive(PortId port, const Bytes& frame) {
    sink_.ports.clear();
    switch_.OnFrame(0, port, frame, sink_);
    return sink_.ports;
  }
  uint64_t Drops() const {
    return switch_.counters().forward_drops[static_cast<size_t>(ForwardDrop::kForgedSource)];
  }

  Switch switch_;
  PortsSink sink_;
};

class LearningGuardTest : public SourceGuardTest {
 protected:
  LearningGuardTest() : SourceGuardTest(ForwardingMode::kLearning) {}
};

TEST_F(SourceGuardTest, AHostsOwnFramesPass) {
  for (const Case& own : OfHost0()) {
    EXPECT_THAT(Receive(0, own.frame), ::testing::ElementsAre(1, 2)) << own.what;
  }
  EXPECT_EQ(Drops(), 0u);
}

TEST_F(SourceGuardTest, WhatBearsOtherAddressesIsDroppedAndCounted) {
  uint64_t dropped = 0;
  for (const Case& forged : Forged()) {
    EXPECT_THAT(Receive(0, forged.frame), ::testing::IsEmpty()) << forged.what;
    EXPECT_EQ(Drops(), ++dropped) << forged.what;
  }
}

TEST_F(SourceGuardTest, OnlyWhereTheTableSaysSo) {
  for (const PortId port : {PortId{1}, PortId{2}}) {
    for (const Case& forged : Forged())
      EXPECT_THAT(Receive(port, forged.frame), ::testing::SizeIs(2)) << forged.what;
  }
  EXPECT_EQ(Drops(), 0u);
}

TEST_F(SourceGuardTest, AForgedRequestIsNotAnsweredEither) {
  Bytes request = Arp(HostMac(0), HostMac(0), HostIp(1));
  std::copy_n(Bytes{0x0a, 0x00, 0xff, 0x01}.begin(), 4, request.end() - 4);  // for the switch's own address
  EXPECT_THAT(Receive(0, request), ::testing::IsEmpty());
  EXPECT_EQ(switch_.counters().arp_replies, 0u);
  EXPECT_EQ(Drops(), 1u);
}

TEST_F(SourceGuardTest, WhatIsForTheSwitchItselfIsTheEnginesToJudge) {
  Bytes frame = Ip(HostMac(0), HostIp(1));
  std::copy(kSwitchMac.begin(), kSwitchMac.end(), frame.begin());
  EXPECT_THAT(Receive(0, frame), ::testing::IsEmpty());
  EXPECT_EQ(Drops(), 0u);
  EXPECT_EQ(switch_.counters().frame_drops[static_cast<size_t>(FrameDrop::kNotForSwitch)], 1u);
}

TEST_F(LearningGuardTest, NoPortIsGuarded) {
  for (const Case& forged : Forged())
    EXPECT_THAT(Receive(0, forged.frame), ::testing::SizeIs(2)) << forged.what;
  EXPECT_EQ(Drops(), 0u);
}

TEST(BearsSourceOf, AnEntryWithoutAnAddressIsHeldToItsMac) {
  const ForwardingEntry host{.mac = HostMac(0), .ip = {}, .port = 0, .source_guard = true};
  EXPECT_TRUE(BearsSourceOf(&host, *roce::EthernetView::Of(Ip(HostMac(0), HostIp(5)))));
  EXPECT_FALSE(BearsSourceOf(&host, *roce::EthernetView::Of(Ip(HostMac(1), HostIp(5)))));
}

}  // namespace
}  // namespace epic::engine
