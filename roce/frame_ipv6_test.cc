// Frames with IPv6: what frame_test.cc asks of those with IPv4.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "roce/frame.h"
#include "roce/frame_testing.h"
#include "roce/packet_testing.h"
#include "roce/view_ipv6.h"
#include "roce/wire.h"

namespace epic::roce {
namespace {

using Frame = std::vector<uint8_t>;

constexpr size_t kIp = 14;
constexpr size_t kUdp = kIp + Ipv6View::kBytes;
constexpr size_t kBth = kUdp + 8;

constexpr uint8_t kOne[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1};
constexpr uint8_t kOther[16] = {0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};

Frame Written(const FrameAddress& address, const Packet& packet) {
  Frame frame(FrameBytes(packet, address.vlan.has_value()));
  EXPECT_EQ(WriteFrame(address, packet, frame), frame.size());
  return frame;
}

ParseResult Parse(const Frame& frame, bool check_icrc = true) {
  FrameAddress address;
  Packet packet;
  return ParseIpv6Frame(frame, &address, &packet, check_icrc);
}

class Ipv6FrameTest : public ::testing::Test {
 protected:
  Ipv6FrameTest() {
    packet_.src_ip = Ip::Of(kOne);
    packet_.dst_ip = Ip::Of(kOther);
    packet_.udp_src_port = 0xc123;
    packet_.tos = 0x2e;
    packet_.ttl = 63;
    packet_.flow_label = 0x54321;
    packet_.bth.dest_qp = Qpn{0x010203};
    packet_.bth.psn = Psn(0xabcdef);
    packet_.payload = payload_;
  }
  Frame Make() { return Written({}, packet_); }

  const Frame payload_ = {1, 2, 3, 4, 5};
  Packet packet_;
};

TEST_F(Ipv6FrameTest, WritesTheExpectedBytes) {
  const Frame frame =
      Written({.dst = {2, 0, 0, 0, 0, 2}, .src = {2, 0, 0, 0, 0, 1}, .ip_id = 0x1234, .vlan = {}}, packet_);
  const Frame expected = {2,    0,    0,    0,    0, 2,  2,  0,  0, 0,    0,    1,    0x86, 0xdd,  // Ethernet
                          0x62, 0xe5, 0x43, 0x21, 0, 32, 17, 63,                                   // IPv6
                          0xfe, 0x80, 0,    0,    0, 0,  0,  0,  2, 0,    0,    0xff, 0xfe, 0,    0, 1,  //
                          0x20, 1,    0x0d, 0xb8, 0, 0,  0,  0,  0, 0,    0,    0,    0,    0,    0, 2,  //
                          0xc1, 0x23, 0x12, 0xb7, 0, 32, 0,  0,                        // UDP
                          0x04, 0x30, 0xff, 0xff, 0, 1,  2,  3,  0, 0xab, 0xcd, 0xef,  // BTH: pad 3
                          1,    2,    3,    4,    5, 0,  0,  0};                       // payload, pad
  ASSERT_EQ(frame.size(), expected.size() + kIcrcBytes);
  EXPECT_EQ(Frame(frame.begin(), frame.end() - kIcrcBytes), expected);
}

TEST_F(Ipv6FrameTest, ReadsBackWhatItWrote) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    Frame storage;
    Packet packet = testing::RandomPacket(random, round % 16 == 0 ? 9000 : 70, &storage);
    testing::MakeIpv6(random, &packet);
    FrameAddress address = testing::RandomAddress(random);
    address.ip_id = 0;
    Frame frame = Written(address, packet);
    ASSERT_LE(frame.size(), MaxFrameBytes(packet.payload.size()) + kIpv6MoreBytes);
    FramePieces pieces;
    WritePieces(address, packet, nullptr, &pieces);
    EXPECT_EQ(Join(pieces), frame) << "round " << round;
    const CrcShift shift((storage.size() + 3) / 4 * 4);
    Frame padded = storage;
    padded.resize(shift.bytes());
    const PayloadCrc crc{&shift, Crc32(0, padded)};
    WritePieces(address, packet, &crc, &pieces);
    EXPECT_EQ(Join(pieces), frame) << "round " << round;
    if (round % 3 == 0) frame.resize(frame.size() + 1 + random() % 20, 0xee);  // Ethernet padding
    FrameAddress parsed_address;
    Packet parsed;
    ASSERT_EQ(ParseIpv6Frame(frame, &parsed_address, &parsed), ParseResult::kOk) << "round " << round;
    EXPECT_EQ(parsed_address, address) << "round " << round;
    EXPECT_TRUE(testing::SamePacket(parsed, packet)) << "round " << round;
    EXPECT_EQ(ParseFrame(frame, &parsed_address, &parsed), ParseResult::kNotRoce) << "to a switch";
  }
}

// Those that routers may change, and the UDP checksum; the BTH's reserved byte is its fifth (A17.3.3, 7.8.1).
TEST_F(Ipv6FrameTest, TheIcrcCoversAllButWhatIsMasked) {
  const Frame frame = Make();
  for (size_t at = kIp; at < frame.size(); ++at) {
    Frame changed = frame;
    changed[at] ^= 0x0f;  // of the first byte: the upper half of the traffic class, not the version
    const bool masked =
        (at >= kIp && at < kIp + 4) || at == kIp + 7 || at == kUdp + 6 || at == kUdp + 7 || at == kBth + 4;
    EXPECT_EQ(IcrcOk(std::span(changed).subspan(kIp)), masked) << "byte " << at;
  }
}

TEST_F(Ipv6FrameTest, EveryPrefixIsTruncated) {
  const Frame frame = Make();
  for (size_t bytes = 0; bytes < frame.size(); ++bytes) {
    EXPECT_EQ(Parse(Frame(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(bytes))),
              ParseResult::kTruncated)
        << bytes;
  }
}

TEST_F(Ipv6FrameTest, WhatIsBrokenIsToldApart) {
  const Frame frame = Make();
  const auto with = [&frame](size_t at, uint8_t byte) {
    Frame changed = frame;
    changed[at] = byte;
    return changed;
  };
  EXPECT_EQ(Parse(frame), ParseResult::kOk);
  EXPECT_EQ(Parse(with(kIp, 0x42)), ParseResult::kBadIpHeader) << "version";
  EXPECT_EQ(Parse(with(kIp + 6, 44)), ParseResult::kNotRoce) << "a fragment";
  EXPECT_EQ(Parse(with(kIp + 6, 58)), ParseResult::kNotRoce) << "ICMPv6";
  EXPECT_EQ(Parse(with(kUdp + 3, 0xb8)), ParseResult::kNotRoce) << "port";
  EXPECT_EQ(Parse(with(kUdp + 5, 31)), ParseResult::kBadLength) << "UDP's length";
  EXPECT_EQ(Parse(with(kIp + 5, 31)), ParseResult::kBadLength) << "IP's length";
  EXPECT_EQ(Parse(with(kIp + 5, 33)), ParseResult::kTruncated) << "IP's length";
  EXPECT_EQ(Parse(with(kBth, 0xff)), ParseResult::kUnknownOpcode);
  EXPECT_EQ(Parse(with(kBth + 1, 0x31)), ParseResult::kBadTver);
  EXPECT_EQ(Parse(with(frame.size() - 1, frame.back() ^ 1)), ParseResult::kBadIcrc);
  EXPECT_EQ(Parse(with(frame.size() - 1, frame.back() ^ 1), false), ParseResult::kOk);
  Frame tiny = frame;
  StoreBe16(8 + 12, &tiny[kIp + 4]);
  StoreBe16(8 + 12, &tiny[kUdp + 4]);
  EXPECT_EQ(Parse(tiny), ParseResult::kBadLength) << "no room for an ICRC";
}

// ::ffff:10.0.0.1 on the wire is no way to be taken for a packet of 10.0.0.1.
TEST_F(Ipv6FrameTest, AMappedAddressIsRefused) {
  for (const size_t at : {kIp + 8, kIp + 24}) {
    Frame frame = Make();
    std::ranges::copy(Ip(Ipv4{0x0a000001}).bytes(), frame.begin() + static_cast<std::ptrdiff_t>(at));
    EXPECT_EQ(Parse(frame, false), ParseResult::kBadIpHeader);
  }
}

}  // namespace
}  // namespace epic::roce
