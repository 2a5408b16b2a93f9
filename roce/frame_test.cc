#include "roce/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "roce/frame_testing.h"
#include "roce/packet_testing.h"
#include "roce/view.h"
#include "roce/wire.h"

namespace epic::roce {
namespace {

using Frame = std::vector<uint8_t>;

constexpr size_t kIp = 14;  // where headers lie in an untagged frame
constexpr size_t kUdp = kIp + 20;
constexpr size_t kBth = kUdp + 8;

Frame Written(const FrameAddress& address, const Packet& packet) {
  Frame frame(FrameBytes(packet, address.vlan.has_value()));
  EXPECT_EQ(WriteFrame(address, packet, frame), frame.size());
  return frame;
}

ParseResult Parse(const Frame& frame, bool check_icrc = true) {
  FrameAddress address;
  Packet packet;
  return ParseFrame(frame, &address, &packet, check_icrc);
}

// Makes checksum and ICRC of an untagged frame right again after a change of its headers.
void Mend(Frame* frame) {
  const std::span<uint8_t> ip = std::span(*frame).subspan(kIp);
  StoreBe16(0, &ip[10]);
  StoreBe16(InternetChecksum(ip.first(20)), &ip[10]);
  StoreLe32(Icrc(ip), &ip[ip.size() - kIcrcBytes]);
}

// An untagged frame of one opcode and payload.
class FrameTest : public ::testing::Test {
 protected:
  Frame Make(Opcode opcode, size_t payload) {
    payload_.assign(payload, 0xa5);
    Packet packet;
    packet.src_ip = Ipv4{0x0a000001};
    packet.dst_ip = Ipv4{0x0a000002};
    packet.udp_src_port = 0xc123;
    packet.bth.opcode = opcode;
    packet.bth.dest_qp = Qpn{0x11};
    packet.bth.psn = Psn(0xfffffe);
    packet.payload = payload_;
    return Written({}, packet);
  }
  Frame payload_;
};

TEST_F(FrameTest, WritesTheExpectedBytes) {
  Packet packet;
  packet.src_ip = Ipv4{0x0a000001};
  packet.dst_ip = Ipv4{0x0a000002};
  packet.udp_src_port = 0xc123;
  packet.tos = 0x02;
  packet.ttl = 63;
  packet.bth = {.opcode = Opcode::kRcSendOnlyImm,
                .solicited = true,
                .mig_req = true,
                .fecn = false,
                .becn = true,
                .pkey = 0xffff,
                .dest_qp = Qpn{0x010203},
                .ack_req = true,
                .psn = Psn(0xabcdef)};
  packet.imm = 0x11223344;
  const Frame payload = {1, 2, 3, 4, 5};
  packet.payload = payload;
  const FrameAddress address = {
      .dst = {2, 0, 0, 0, 0, 2}, .src = {2, 0, 0, 0, 0, 1}, .ip_id = 0x1234, .vlan = {}};
  const Frame frame = Written(address, packet);
  const Frame expected = {
      2,    0,    0,    0,    0,    2,    2,    0, 0,    0,    0,    1,    0x08, 0x00,  // Ethernet
      0x45, 0x02, 0,    56,   0x12, 0x34, 0x40, 0, 63,   17,   0x15, 0x7d, 10,   0,
      0,    1,    10,   0,    0,    2,                                      // IPv4
      0xc1, 0x23, 0x12, 0xb7, 0,    36,   0,    0,                          // UDP
      0x05, 0xf0, 0xff, 0xff, 0x40, 1,    2,    3, 0x80, 0xab, 0xcd, 0xef,  // BTH: SE, M, pad 3
      0x11, 0x22, 0x33, 0x44,                                               // ImmDt
      1,    2,    3,    4,    5,    0,    0,    0};                         // payload, pad
  ASSERT_EQ(frame.size(), expected.size() + kIcrcBytes);
  EXPECT_EQ(Frame(frame.begin(), frame.end() - kIcrcBytes), expected);
  EXPECT_TRUE(IcrcOk(std::span(frame).subspan(kIp)));
}

TEST_F(FrameTest, ReadsBackWhatItWrote) {
  std::random_device device;
  const uint64_t seed = device();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::set<Opcode> seen;
  for (int round = 0; round < 3000; ++round) {
    Frame storage;
    const Packet packet = testing::RandomPacket(random, round % 16 == 0 ? 9000 : 70, &storage);
    const FrameAddress address = testing::RandomAddress(random);
    seen.insert(packet.bth.opcode);
    Frame frame = Written(address, packet);
    ASSERT_LE(frame.size(), MaxFrameBytes(packet.payload.size()));
    if (round % 3 == 0) frame.resize(frame.size() + 1 + random() % 20, 0xee);  // Ethernet padding
    FrameAddress parsed_address;
    Packet parsed;
    ASSERT_EQ(ParseFrame(frame, &parsed_address, &parsed), ParseResult::kOk) << "round " << round;
    EXPECT_EQ(parsed_address, address) << "round " << round;
    EXPECT_TRUE(testing::SamePacket(parsed, packet)) << "round " << round;
  }
  EXPECT_EQ(seen.size(), 38u);  // every known opcode
}

TEST_F(FrameTest, PayloadCrcMakesTheSameFrame) {
  std::random_device device;
  const uint64_t seed = device();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    Frame storage;
    const Packet packet = testing::RandomPacket(random, 1100, &storage);
    const FrameAddress address = testing::RandomAddress(random);
    Frame padded = storage;
    padded.resize((storage.size() + 3) / 4 * 4);
    const CrcShift shift(padded.size());
    const PayloadCrc crc{&shift, Crc32(0, padded)};
    FramePieces pieces;
    WritePieces(address, packet, &crc, &pieces);
    EXPECT_EQ(Join(pieces), Written(address, packet)) << "round " << round;
    WritePieces(address, packet, nullptr, &pieces);
    EXPECT_EQ(Join(pieces), Written(address, packet)) << "round " << round;
  }
}

// What the ICRC and the IP checksum cover, between them everything but Ethernet, the UDP checksum, FECN, BECN
// and the reserved bits beside them.
TEST_F(FrameTest, CatchesEverySingleBitFlip) {
  const Frame good = Make(Opcode::kRcWriteOnlyImm, 33);
  for (size_t bit = kIp * 8; bit < good.size() * 8; ++bit) {
    const size_t byte = bit / 8;
    Frame bad = good;
    bad[byte] ^= static_cast<uint8_t>(1 << bit % 8);
    const bool free = byte == kUdp + 6 || byte == kUdp + 7 || byte == kBth + 4;
    EXPECT_EQ(Parse(bad) == ParseResult::kOk, free) << "byte " << byte << " bit " << bit % 8;
  }
}

TEST_F(FrameTest, RoutersMayChangeTtlAndTos) {
  Frame frame = Make(Opcode::kRcSendOnly, 64);
  frame[kIp + 8] = 3;
  frame[kIp + 1] = 0x03;
  EXPECT_EQ(Parse(frame), ParseResult::kBadIpChecksum);
  StoreBe16(0, &frame[kIp + 10]);
  StoreBe16(InternetChecksum(std::span(frame).subspan(kIp, 20)), &frame[kIp + 10]);  // the ICRC stays
  FrameAddress address;
  Packet packet;
  ASSERT_EQ(ParseFrame(frame, &address, &packet), ParseResult::kOk);
  EXPECT_EQ(packet.ttl, 3);
  EXPECT_EQ(packet.tos, 3);
}

TEST_F(FrameTest, RefusesEveryTruncation) {
  const Frame good = Make(Opcode::kRcSendFirst, 64);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(Parse(Frame(good.begin(), good.begin() + size)), ParseResult::kTruncated) << size;
  }
}

TEST_F(FrameTest, LeavesOrdinaryTrafficAlone) {
  const Frame good = Make(Opcode::kRcSendOnly, 64);
  Frame frame = good;
  frame[12] = 0x86, frame[13] = 0xdd;  // IPv6
  EXPECT_EQ(Parse(frame), ParseResult::kNotRoce);
  frame = good;
  frame[kIp + 9] = 6;  // TCP
  EXPECT_EQ(Parse(frame), ParseResult::kNotRoce);
  frame = good;
  frame[kUdp + 3] ^= 1;  // another port
  EXPECT_EQ(Parse(frame), ParseResult::kNotRoce);
  frame = good;
  frame[kIp + 7] = 1;  // a later fragment has no ports
  EXPECT_EQ(Parse(frame), ParseResult::kNotRoce);
}

TEST_F(FrameTest, NamesWhatIsWrong) {
  const Frame good = Make(Opcode::kRcSendOnly, 64);
  const auto with = [&good](size_t byte, uint8_t value) {
    Frame frame = good;
    frame[byte] = value;
    Mend(&frame);
    return Parse(frame);
  };
  EXPECT_EQ(with(kIp, 0x65), ParseResult::kBadIpHeader);   // version 6
  EXPECT_EQ(with(kIp, 0x44), ParseResult::kBadIpHeader);   // header of four words
  EXPECT_EQ(with(kIp + 6, 0x20), ParseResult::kFragment);  // more fragments
  EXPECT_EQ(with(kIp + 3, 40), ParseResult::kBadLength);   // IP shorter than UDP
  EXPECT_EQ(with(kUdp + 5, 80), ParseResult::kBadLength);  // UDP shorter than IP
  EXPECT_EQ(with(kBth + 1, 0x01), ParseResult::kBadTver);
  EXPECT_EQ(with(kBth, 0x15), ParseResult::kUnknownOpcode);  // reserved
  EXPECT_EQ(with(kBth, 0x11), ParseResult::kBadLength);      // an ACK with a payload
  EXPECT_EQ(with(kBth + 12, 0x5a), ParseResult::kOk);        // only the payload
  Frame frame = good;
  frame.back() ^= 1;
  EXPECT_EQ(Parse(frame), ParseResult::kBadIcrc);
  EXPECT_EQ(Parse(frame, /*check_icrc=*/false), ParseResult::kOk);
}

TEST_F(FrameTest, RefusesIpOptions) {
  Frame frame = Make(Opcode::kRcSendOnly, 64);
  const Frame options = {7, 4, 4, 0};  // record route
  frame.insert(frame.begin() + kUdp, options.begin(), options.end());
  frame[kIp] = 0x46;
  EXPECT_EQ(Parse(frame), ParseResult::kBadIpHeader);
}

TEST_F(FrameTest, HonoursThePadCount) {
  Frame frame = Make(Opcode::kRcSendOnly, 0);
  frame[kBth + 1] = 0x10;  // a pad byte where there is no payload
  Mend(&frame);
  EXPECT_EQ(Parse(frame), ParseResult::kBadPad);

  frame = Make(Opcode::kRcAck, 0);
  frame[kBth + 1] = 0x30;
  Mend(&frame);
  EXPECT_EQ(Parse(frame), ParseResult::kBadPad);

  frame = Make(Opcode::kRcSendOnly, 5);
  frame.pop_back();  // padded to two bytes instead of three
  frame[kIp + 3] -= 1;
  frame[kUdp + 5] -= 1;
  Mend(&frame);
  EXPECT_EQ(Parse(frame), ParseResult::kBadPad);
}

TEST_F(FrameTest, WriterChecksItsCaller) {
  Packet packet;
  Frame small(FrameBytes(packet) - 1);
  EXPECT_DEATH(WriteFrame({}, packet, small), "out.size");
  Frame large(70000);
  const Frame payload(65536);
  packet.payload = payload;
  EXPECT_DEATH(WriteFrame({}, packet, large), "kMaxIpBytes");
  packet.payload = std::span(payload).first(4);
  packet.bth.opcode = Opcode::kRcAck;
  EXPECT_DEATH(WriteFrame({}, packet, large), "payload == 0");
  packet.bth.opcode = Opcode{0x15};
  EXPECT_DEATH(WriteFrame({}, packet, large), "known");
}

TEST(ParseResultTest, EveryResultHasItsOwnName) {
  std::set<std::string> names;
  for (int i = 0; i < kParseResults; ++i) names.insert(Name(static_cast<ParseResult>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kParseResults));
}

}  // namespace
}  // namespace epic::roce
