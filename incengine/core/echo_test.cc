// UDP echoes to the switch, and the switch's own requests to others.
#include "incengine/core/echo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "incengine/core/echo_testing.h"
#include "incengine/core/switch.h"
#include "incengine/core/switch_testing.h"
#include "roce/arp.h"
#include "roce/view.h"

namespace epic::engine {
namespace {

using testing::Bytes;
using testing::HostIp;
using testing::HostMac;
using testing::kSwitchIp;
using testing::kSwitchMac;
using testing::Sent;
using testing::Sink;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EchoTest : public ::testing::Test {
 protected:
  void Receive(PortId port, const Bytes& frame) {
    sink_.sent.clear();
    switch_.OnFrame(0, port, frame, sink_);
  }
  uint64_t NotForSwitch() const {
    return switch_.counters().frame_drops[static_cast<size_t>(FrameDrop::kNotForSwitch)];
  }

  Switch switch_{{.address = kSwitchIp, .mac = kSwitchMac, .port_count = 3, .arena_bytes = 0}};
  Sink sink_;
};

// A UDP datagram from a host to the switch.
Bytes Datagram(size_t host, uint16_t src_port, uint16_t dst_port, size_t data) {
  const size_t udp_bytes = 8 + data;
  Bytes frame(14 + 20 + udp_bytes, 0x5a);
  roce::EthernetHeader{kSwitchMac, HostMac(host), std::nullopt, roce::kEtherTypeIpv4}.Write(frame.data());
  roce::Ipv4Header{
      .total_length = static_cast<uint16_t>(20 + udp_bytes), .src = HostIp(host), .dst = kSwitchIp}
      .Write(&frame[14]);
  roce::UdpHeader{src_port, dst_port, static_cast<uint16_t>(udp_bytes)}.Write(&frame[34]);
  return frame;
}

TEST_F(EchoTest, AnswersUdpEcho) {
  for (const size_t data : {0u, 16u, 1001u}) {
    Bytes request = Datagram(2, 40000, kUdpEchoPort, data);
    roce::StoreBe16(0x1234, &request[40]);  // a checksum: unchanged, for the sum is the same
    Receive(2, request);
    ASSERT_THAT(sink_.sent, SizeIs(1));
    EXPECT_EQ(sink_.sent[0].port, 2);
    const Bytes& reply = sink_.sent[0].frame;
    ExpectEchoOf(request, reply);
    const auto udp = roce::UdpView::Of(std::span(reply).subspan(34));
    EXPECT_EQ(udp->src_port(), kUdpEchoPort);
    EXPECT_EQ(udp->dst_port(), 40000);
  }
}

TEST_F(EchoTest, NoUdpEchoForOtherServersPortsOrBrokenDatagrams) {
  Receive(0, Datagram(0, kUdpEchoPort, kUdpEchoPort, 16));  // would go round for ever
  Receive(0, Datagram(0, 1023, kUdpEchoPort, 16));
  Receive(0, Datagram(0, 40000, 9, 16));
  Bytes broken = Datagram(0, 40000, kUdpEchoPort, 16);
  broken[38] = 1;  // a length beyond the packet
  Receive(0, broken);
  Bytes fragment = Datagram(0, 40000, kUdpEchoPort, 16);
  roce::Ipv4Header{.total_length = 44, .src = HostIp(0), .dst = kSwitchIp}.Write(&fragment[14]);
  fragment[20] = 0x20;  // more fragments; the checksum is mended below
  roce::StoreBe16(0, &fragment[24]);
  roce::StoreBe16(roce::InternetChecksum(std::span(fragment).subspan(14, 20)), &fragment[24]);
  Receive(0, fragment);
  EXPECT_THAT(sink_.sent, IsEmpty());
  EXPECT_EQ(NotForSwitch(), 5u);
  Receive(
      0, Datagram(0, roce::kUdpPort, kUdpEchoPort, 16));  // the answer would be a RoCE packet of the switch's
  EXPECT_THAT(sink_.sent, IsEmpty());
  EXPECT_EQ(NotForSwitch(), 6u);
}

class ProbeTest : public EchoTest {
 protected:
  static constexpr Ipv4 kOtherIp{0x0a00ff02};
  static constexpr roce::MacAddress kOtherMac = {0x02, 0, 0, 0, 0xff, 2};

  // What the request before was worth; the new request's frame is taken.
  ProbeAnswer Ask(Ipv4 ip = kOtherIp) {
    sink_.sent.clear();
    const ProbeAnswer answer = switch_.Probe({ip, kOtherMac, 1}, sink_);
    EXPECT_THAT(sink_.sent, SizeIs(1));
    EXPECT_EQ(sink_.sent[0].port, 1);
    request_ = sink_.sent[0].frame;
    return answer;
  }
  Bytes EchoOfOther(const Bytes& request) {
    Switch other({.address = kOtherIp, .mac = kOtherMac, .port_count = 1, .arena_bytes = 0});
    Sink sink;
    other.OnFrame(0, 0, request, sink);
    EXPECT_THAT(sink.sent, SizeIs(1));
    return sink.sent.empty() ? Bytes() : sink.sent[0].frame;
  }

  Bytes request_;
};

TEST_F(ProbeTest, SaysWhatBecameOfTheRequestsBefore) {
  EXPECT_FALSE(Ask().asked);
  Receive(1, EchoOfOther(request_));
  EXPECT_THAT(sink_.sent, IsEmpty());
  EXPECT_EQ(NotForSwitch(), 0u);
  // The first request is the newest with an echo, until it is too old.
  for (uint32_t ask = 1; ask <= EchoHistory::kRequests + 1; ++ask) {
    const ProbeAnswer answer = Ask();
    EXPECT_TRUE(answer.asked);
    EXPECT_EQ(answer.answered, ask <= EchoHistory::kRequests ? ask : 0u);
  }
}

TEST_F(ProbeTest, AnEchoMayBeLate) {
  std::vector<Bytes> echoes;
  constexpr size_t kLast = EchoHistory::kRequests + 1;
  for (size_t i = 0; i <= kLast; ++i) {
    EXPECT_EQ(Ask().answered, 0u);
    echoes.push_back(EchoOfOther(request_));
  }
  Receive(1, echoes[1]);
  EXPECT_EQ(NotForSwitch(), 1u) << "older than the last requests that it knows";
  EXPECT_EQ(Ask().answered, 0u);
  Receive(1, echoes[kLast - 1]);
  EXPECT_EQ(Ask().answered, 3u);
  Receive(1, echoes[kLast]);
  Receive(1, echoes[kLast - 1]);
  EXPECT_EQ(NotForSwitch(), 1u);
  EXPECT_EQ(Ask().answered, 3u) << "the older one was overtaken";
}

TEST_F(ProbeTest, AnEchoOfAnotherIsNone) {
  Ask();
  Bytes forged = EchoOfOther(request_);
  Ask(Ipv4{0x0a00ff03});
  roce::Ipv4Header{.total_length = 44, .src = Ipv4{0x0a00ff04}, .dst = kSwitchIp}.Write(&forged[14]);
  Receive(1, forged);
  EXPECT_EQ(NotForSwitch(), 1u);
  EXPECT_EQ(Ask().answered, 0u);
  EXPECT_EQ(Ask(Ipv4{0x0a00ff03}).answered, 0u);
}

TEST_F(ProbeTest, AnEchoByAnotherPortIsForged) {
  Ask();
  const Bytes echo = EchoOfOther(request_);
  Receive(0, echo);
  EXPECT_EQ(NotForSwitch(), 1u);
  EXPECT_EQ(Ask().answered, 0u);
}

// A host's kernel answers ARP, whatever it lets through.
TEST_F(ProbeTest, AHostIsAskedByArp) {
  const ProbeTarget host{.ip = kOtherIp, .mac = kOtherMac, .port = 1, .by_arp = true};
  const auto ask = [&] {
    sink_.sent.clear();
    const uint32_t answered = switch_.Probe(host, sink_).answered;
    EXPECT_THAT(sink_.sent, SizeIs(1));
    return answered;
  };
  ask();
  const auto request = roce::ParseArp(sink_.sent[0].frame);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->dst, kOtherMac);
  EXPECT_EQ(request->target_ip, kOtherIp);
  EXPECT_EQ(request->op, roce::ArpOp::kRequest);
  const auto answer = [&](PortId port, const roce::Arp& arp) {
    Bytes frame(roce::kMaxArpFrameBytes);
    frame.resize(roce::WriteArp(arp, frame));
    Receive(port, frame);
  };
  const roce::Arp right = roce::ArpReplyTo(*request, kOtherMac);
  answer(0, right);
  EXPECT_EQ(ask(), 0u) << "by another port";
  roce::Arp forged = roce::ArpReplyTo(*request, {2, 0, 0, 0, 0, 9});
  answer(1, forged);
  EXPECT_EQ(ask(), 0u) << "of another MAC";
  forged = right;
  forged.op = roce::ArpOp::kRequest;
  answer(1, forged);
  EXPECT_EQ(ask(), 0u) << "no answer";
  forged = right;
  forged.sender_ip = Ipv4{0x0a00ff09};
  answer(1, forged);
  EXPECT_EQ(ask(), 0u) << "nobody has asked for it";
  answer(1, right);
  EXPECT_EQ(ask(), 1u);
  EXPECT_EQ(ask(), 2u);
}

TEST_F(ProbeTest, KeepsABoundedNumberOfTargets) {
  for (uint32_t i = 0; i < 300; ++i) EXPECT_FALSE(Ask(Ipv4{i + 1}).asked);
  EXPECT_TRUE(Ask(Ipv4{300}).asked);
  EXPECT_TRUE(Ask(Ipv4{45}).asked);
  EXPECT_FALSE(Ask(Ipv4{44}).asked) << "300 - 256: the oldest were forgotten";
}

}  // namespace
}  // namespace epic::engine
