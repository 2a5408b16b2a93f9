// Frames to other addresses that are the switch's all the same: of groups whose switches bear hosts'
// addresses (docs/PROTOCOL-MODE-IV.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <set>
#include <vector>

#include "incengine/core/switch.h"
#include "incengine/core/switch_testing.h"
#include "protocol/control.h"
#include "roce/frame_testing.h"
#include "roce/super_frame.h"
#include "roce/view.h"
#include "roce/wire.h"

namespace epic::engine {
namespace {

using testing::Bytes;
using testing::HostIp;
using testing::HostMac;
using ::testing::IsEmpty;
using testing::kSwitchIp;
using testing::kSwitchMac;
using testing::Sent;
using testing::Sink;
using ::testing::SizeIs;

constexpr uint32_t kBorneMtu = 256;
constexpr size_t kBornePackets = 4;  // of data
constexpr uint32_t kOutPsn = 500;

Qpn BorneQpn(size_t n) { return Qpn{static_cast<uint32_t>(0xf00000 + n * 256)}; }

// A star of two hosts of a group, on ports 0 and 1, and a third one; the table knows all of them. An
// AllReduce of four packets of INT32.
class SwitchBorneTest : public ::testing::Test {
 protected:
  SwitchBorneTest() {
    ForwardingTable table{.entries = {}, .flood_ports = {0, 1, 2}};
    for (size_t h = 0; h < 3; ++h)
      table.entries.push_back({.mac = HostMac(h), .ip = HostIp(h), .port = static_cast<PortId>(h)});
    EXPECT_TRUE(switch_.forwarding().SetTable(table).ok());
  }

  static GroupConfig Config() {
    GroupConfig config{{.group_id = 7,
                        .generation = 1,
                        .name = "star",
                        .mode = Mode::kSpliced,
                        .world_size = 2,
                        .path_mtu = kBorneMtu,
                        .message_packets = 4,
                        .window_messages = 2,
                        .slots = 16}};
    for (size_t h = 0; h < 2; ++h) {
      config.children.push_back({.local_qpn = BorneQpn(h),
                                 .remote_ip = HostIp(h),
                                 .remote_qpn = Qpn{0x11},
                                 .borne_ip = HostIp(1 - h),
                                 .remote_mac = HostMac(h),
                                 .port = static_cast<PortId>(h),
                                 .out_psn = Psn(kOutPsn),
                                 .is_host = true,
                                 .ranks = {static_cast<uint32_t>(h)}});
    }
    return config;
  }
  void Install() { ASSERT_TRUE(switch_.engine().Install(Config()).ok()); }

  // What host h sends to the other one.
  static roce::Packet Packet(size_t h, roce::Opcode opcode, uint32_t psn, std::span<const uint8_t> payload) {
    roce::Packet packet;
    packet.src_ip = HostIp(h);
    packet.dst_ip = HostIp(1 - h);
    packet.bth.opcode = opcode;
    packet.bth.dest_qp = BorneQpn(h);
    packet.bth.psn = Psn(psn);
    packet.bth.ack_req = true;
    packet.payload = payload;
    return packet;
  }
  // To the other host's MAC address, unless another is given.
  static Bytes Frame(size_t h, const roce::Packet& packet, std::optional<uint16_t> vlan = std::nullopt,
                     std::optional<roce::MacAddress> to = std::nullopt) {
    Bytes frame(roce::MaxFrameBytes(4096));
    frame.resize(roce::WriteFrame({.dst = to.value_or(HostMac(1 - h)),
                                   .src = HostMac(h),
                                   .ip_id = static_cast<uint16_t>(packet.bth.psn.raw()),
                                   .vlan = vlan},
                                  packet, frame));
    return frame;
  }
  static Bytes Control(size_t h, std::optional<roce::MacAddress> to = std::nullopt) {
    const ControlHeader header{.collective = Collective::kAllReduce,
                               .op = ReduceOp::kSum,
                               .type = DataType::kInt32,
                               .count = kBornePackets * kBorneMtu / 4};
    std::array<uint8_t, kControlBytes> payload;
    Encode(header, payload);
    return Frame(h, Packet(h, roce::Opcode::kRcSendOnlyImm, 0, payload), std::nullopt, to);
  }
  static Bytes Data(size_t h, uint32_t k, int32_t value) {
    const std::vector<int32_t> values(kBorneMtu / 4, value);
    Bytes payload(kBorneMtu);
    std::memcpy(payload.data(), values.data(), kBorneMtu);
    const auto opcode = k == 0                   ? roce::Opcode::kRcSendFirst
                        : k + 1 == kBornePackets ? roce::Opcode::kRcSendLast
                                                 : roce::Opcode::kRcSendMiddle;
    return Frame(h, Packet(h, opcode, 1 + k, payload));
  }
  static Bytes SuperFrame(size_t h, int32_t value) {
    Bytes super;
    for (uint32_t k = 0; k < kBornePackets; ++k) {
      const Bytes frame = Data(h, k, value);
      super.insert(super.end(), frame.begin() + (k == 0 ? 0 : roce::kSuperFrameHeadBytes), frame.end());
    }
    roce::MakeSuperFrameHead(super.size() - roce::kSuperFrameHeadBytes, super);
    return super;
  }

  void Receive(PortId port, const Bytes& frame) {
    sink_.sent.clear();
    switch_.OnFrame(0, port, frame, sink_);
  }
  void ReceiveSuper(PortId port, const Bytes& frame) {
    sink_.sent.clear();
    switch_.OnSuperFrame(0, port, frame, 12 + kBorneMtu + 4, sink_);
  }
  uint64_t Drops(DropReason reason) const {
    return switch_.counters().engine_drops[static_cast<size_t>(reason)];
  }
  uint64_t Bad(roce::ParseResult result) const {
    return switch_.counters().bad_roce[static_cast<size_t>(result)];
  }
  uint64_t Aggregated() { return switch_.engine().groups().at(7).counters.aggregated_packets; }
  // The frame left as it came, by the port of the other host.
  void ExpectForwarded(const Bytes& frame, PortId by = 1) {
    ASSERT_THAT(sink_.sent, SizeIs(1));
    EXPECT_EQ(sink_.sent[0].port, by);
    EXPECT_EQ(sink_.sent[0].frame, frame);
  }

  Switch switch_{
      SwitchConfig{.address = kSwitchIp, .mac = kSwitchMac, .port_count = 3, .arena_bytes = 1 << 20}};
  Sink sink_{true};
};

TEST_F(SwitchBorneTest, SumsWhatHostsSendToEachOtherAndAnswersInTheirNames) {
  Install();
  Receive(0, Control(0));
  EXPECT_THAT(sink_.sent, IsEmpty()) << "nothing of it comes to the other host";
  Receive(1, Control(1));
  for (uint32_t k = 0; k < kBornePackets; ++k) {
    Receive(0, Data(0, k, 1));
    Receive(1, Data(1, k, 10));
    ASSERT_THAT(sink_.sent, SizeIs(2));
    for (size_t h = 0; h < 2; ++h) {
      roce::FrameAddress address;
      roce::Packet packet;
      ASSERT_EQ(roce::ParseFrame(sink_.sent[h].frame, &address, &packet), roce::ParseResult::kOk);
      EXPECT_EQ(sink_.sent[h].port, h);
      EXPECT_EQ(address.src, kSwitchMac);
      EXPECT_EQ(address.dst, HostMac(h));
      EXPECT_EQ(packet.src_ip, HostIp(1 - h));
      EXPECT_EQ(packet.dst_ip, HostIp(h));
      EXPECT_EQ(packet.bth.dest_qp, Qpn{0x11});
      EXPECT_EQ(packet.bth.psn, Psn(kOutPsn + 1 + k));
      int32_t word;
      std::memcpy(&word, packet.payload.data(), 4);
      EXPECT_EQ(word, 11);
    }
  }
  EXPECT_EQ(switch_.counters().forwarded_frames, 0u);
}

// A router before the switch sends to the switch's own MAC address what is to the host's IP address.
TEST_F(SwitchBorneTest, TakesItAlsoAtItsOwnMacAddress) {
  Install();
  Receive(0, Control(0, kSwitchMac));
  EXPECT_EQ(Aggregated(), 1u);
}

TEST_F(SwitchBorneTest, WhatAnotherQueuePairIsSentIsForwarded) {
  Install();
  for (const size_t wrong : {0u, 1u, 2u}) {
    roce::Packet packet = Packet(0, roce::Opcode::kRcSendOnly, 0, {});
    if (wrong == 0) packet.bth.dest_qp = Qpn{0x11};
    if (wrong == 1) packet.src_ip = HostIp(2);
    if (wrong == 2) packet.dst_ip = HostIp(2);
    const Bytes frame = Frame(0, packet);
    Receive(0, frame);
    ExpectForwarded(frame);
  }
  EXPECT_EQ(switch_.counters().roce_packets, 0u);
}

TEST_F(SwitchBorneTest, WhatIsOnAVlanOrAFragmentIsForwarded) {
  Install();
  const roce::Packet packet = Packet(0, roce::Opcode::kRcSendOnly, 0, {});
  const Bytes tagged = Frame(0, packet, uint16_t{5});
  Receive(0, tagged);
  ExpectForwarded(tagged);
  Bytes fragment = Control(0);
  fragment[20] |= 0x20;  // more fragments
  fragment[24] = fragment[25] = 0;
  roce::StoreBe16(roce::InternetChecksum({&fragment[14], 20}), &fragment[24]);
  Receive(0, fragment);
  ExpectForwarded(fragment);
  EXPECT_EQ(switch_.counters().roce_packets, 0u);
  Receive(0, Frame(0, packet, uint16_t{0x6000}));
  EXPECT_EQ(switch_.counters().roce_packets, 1u) << "a priority is no VLAN";
}

TEST_F(SwitchBorneTest, WhatIsDamagedIsCountedAndGoesNowhere) {
  Install();
  Bytes damaged = Control(0);
  damaged[70] ^= 1;
  Receive(0, damaged);
  EXPECT_THAT(sink_.sent, IsEmpty());
  EXPECT_EQ(Bad(roce::ParseResult::kBadIcrc), 1u);
  EXPECT_EQ(Aggregated(), 0u);
  EXPECT_EQ(switch_.counters().forwarded_frames, 0u);
}

TEST_F(SwitchBorneTest, ByAnotherPortOrToTheSwitchItIsRefused) {
  Install();
  Receive(2, Control(0));
  EXPECT_EQ(Drops(DropReason::kWrongPort), 1u);
  EXPECT_THAT(sink_.sent, IsEmpty());
  roce::Packet to_switch = Packet(0, roce::Opcode::kRcSendOnly, 0, {});
  to_switch.dst_ip = kSwitchIp;
  Receive(0, Frame(0, to_switch, std::nullopt, kSwitchMac));
  EXPECT_EQ(Drops(DropReason::kStranger), 1u);
  EXPECT_THAT(sink_.sent, IsEmpty()) << "nobody answers";
  EXPECT_EQ(Aggregated(), 0u);
}

TEST_F(SwitchBorneTest, ASuperFrameIsTakenPacketByPacket) {
  Install();
  for (const size_t h : {0u, 1u}) Receive(static_cast<PortId>(h), Control(h));
  ReceiveSuper(0, SuperFrame(0, 1));
  EXPECT_THAT(sink_.sent, IsEmpty());
  ReceiveSuper(1, SuperFrame(1, 2));
  EXPECT_THAT(sink_.sent, SizeIs(2 * kBornePackets));
  EXPECT_EQ(switch_.counters().forwarded_frames, 0u);
}

// The first packet says whose a super-frame is also if it is damaged.
TEST_F(SwitchBorneTest, OfASuperFrameADamagedPacketIsInNoSum) {
  Install();
  for (const size_t h : {0u, 1u}) Receive(static_cast<PortId>(h), Control(h));
  Bytes damaged = SuperFrame(0, 1);
  damaged[roce::kSuperFrameHeadBytes + 40] ^= 1;
  ReceiveSuper(0, damaged);
  EXPECT_EQ(Bad(roce::ParseResult::kBadIcrc), 1u);
  EXPECT_EQ(switch_.counters().forwarded_frames, 0u);
  ReceiveSuper(1, SuperFrame(1, 2));
  for (const Sent& sent : sink_.sent) {
    roce::FrameAddress address;
    roce::Packet packet;
    ASSERT_EQ(roce::ParseFrame(sent.frame, &address, &packet), roce::ParseResult::kOk);
    EXPECT_EQ(packet.payload.size(), 0u) << "acknowledgements only";
  }
}

// Fails closed: what hosts send each other goes on to hosts, none of which has such a queue pair.
TEST_F(SwitchBorneTest, WithoutItsContextItForwards) {
  Install();
  switch_.engine().Remove(7, 1);
  EXPECT_FALSE(switch_.engine().bears_any());
  Receive(0, Control(0));
  ExpectForwarded(Control(0));
  ReceiveSuper(0, SuperFrame(0, 1));
  ExpectForwarded(SuperFrame(0, 1));
}

TEST_F(SwitchBorneTest, OnlyTheEndOfAHostInAModeThatDoesSoMayBearAnAddress) {
  GroupConfig config = Config();
  config.mode = Mode::kTranslated;
  EXPECT_EQ(switch_.engine().Install(config).status().message(),
            "children[0]: borne_ip: a switch bears another's address only to hosts, in modes that do so");
  config = Config();
  config.children[1].is_host = false;
  EXPECT_FALSE(switch_.engine().Install(config).ok());
  config = Config();
  config.parent = config.children[0];
  config.parent->local_qpn = Qpn{0xf00200};
  config.parent->is_host = false;
  EXPECT_FALSE(switch_.engine().Install(config).ok());
  EXPECT_FALSE(switch_.engine().bears_any());
}

}  // namespace
}  // namespace epic::engine
