// Super-frames at a switch: their packets count as if each had come alone, and what leaves says whether it
// may join.
#include "roce/super_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "incengine/core/switch.h"
#include "incengine/core/switch_testing.h"
#include "protocol/control.h"
#include "roce/wire.h"

namespace epic::engine {
namespace {

using testing::Bytes;
using testing::HostIp;
using testing::HostMac;
using testing::kSwitchIp;
using testing::kSwitchMac;

constexpr uint32_t kSuperMtu = 256;
constexpr size_t kSuperPackets = 4;  // of data
constexpr size_t kSegment = 12 + kSuperMtu + 4;

struct SentOrJoined {
  PortId port;
  Bytes frame;
  bool joins;
};

class JoinsSink final : public FrameSink {
 public:
  void Send(PortId port, std::span<const uint8_t> frame) override {
    sent.push_back({port, Bytes(frame.begin(), frame.end()), false});
  }
  void SendPacket(PortId port, const roce::FramePieces& packet, bool joins) override {
    sent.push_back({port, roce::Join(packet), joins});
  }
  bool SendSuperFrame(PortId port, const roce::SuperFrameView& frame) override {
    if (!carriers.contains(port)) return false;
    sent.push_back({port, Bytes(frame.bytes().begin(), frame.bytes().end()), false});
    return true;
  }
  void SetTimer(TimerId, Nanos) override {}
  std::vector<SentOrJoined> sent;
  std::set<PortId> carriers;  // ports that carry super-frames
};

// A star of two hosts; host 1 takes super-frames. The call is an AllReduce of four packets of INT32.
class SuperFrameSwitchTest : public ::testing::Test {
 protected:
  SuperFrameSwitchTest() {
    GroupConfig config{{.group_id = 7,
                        .generation = 1,
                        .name = "star",
                        .world_size = 2,
                        .path_mtu = kSuperMtu,
                        .message_packets = 4,
                        .window_messages = 2,
                        .slots = 16}};
    for (size_t h = 0; h < 2; ++h) {
      config.children.push_back({.local_qpn = Qpn{static_cast<uint32_t>(0x100 + h)},
                                 .remote_ip = HostIp(h),
                                 .remote_qpn = Qpn{0x11},
                                 .remote_mac = HostMac(h),
                                 .port = static_cast<PortId>(h),
                                 .is_host = true,
                                 .super_frames = h == 1,
                                 .ranks = {static_cast<uint32_t>(h)}});
    }
    EXPECT_TRUE(switch_.engine().Install(config).ok());
  }

  roce::FramePieces Packet(size_t host, roce::Opcode opcode, uint32_t psn, std::span<const uint8_t> payload,
                           const roce::MacAddress& to = kSwitchMac) {
    roce::Packet packet;
    packet.src_ip = HostIp(host);
    packet.dst_ip = kSwitchIp;
    packet.bth.opcode = opcode;
    packet.bth.dest_qp = Qpn{static_cast<uint32_t>(0x100 + host)};
    packet.bth.psn = Psn(psn);
    packet.payload = payload;
    roce::FramePieces pieces;
    roce::WritePieces({.dst = to, .src = HostMac(host), .ip_id = static_cast<uint16_t>(psn), .vlan = {}},
                      packet, nullptr, &pieces);
    return pieces;
  }

  void Control(size_t host) {
    ControlHeader header;
    header.collective = Collective::kAllReduce;
    header.op = ReduceOp::kSum;
    header.type = DataType::kInt32;
    header.count = kSuperPackets * kSuperMtu / 4;
    std::array<uint8_t, kControlBytes> payload{};
    Encode(header, payload);
    switch_.OnFrame(0, static_cast<PortId>(host),
                    roce::Join(Packet(host, roce::Opcode::kRcSendOnlyImm, 0, payload)), sink_);
  }

  // The host's data in one super-frame; each element is `value`.
  Bytes Data(size_t host, int32_t value, const roce::MacAddress& to = kSwitchMac) {
    std::vector<int32_t> values(kSuperMtu / 4, value);
    Bytes payload(kSuperMtu), super;
    std::memcpy(payload.data(), values.data(), kSuperMtu);
    for (uint32_t k = 0; k < kSuperPackets; ++k) {
      const auto opcode = k == 0                   ? roce::Opcode::kRcSendFirst
                          : k + 1 == kSuperPackets ? roce::Opcode::kRcSendLast
                                                   : roce::Opcode::kRcSendMiddle;
      const Bytes frame = roce::Join(Packet(host, opcode, 1 + k, payload, to));
      super.insert(super.end(), frame.begin() + (k == 0 ? 0 : roce::kSuperFrameHeadBytes), frame.end());
    }
    roce::MakeSuperFrameHead(super.size() - roce::kSuperFrameHeadBytes, super);
    return super;
  }

  void Receive(PortId port, const Bytes& super) {
    sink_.sent.clear();
    switch_.OnSuperFrame(0, port, super, kSegment, sink_);
  }

  // The switch learns where host 1 is.
  void LearnHost1() {
    const roce::MacAddress nobody = {2, 9, 9, 9, 9, 9};
    switch_.OnFrame(0, 1, roce::Join(Packet(1, roce::Opcode::kRcSendOnly, 0, {}, nobody)), sink_);
  }

  // The results sent by a port: their first elements.
  std::vector<int32_t> Results(PortId port) {
    std::vector<int32_t> results;
    for (const SentOrJoined& sent : sink_.sent) {
      roce::FrameAddress address;
      roce::Packet packet;
      if (sent.port != port || roce::ParseFrame(sent.frame, &address, &packet) != roce::ParseResult::kOk)
        continue;
      if (packet.payload.size() == kSuperMtu)
        results.push_back(static_cast<int32_t>(roce::LoadLe32(packet.payload.data())));
    }
    return results;
  }
  uint64_t Bad(roce::ParseResult result) const {
    return switch_.counters().bad_roce[static_cast<size_t>(result)];
  }

  Switch switch_{
      SwitchConfig{.address = kSwitchIp, .mac = kSwitchMac, .port_count = 3, .arena_bytes = 1 << 20}};
  JoinsSink sink_;
};

TEST_F(SuperFrameSwitchTest, EachPacketIsSummed) {
  for (size_t h = 0; h < 2; ++h) Control(h);
  Receive(0, Data(0, 1000));
  EXPECT_TRUE(Results(0).empty());
  Receive(1, Data(1, 1));
  EXPECT_EQ(Results(0), std::vector<int32_t>(kSuperPackets, 1001));
  EXPECT_EQ(Results(1), std::vector<int32_t>(kSuperPackets, 1001));
  EXPECT_EQ(switch_.port_counters()[0].rx_frames, 1 + kSuperPackets);
  EXPECT_EQ(switch_.counters().roce_packets, 2 + 2 * kSuperPackets);
}

TEST_F(SuperFrameSwitchTest, OnlyPacketsToAnEndpointThatTakesThemMayJoin) {
  for (size_t h = 0; h < 2; ++h) Control(h);
  Receive(0, Data(0, 1000));
  Receive(1, Data(1, 1));
  ASSERT_FALSE(sink_.sent.empty());
  for (const SentOrJoined& sent : sink_.sent) EXPECT_EQ(sent.joins, sent.port == 1);
}

TEST_F(SuperFrameSwitchTest, ACutOneIsALossOfThePacketsThatAreNotWhole) {
  for (size_t h = 0; h < 2; ++h) Control(h);
  Receive(0, Data(0, 1000));
  Bytes cut = Data(1, 1);
  cut.resize(roce::kSuperFrameHeadBytes + 2 * kSegment + 100);
  Receive(1, cut);
  EXPECT_EQ(Results(0).size(), 2u);
  EXPECT_EQ(Bad(roce::ParseResult::kTruncated), 2u);
  Receive(1, Data(1, 1));  // as the host repeats it
  EXPECT_EQ(Results(0), std::vector<int32_t>(2, 1001));
}

TEST_F(SuperFrameSwitchTest, ADamagedPacketCostsItselfAlone) {
  for (size_t h = 0; h < 2; ++h) Control(h);
  Receive(0, Data(0, 1000));
  Bytes damaged = Data(1, 1);
  damaged[roce::kSuperFrameHeadBytes + kSegment + 50] ^= 1;
  Receive(1, damaged);
  EXPECT_EQ(Results(0), std::vector<int32_t>(1, 1001));
  EXPECT_EQ(Bad(roce::ParseResult::kBadIcrc), 1u);
  // What comes behind it has been taken, and is beyond a gap.
  EXPECT_EQ(switch_.counters().engine_drops[static_cast<size_t>(DropReason::kGap)], kSuperPackets - 2);
}

TEST_F(SuperFrameSwitchTest, OneThatIsBehindItsTurnIsAGap) {
  for (size_t h = 0; h < 2; ++h) Control(h);
  Receive(0, Data(0, 1000));
  Bytes whole = Data(1, 1);
  Bytes later(whole.begin(), whole.begin() + roce::kSuperFrameHeadBytes);
  later.insert(later.end(), whole.begin() + roce::kSuperFrameHeadBytes + 2 * kSegment, whole.end());
  later[14 + 5] = static_cast<uint8_t>(later[14 + 5] + 2);  // identification of its first packet
  roce::MakeSuperFrameHead(later.size() - roce::kSuperFrameHeadBytes, later);
  Receive(1, later);
  EXPECT_TRUE(Results(0).empty());
  EXPECT_EQ(switch_.counters().engine_drops[static_cast<size_t>(DropReason::kGap)], 2u);
}

TEST_F(SuperFrameSwitchTest, ADamagedOneIsCounted) {
  Bytes damaged = Data(0, 1);
  damaged[roce::kSuperFrameHeadBytes + kSegment + 50] ^= 1;
  Receive(0, damaged);
  EXPECT_EQ(Bad(roce::ParseResult::kBadIcrc), 1u);
  damaged[14 + 8] ^= 1;
  Receive(0, damaged);
  EXPECT_EQ(Bad(roce::ParseResult::kBadIpChecksum), 1u);
}

TEST_F(SuperFrameSwitchTest, WhatIsForOthersLeavesByAPortThatCarriesNoneInFramesOfItsOwn) {
  LearnHost1();
  Receive(0, Data(0, 5, HostMac(1)));
  ASSERT_EQ(sink_.sent.size(), kSuperPackets);
  for (size_t k = 0; k < kSuperPackets; ++k) {
    roce::FrameAddress address;
    roce::Packet packet;
    EXPECT_EQ(sink_.sent[k].port, 1);
    EXPECT_FALSE(sink_.sent[k].joins);
    ASSERT_EQ(roce::ParseFrame(sink_.sent[k].frame, &address, &packet), roce::ParseResult::kOk);
    EXPECT_EQ(packet.bth.psn, Psn(static_cast<uint32_t>(1 + k)));
    EXPECT_EQ(address.dst, HostMac(1));
  }
  EXPECT_EQ(switch_.counters().forwarded_frames, kSuperPackets + 1);
}

TEST_F(SuperFrameSwitchTest, WhatIsForOthersLeavesWholeByAPortThatCarriesThem) {
  LearnHost1();
  const std::vector<SwitchPortCounters> before = switch_.port_counters();
  sink_.carriers = {1};
  const Bytes whole = Data(0, 5, HostMac(1));
  Receive(0, whole);
  ASSERT_EQ(sink_.sent.size(), 1u);
  EXPECT_EQ(sink_.sent[0].port, 1);
  EXPECT_EQ(sink_.sent[0].frame, whole);
  // It counts as its packets.
  EXPECT_EQ(switch_.counters().forwarded_frames, kSuperPackets + 1);
  EXPECT_EQ(switch_.port_counters()[0].rx_frames - before[0].rx_frames, kSuperPackets);
  EXPECT_EQ(switch_.port_counters()[1].tx_frames - before[1].tx_frames, kSuperPackets);
  EXPECT_EQ(switch_.port_counters()[1].tx_bytes - before[1].tx_bytes, whole.size());
}

// A flooded one, or a multicast group's.
TEST_F(SuperFrameSwitchTest, WhatIsForSeveralLeavesWholeByEachPortThatCarriesThem) {
  const std::vector<SwitchPortCounters> before = switch_.port_counters();
  sink_.carriers = {2};
  const Bytes whole = Data(0, 5, HostMac(1));
  Receive(0, whole);
  std::vector<Bytes> cut;
  for (const SentOrJoined& sent : sink_.sent) {
    if (sent.port == 2) {
      EXPECT_EQ(sent.frame, whole);
    } else {
      EXPECT_EQ(sent.port, 1);
      cut.push_back(sent.frame);
    }
  }
  ASSERT_EQ(cut.size(), kSuperPackets);
  EXPECT_EQ(sink_.sent.size(), kSuperPackets + 1);
  for (uint32_t k = 0; k < kSuperPackets; ++k) {
    roce::FrameAddress address;
    roce::Packet packet;
    ASSERT_EQ(roce::ParseFrame(cut[k], &address, &packet), roce::ParseResult::kOk);
    EXPECT_EQ(packet.bth.psn, Psn(1 + k));
  }
  // It counts as its packets.
  EXPECT_EQ(switch_.counters().forwarded_frames, kSuperPackets);
  EXPECT_EQ(switch_.counters().flooded_frames, kSuperPackets);
  EXPECT_EQ(switch_.port_counters()[0].rx_frames - before[0].rx_frames, kSuperPackets);
  for (const PortId port : {PortId{1}, PortId{2}})
    EXPECT_EQ(switch_.port_counters()[port].tx_frames - before[port].tx_frames, kSuperPackets);

  const roce::MacAddress group = {0x01, 0x00, 0x5e, 0x40, 0x00, 0x01};
  ASSERT_TRUE(switch_.forwarding()
                  .SetTable({.entries = {}, .flood_ports = {0, 1, 2}, .groups = {{group, {0, 2}}}})
                  .ok());
  Receive(0, Data(0, 5, group));
  ASSERT_EQ(sink_.sent.size(), 1u) << "not by port 1";
  EXPECT_EQ(sink_.sent[0].port, 2);
}

TEST_F(SuperFrameSwitchTest, WhatIsCutShortOrHasNoPortGoesPacketByPacket) {
  sink_.carriers = {0, 1, 2};
  LearnHost1();
  Bytes cut = Data(0, 5, HostMac(1));
  cut.resize(cut.size() - 1);
  Receive(0, cut);
  EXPECT_EQ(sink_.sent.size(), kSuperPackets - 1);
  EXPECT_EQ(Bad(roce::ParseResult::kTruncated), 1u);
  Receive(1, Data(0, 5, HostMac(1)));
  EXPECT_TRUE(sink_.sent.empty()) << "back to where it came from";
  EXPECT_EQ(switch_.counters().forward_drops[static_cast<size_t>(ForwardDrop::kBackToIngress)],
            kSuperPackets);
}

// A host at a guarded port cannot send them in another's name either.
TEST_F(SuperFrameSwitchTest, AForgedOneIsDroppedPacketByPacket) {
  Switch guarded(SwitchConfig{.address = kSwitchIp,
                              .mac = kSwitchMac,
                              .port_count = 3,
                              .arena_bytes = 1 << 20,
                              .forwarding = ForwardingMode::kStatic});
  ForwardingTable table;
  for (size_t h = 0; h < 3; ++h)
    table.entries.push_back({HostMac(h), HostIp(h), static_cast<PortId>(h), /*source_guard=*/true});
  ASSERT_TRUE(guarded.forwarding().SetTable(table).ok());
  sink_.carriers = {0, 1, 2};
  guarded.OnSuperFrame(0, 2, Data(0, 5, HostMac(1)), kSegment, sink_);
  EXPECT_TRUE(sink_.sent.empty());
  EXPECT_EQ(guarded.counters().forward_drops[static_cast<size_t>(ForwardDrop::kForgedSource)], kSuperPackets);
  guarded.OnSuperFrame(0, 0, Data(0, 5, HostMac(1)), kSegment, sink_);
  EXPECT_EQ(sink_.sent.size(), 1u);
}

}  // namespace
}  // namespace epic::engine
