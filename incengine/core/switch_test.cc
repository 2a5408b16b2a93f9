// Frames in, frames out: what a switch does with whatever comes in by a port.
#include "incengine/core/switch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "incengine/core/echo.h"
#include "incengine/core/echo_testing.h"
#include "incengine/core/switch_testing.h"
#include "protocol/control.h"
#include "roce/arp.h"
#include "roce/frame_testing.h"
#include "roce/view.h"

namespace epic::engine {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using testing::HostIp;
using testing::HostMac;
using ::testing::IsEmpty;
using testing::kSwitchIp;
using testing::kSwitchMac;
using testing::Sent;
using testing::Sink;
using ::testing::SizeIs;

constexpr uint32_t kMtu = 256;

Qpn SwitchQpn(size_t n) { return Qpn{static_cast<uint32_t>(0x100 + n)}; }

class SwitchTest : public ::testing::Test {
 protected:
  void Receive(PortId port, const Bytes& frame) {
    sink_.sent.clear();
    switch_.OnFrame(now_, port, frame, sink_);
  }
  uint64_t Drops(FrameDrop reason) const {
    return switch_.counters().frame_drops[static_cast<size_t>(reason)];
  }
  uint64_t Drops(DropReason reason) const {
    return switch_.counters().engine_drops[static_cast<size_t>(reason)];
  }
  uint64_t Bad(roce::ParseResult result) const {
    return switch_.counters().bad_roce[static_cast<size_t>(result)];
  }

  // A star of two hosts on ports 0 and 1.
  void InstallStar() {
    GroupConfig config{{.group_id = 7,
                        .generation = 1,
                        .name = "star",
                        .world_size = 2,
                        .path_mtu = kMtu,
                        .message_packets = 1,
                        .window_messages = 4,
                        .slots = 8}};
    for (size_t h = 0; h < 2; ++h) {
      config.children.push_back({.local_qpn = SwitchQpn(h),
                                 .remote_ip = HostIp(h),
                                 .remote_qpn = Qpn{0x11},
                                 .remote_mac = HostMac(h),
                                 .port = static_cast<PortId>(h),
                                 .is_host = true,
                                 .ranks = {static_cast<uint32_t>(h)}});
    }
    const auto installed = switch_.engine().Install(config);
    ASSERT_TRUE(installed.ok()) << installed.status();
  }

  Switch switch_{
      SwitchConfig{.address = kSwitchIp, .mac = kSwitchMac, .port_count = 3, .arena_bytes = 1 << 20}};
  Sink sink_;
  Nanos now_ = 0;
};

Bytes Frame(const roce::MacAddress& dst, const roce::MacAddress& src, uint16_t type, size_t payload = 50) {
  Bytes frame(14 + payload, 0x5a);
  roce::EthernetHeader{dst, src, std::nullopt, type}.Write(frame.data());
  return frame;
}

Bytes ArpRequest(size_t host, Ipv4 target, std::optional<uint16_t> vlan = std::nullopt) {
  Bytes frame(roce::kMaxArpFrameBytes);
  frame.resize(roce::WriteArp({.dst = roce::kBroadcastMac,
                               .src = HostMac(host),
                               .vlan = vlan,
                               .op = roce::ArpOp::kRequest,
                               .sender_mac = HostMac(host),
                               .sender_ip = HostIp(host),
                               .target_mac = {},
                               .target_ip = target},
                              frame));
  return frame;
}

roce::Packet HostPacket(size_t host, roce::Opcode opcode, Psn psn, std::span<const uint8_t> payload) {
  roce::Packet packet;
  packet.src_ip = HostIp(host);
  packet.dst_ip = kSwitchIp;
  packet.udp_src_port = 0xc123;
  packet.bth.opcode = opcode;
  packet.bth.dest_qp = SwitchQpn(host);
  packet.bth.psn = psn;
  packet.bth.ack_req = true;
  packet.payload = payload;
  return packet;
}

Bytes RoceFrame(size_t host, const roce::Packet& packet, std::optional<uint16_t> vlan = std::nullopt) {
  Bytes frame(roce::MaxFrameBytes(4096));
  frame.resize(
      roce::WriteFrame({.dst = kSwitchMac, .src = HostMac(host), .ip_id = 9, .vlan = vlan}, packet, frame));
  return frame;
}

// Control packet of an AllReduce of 64 INT32, which is one data packet, or one of a Barrier.
Bytes ControlFrame(size_t host, Collective collective) {
  ControlHeader header;
  header.collective = collective;
  if (collective == Collective::kAllReduce) {
    header.op = ReduceOp::kSum;
    header.type = DataType::kInt32;
    header.count = 64;
  }
  std::array<uint8_t, kControlBytes> payload{};
  Encode(header, payload);
  return RoceFrame(host, HostPacket(host, roce::Opcode::kRcSendOnlyImm, Psn(0), payload));
}

Bytes EchoRequest(size_t host, size_t data) {
  const size_t ip_bytes = 20 + 8 + data;
  Bytes frame(14 + ip_bytes + data % 2);  // even for the checksum, cut below
  roce::EthernetHeader{kSwitchMac, HostMac(host), std::nullopt, roce::kEtherTypeIpv4}.Write(frame.data());
  roce::Ipv4Header{
      .total_length = static_cast<uint16_t>(ip_bytes), .protocol = 1, .src = HostIp(host), .dst = kSwitchIp}
      .Write(&frame[14]);
  uint8_t* icmp = &frame[34];
  icmp[0] = 8;
  for (size_t i = 4; i < 8 + data; ++i) icmp[i] = static_cast<uint8_t>(i * 37);
  roce::StoreBe16(roce::InternetChecksum({icmp, 8 + data + data % 2}), icmp + 2);
  frame.resize(14 + ip_bytes);
  return frame;
}

TEST_F(SwitchTest, AnswersArpForItsOwnAddress) {
  for (const std::optional<uint16_t> vlan : {std::optional<uint16_t>{}, std::optional<uint16_t>{5}}) {
    Receive(1, ArpRequest(1, kSwitchIp, vlan));
    ASSERT_THAT(sink_.sent, SizeIs(1));
    EXPECT_EQ(sink_.sent[0].port, 1);
    const auto reply = roce::ParseArp(sink_.sent[0].frame);
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->op, roce::ArpOp::kReply);
    EXPECT_EQ(reply->sender_ip, kSwitchIp);
    EXPECT_EQ(reply->sender_mac, kSwitchMac);
    EXPECT_EQ(reply->dst, HostMac(1));
    EXPECT_EQ(reply->vlan, vlan);
  }
}

TEST_F(SwitchTest, AnswersArpForTheTablesAddressesButNotToTheirOwnPort) {
  ASSERT_TRUE(switch_.forwarding()
                  .SetTable({.entries = {{HostMac(2), HostIp(2), 2}}, .flood_ports = {0, 1, 2}})
                  .ok());
  Receive(0, ArpRequest(0, HostIp(2)));
  ASSERT_THAT(sink_.sent, SizeIs(1));
  EXPECT_EQ(sink_.sent[0].port, 0);
  EXPECT_EQ(roce::ParseArp(sink_.sent[0].frame)->sender_mac, HostMac(2));
  // Host 2 asks whether its address is free: an answer would tell it that it is not.
  Receive(2, ArpRequest(2, HostIp(2)));
  for (const Sent& sent : sink_.sent) EXPECT_NE(sent.port, 2);
}

TEST_F(SwitchTest, OtherArpIsForwarded) {
  Receive(0, ArpRequest(0, HostIp(9)));
  EXPECT_THAT(sink_.sent, SizeIs(2));
  EXPECT_EQ(switch_.counters().arp_replies, 0u);
}

TEST_F(SwitchTest, ForwardsFramesUnchanged) {
  Receive(1, Frame(roce::kBroadcastMac, HostMac(1), 0x88cc));
  Bytes jumbo = Frame(HostMac(1), HostMac(0), 0x86dd, 9000);
  Receive(0, jumbo);
  ASSERT_THAT(sink_.sent, SizeIs(1));
  EXPECT_EQ(sink_.sent[0].port, 1);
  EXPECT_EQ(sink_.sent[0].frame, jumbo);
  Bytes tagged(64, 1);
  roce::EthernetHeader{HostMac(1), HostMac(0), uint16_t{0x2005}, roce::kEtherTypeIpv4}.Write(tagged.data());
  Receive(0, tagged);
  ASSERT_THAT(sink_.sent, SizeIs(1));
  EXPECT_EQ(sink_.sent[0].frame, tagged);
  EXPECT_EQ(switch_.counters().forwarded_frames, 3u);
  EXPECT_EQ(switch_.counters().flooded_frames, 1u);
}

TEST_F(SwitchTest, RoceOfOthersIsOrdinaryTraffic) {
  Receive(1, Frame(roce::kBroadcastMac, HostMac(1), 0x88cc));
  roce::Packet packet = HostPacket(0, roce::Opcode::kRcSendOnly, Psn(1), {});
  packet.dst_ip = HostIp(1);
  Bytes frame(roce::MaxFrameBytes(0));
  frame.resize(
      roce::WriteFrame({.dst = HostMac(1), .src = HostMac(0), .ip_id = 1, .vlan = {}}, packet, frame));
  frame.back() ^= 1;  // and its ICRC is none of our business
  Receive(0, frame);
  ASSERT_THAT(sink_.sent, SizeIs(1));
  EXPECT_EQ(sink_.sent[0].frame, frame);
  EXPECT_EQ(Bad(roce::ParseResult::kBadIcrc), 0u);
}

TEST_F(SwitchTest, AnswersPing) {
  for (const size_t data : {0u, 1u, 56u, 8000u}) {
    const Bytes request = EchoRequest(2, data);
    Receive(2, request);
    ASSERT_THAT(sink_.sent, SizeIs(1));
    EXPECT_EQ(sink_.sent[0].port, 2);
    const Bytes& reply = sink_.sent[0].frame;
    ExpectEchoOf(request, reply);
    EXPECT_EQ(reply[34], 0);  // echo reply
    Bytes icmp(reply.begin() + 34, reply.end());
    icmp.resize((icmp.size() + 1) / 2 * 2);
    EXPECT_EQ(roce::InternetChecksum(icmp), 0);
  }
}

TEST_F(SwitchTest, DropsWhatIsToItselfAndNotUnderstood) {
  Receive(0, Frame(kSwitchMac, HostMac(0), 0x86dd));
  EXPECT_THAT(sink_.sent, IsEmpty());
  EXPECT_EQ(Drops(FrameDrop::kNotForSwitch), 1u);
  Bytes broken = EchoRequest(0, 56);
  broken[16] = 0xff;  // a total length beyond the frame
  Receive(0, broken);
  Bytes cut = EchoRequest(0, 56);
  cut.resize(40);
  Receive(0, cut);
  EXPECT_THAT(sink_.sent, IsEmpty());
  EXPECT_EQ(Drops(FrameDrop::kNotForSwitch), 3u);
}

TEST_F(SwitchTest, DropsRuntsAndItsOwnFrames) {
  Receive(0, Bytes(13, 0));
  EXPECT_EQ(Drops(FrameDrop::kRunt), 1u);
  Receive(0, Frame(roce::kBroadcastMac, kSwitchMac, 0x0800));
  EXPECT_EQ(Drops(FrameDrop::kOwnSource), 1u);
  EXPECT_THAT(sink_.sent, IsEmpty());
}

TEST_F(SwitchTest, CountsBadRoceByReason) {
  InstallStar();
  const Bytes good = ControlFrame(0, Collective::kBarrier);
  Bytes bad_icrc = good;
  bad_icrc[60] ^= 1;
  Receive(0, bad_icrc);
  EXPECT_EQ(Bad(roce::ParseResult::kBadIcrc), 1u);
  Bytes truncated = good;
  truncated.resize(good.size() - 1);
  Receive(0, truncated);
  EXPECT_EQ(Bad(roce::ParseResult::kTruncated), 1u);
  EXPECT_EQ(switch_.counters().roce_packets, 0u);
  EXPECT_THAT(sink_.sent, IsEmpty());
  EXPECT_EQ(switch_.engine().groups().at(7).counters.aggregated_packets, 0u);
}

TEST_F(SwitchTest, CountsWhatTheEngineRefuses) {
  InstallStar();
  roce::Packet unknown = HostPacket(0, roce::Opcode::kRcSendOnly, Psn(0), {});
  unknown.bth.dest_qp = Qpn{0xabc};
  Receive(0, RoceFrame(0, unknown));
  EXPECT_EQ(Drops(DropReason::kUnknownQpn), 1u);
  roce::Packet stranger = HostPacket(0, roce::Opcode::kRcSendOnly, Psn(0), {});
  stranger.src_ip = HostIp(5);
  Receive(0, RoceFrame(0, stranger));
  EXPECT_EQ(Drops(DropReason::kStranger), 1u);
  EXPECT_THAT(sink_.sent, IsEmpty());
}

TEST_F(SwitchTest, RoceInAVlanIsNotForTheEngine) {
  const roce::Packet packet = HostPacket(0, roce::Opcode::kRcSendOnly, Psn(0), {});
  Receive(0, RoceFrame(0, packet, uint16_t{5}));
  EXPECT_EQ(Drops(FrameDrop::kTaggedRoce), 1u);
  Receive(0, RoceFrame(0, packet, uint16_t{0x6000}));  // a priority only
  EXPECT_EQ(Drops(FrameDrop::kTaggedRoce), 1u);
  EXPECT_EQ(Drops(DropReason::kUnknownQpn), 1u);
}

TEST_F(SwitchTest, RoceToTheSwitchsMacButAnotherAddressIsDropped) {
  roce::Packet packet = HostPacket(0, roce::Opcode::kRcSendOnly, Psn(0), {});
  packet.dst_ip = HostIp(1);
  Receive(0, RoceFrame(0, packet));
  EXPECT_EQ(Drops(FrameDrop::kNotForSwitch), 1u);
}

TEST_F(SwitchTest, AHostCannotSpeakAsAnotherByItsOwnPort) {
  InstallStar();
  // Host 1 knows MAC, address, QPN and PSN of host 0.
  Receive(1, ControlFrame(0, Collective::kBarrier));
  EXPECT_EQ(Drops(DropReason::kWrongPort), 1u);
  EXPECT_EQ(switch_.engine().groups().at(7).counters.aggregated_packets, 0u);
  EXPECT_THAT(sink_.sent, IsEmpty());
}

TEST_F(SwitchTest, SumsAndSendsFramesWithAValidIcrc) {
  InstallStar();
  for (size_t h = 0; h < 2; ++h) Receive(static_cast<PortId>(h), ControlFrame(h, Collective::kAllReduce));
  ASSERT_THAT(sink_.sent, SizeIs(2));  // the control reply
  for (size_t h = 0; h < 2; ++h) {
    std::array<int32_t, kMtu / 4> values;
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i + (h == 0 ? 0 : 1000));
    std::array<uint8_t, kMtu> payload;
    std::memcpy(payload.data(), values.data(), kMtu);
    Receive(static_cast<PortId>(h), RoceFrame(h, HostPacket(h, roce::Opcode::kRcSendOnly, Psn(1), payload)));
  }
  ASSERT_THAT(sink_.sent, SizeIs(2));
  for (const Sent& sent : sink_.sent) {
    roce::FrameAddress address;
    roce::Packet packet;
    ASSERT_EQ(roce::ParseFrame(sent.frame, &address, &packet), roce::ParseResult::kOk);  // its ICRC too
    EXPECT_EQ(address.src, kSwitchMac);
    EXPECT_EQ(address.dst, HostMac(sent.port));
    EXPECT_EQ(packet.src_ip, kSwitchIp);
    ASSERT_EQ(packet.payload.size(), kMtu);
    for (size_t i = 0; i < kMtu / 4; ++i) {
      EXPECT_EQ(roce::LoadLe32(&packet.payload[4 * i]), 2 * i + 1000);
    }
  }
  EXPECT_EQ(switch_.counters().roce_packets, 4u);
}

TEST_F(SwitchTest, PassesTimersBothWays) {
  InstallStar();
  // One host is ahead of the other: the engine wants to prompt the other one later.
  Receive(0, ControlFrame(0, Collective::kBarrier));
  ASSERT_FALSE(sink_.timers.empty());
  const auto [id, deadline] = sink_.timers.back();
  EXPECT_GT(deadline, now_);
  sink_.sent.clear();
  switch_.OnTimer(deadline, id, sink_);
  ASSERT_THAT(sink_.sent, SizeIs(1));
  EXPECT_EQ(sink_.sent[0].port, 1);
}

TEST_F(SwitchTest, ACopyIsASnapshot) {
  InstallStar();
  Receive(0, ControlFrame(0, Collective::kBarrier));
  Switch copy = switch_;
  Receive(1, ControlFrame(1, Collective::kBarrier));
  Sink other;
  copy.OnFrame(now_, 1, ControlFrame(1, Collective::kBarrier), other);
  ASSERT_EQ(other.sent.size(), sink_.sent.size());
  for (size_t i = 0; i < other.sent.size(); ++i) EXPECT_EQ(other.sent[i].frame, sink_.sent[i].frame);
}

TEST_F(SwitchTest, CountsFramesPerPort) {
  Receive(1, Frame(roce::kBroadcastMac, HostMac(1), 0x88cc));
  const auto& ports = switch_.port_counters();
  EXPECT_EQ(ports[1].rx_frames, 1u);
  EXPECT_EQ(ports[1].rx_bytes, 64u);
  EXPECT_EQ(ports[1].tx_frames, 0u);
  EXPECT_EQ(ports[0].tx_frames, 1u);
  EXPECT_EQ(ports[2].tx_bytes, 64u);
}

}  // namespace
}  // namespace epic::engine
