// Frames captured from Linux' rdma_rxe (tests/golden/README.md): each parses, has the ICRC that we compute,
// and comes out byte for byte the same when written again.
#include <gtest/gtest.h>
#include <pcap/pcap.h>

#include <string>
#include <vector>

#include "roce/arp.h"
#include "roce/frame.h"
#include "roce/frame_testing.h"

namespace epic::roce {
namespace {

using Frame = std::vector<uint8_t>;

std::vector<Frame> ReadCapture(const std::string& name) {
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_t* const capture = pcap_open_offline((EPIC_GOLDEN_DIR "/" + name).c_str(), error);
  if (capture == nullptr) {
    ADD_FAILURE() << error;
    return {};
  }
  std::vector<Frame> frames;
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  while (pcap_next_ex(capture, &header, &bytes) == 1) frames.emplace_back(bytes, bytes + header->caplen);
  pcap_close(capture);
  return frames;
}

struct Seen {
  Opcode opcode;
  uint32_t psn;
  size_t payload;
  uint32_t detail;      // AETH: syndrome and MSN; otherwise the immediate or the key to invalidate, else 0
  uint64_t number = 0;  // of atomics: what is added or stored; what was there
  friend bool operator==(const Seen&, const Seen&) = default;
};

// Parses and rewrites every frame of a capture; returns what was in them.
std::vector<Seen> CheckCapture(const std::string& name, Qpn qpn = Qpn{0x11},
                               decltype(&ParseFrame) parse = ParseFrame) {
  std::vector<Seen> seen;
  for (const Frame& frame : ReadCapture(name)) {
    FrameAddress address;
    Packet packet;
    const ParseResult result = parse(frame, &address, &packet, true);
    EXPECT_EQ(result, ParseResult::kOk) << name << " frame " << seen.size() << ": " << Name(result);
    if (result != ParseResult::kOk) return seen;
    Frame written(FrameBytes(packet));
    WriteFrame(address, packet, written);
    EXPECT_EQ(written, frame) << name << " frame " << seen.size();
    const OpcodeInfo& info = Info(packet.bth.opcode);
    const uint32_t aeth = static_cast<uint32_t>(packet.aeth.syndrome) << 24 | packet.aeth.msn;
    seen.push_back({packet.bth.opcode, packet.bth.psn.raw(), packet.payload.size(),
                    info.aeth   ? aeth
                    : info.imm  ? packet.imm
                    : info.ieth ? packet.invalidate_rkey
                                : 0,
                    info.atomic_eth       ? packet.atomic.swap_or_add
                    : info.atomic_ack_eth ? packet.original
                                          : 0});
    EXPECT_EQ(packet.bth.dest_qp, qpn);
    EXPECT_EQ(packet.bth.pkey, kDefaultPkey);
    EXPECT_EQ(packet.bth.ack_req,
              (info.last || info.only) && !info.aeth && !info.deth && !IsUc(packet.bth.opcode))
        << name << " " << seen.size();
  }
  return seen;
}

TEST(GoldenTest, Send) {
  const std::vector<Seen> expected = {
      {Opcode::kRcSendFirst, 0x5e05a9, 256, 0}, {Opcode::kRcSendMiddle, 0x5e05aa, 256, 0},
      {Opcode::kRcSendLast, 0x5e05ab, 189, 0},  {Opcode::kRcAck, 0x5e05ab, 0, 0x1f000001},
      {Opcode::kRcSendFirst, 0xde4e46, 256, 0}, {Opcode::kRcSendMiddle, 0xde4e47, 256, 0},
      {Opcode::kRcSendLast, 0xde4e48, 189, 0},  {Opcode::kRcAck, 0xde4e48, 0, 0x1f000001}};
  EXPECT_EQ(CheckCapture("rc_send.pcap"), expected);
}

TEST(GoldenTest, Write) {
  const std::vector<Seen> expected = {
      {Opcode::kRcWriteFirst, 0x048913, 256, 0}, {Opcode::kRcWriteMiddle, 0x048914, 256, 0},
      {Opcode::kRcWriteLast, 0x048915, 190, 0},  {Opcode::kRcAck, 0x048915, 0, 0x1f000001},
      {Opcode::kRcWriteFirst, 0x048916, 256, 0}, {Opcode::kRcWriteMiddle, 0x048917, 256, 0},
      {Opcode::kRcWriteLast, 0x048918, 190, 0},  {Opcode::kRcAck, 0x048918, 0, 0x1f000002}};
  EXPECT_EQ(CheckCapture("rc_write.pcap"), expected);
}

TEST(GoldenTest, Read) {
  const std::vector<Seen> expected = {{Opcode::kRcReadRequest, 0xabc927, 0, 0},
                                      {Opcode::kRcReadResponseFirst, 0xabc927, 256, 0x1f000001},
                                      {Opcode::kRcReadResponseMiddle, 0xabc928, 256, 0},
                                      {Opcode::kRcReadResponseLast, 0xabc929, 191, 0x1f000001},
                                      {Opcode::kRcReadRequest, 0xabc92a, 0, 0},
                                      {Opcode::kRcReadResponseFirst, 0xabc92a, 256, 0x1f000002},
                                      {Opcode::kRcReadResponseMiddle, 0xabc92b, 256, 0},
                                      {Opcode::kRcReadResponseLast, 0xabc92c, 191, 0x1f000002}};
  EXPECT_EQ(CheckCapture("rc_read.pcap"), expected);
}

TEST(GoldenTest, FetchAdd) {
  constexpr uint64_t kFound = 6052367444771117383;
  const std::vector<Seen> expected = {
      {Opcode::kRcFetchAdd, 15903136, 0, 0, 1}, {Opcode::kRcAtomicAck, 15903136, 0, 0x1f000001, kFound},
      {Opcode::kRcFetchAdd, 15903137, 0, 0, 1}, {Opcode::kRcAtomicAck, 15903137, 0, 0x1f000002, kFound + 1},
      {Opcode::kRcFetchAdd, 15903138, 0, 0, 1}, {Opcode::kRcAtomicAck, 15903138, 0, 0x1f000003, kFound + 2}};
  EXPECT_EQ(CheckCapture("rc_fetch_add.pcap"), expected);
}

TEST(GoldenTest, CompareSwap) {
  constexpr uint64_t kFound = 3723646934636295194;
  const std::vector<Seen> expected = {{Opcode::kRcCompareSwap, 3040788, 0, 0, 0},
                                      {Opcode::kRcAtomicAck, 3040788, 0, 0x1f000001, kFound},
                                      {Opcode::kRcCompareSwap, 3040789, 0, 0, 0},
                                      {Opcode::kRcAtomicAck, 3040789, 0, 0x1f000002, kFound}};
  EXPECT_EQ(CheckCapture("rc_compare_swap.pcap", Qpn{0x12}), expected);
}

TEST(GoldenTest, SendWithInvalidate) {
  const std::vector<Seen> expected = {{Opcode::kRcSendFirst, 41, 1024, 0},
                                      {Opcode::kRcSendLastInv, 42, 120, 0x100},
                                      {Opcode::kRcSendOnlyInv, 165, 360, 0x102}};
  EXPECT_EQ(CheckCapture("rc_send_inv.pcap", Qpn{0x77}), expected);
}

TEST(GoldenTest, UnreliableDatagram) {
  const std::vector<Seen> expected = {{Opcode::kUdSendOnly, 0x919919, 99, 0},
                                      {Opcode::kUdSendOnly, 0x196dfc, 99, 0},
                                      {Opcode::kUdSendOnly, 0x91991a, 99, 0},
                                      {Opcode::kUdSendOnly, 0x196dfd, 99, 0}};
  EXPECT_EQ(CheckCapture("ud_send.pcap"), expected);
}

TEST(GoldenTest, ImmediateOverThePsnWrap) {
  const std::vector<Seen> expected = {
      {Opcode::kRcSendFirst, 0xfffffe, 256, 0},  {Opcode::kRcSendLastImm, 0xffffff, 45, 0xe91c0000},
      {Opcode::kRcAck, 0xffffff, 0, 0x1f000001}, {Opcode::kRcSendOnlyImm, 0, 64, 0xe91c0001},
      {Opcode::kRcAck, 0, 0, 0x1f000002},        {Opcode::kRcWriteOnlyImm, 1, 0, 0xe91c0002},
      {Opcode::kRcAck, 1, 0, 0x1f000003}};
  EXPECT_EQ(CheckCapture("rc_imm.pcap"), expected);
}

TEST(GoldenTest, SequenceNakNamesTheExpectedPsn) {
  const std::vector<Seen> expected = {{Opcode::kRcSendFirst, 0x2001, 256, 0},
                                      {Opcode::kRcSendLastImm, 0x2002, 45, 0xe91c0000},
                                      {Opcode::kRcAck, 0x2000, 0, 0x60000000},
                                      {Opcode::kRcSendOnlyImm, 0x2003, 64, 0xe91c0001},
                                      {Opcode::kRcWriteOnlyImm, 0x2004, 0, 0xe91c0002}};
  EXPECT_EQ(CheckCapture("rc_nak.pcap"), expected);
}

TEST(GoldenTest, RnrNakNamesThePacketRefused) {
  const std::vector<Seen> expected = {
      {Opcode::kRcSendFirst, 0x3000, 256, 0},           {Opcode::kRcSendLastImm, 0x3001, 45, 0xe91c0000},
      {Opcode::kRcSendOnlyImm, 0x3002, 64, 0xe91c0001}, {Opcode::kRcWriteOnlyImm, 0x3003, 0, 0xe91c0002},
      {Opcode::kRcAck, 0x3000, 0, 0x2e000000},  // timer code 14
      {Opcode::kRcAck, 0x3000, 0, 0x60000000}};
  EXPECT_EQ(CheckCapture("rc_rnr.pcap"), expected);
}

TEST(GoldenTest, UnreliableSend) {
  const std::vector<Seen> expected = {
      {Opcode::kUcSendFirst, 0xdd7f20, 256, 0},  {Opcode::kUcSendMiddle, 0xdd7f21, 256, 0},
      {Opcode::kUcSendLast, 0xdd7f22, 189, 0},   {Opcode::kUcSendFirst, 0xca1706, 256, 0},
      {Opcode::kUcSendMiddle, 0xca1707, 256, 0}, {Opcode::kUcSendLast, 0xca1708, 189, 0}};
  EXPECT_EQ(CheckCapture("uc_send.pcap"), expected);
}

TEST(GoldenTest, UnreliableWrite) {
  const std::vector<Seen> expected = {
      {Opcode::kUcWriteFirst, 0xc06311, 256, 0},  {Opcode::kUcWriteMiddle, 0xc06312, 256, 0},
      {Opcode::kUcWriteLast, 0xc06313, 190, 0},   {Opcode::kUcWriteFirst, 0xc06314, 256, 0},
      {Opcode::kUcWriteMiddle, 0xc06315, 256, 0}, {Opcode::kUcWriteLast, 0xc06316, 190, 0}};
  EXPECT_EQ(CheckCapture("uc_write.pcap", Qpn{0x12}), expected);
}

TEST(GoldenTest, UnreliableImmediateOverThePsnWrap) {
  const std::vector<Seen> expected = {
      {Opcode::kUcSendFirst, 0xfffffe, 256, 0},    {Opcode::kUcSendLastImm, 0xffffff, 45, 0xe91c0000},
      {Opcode::kUcSendOnlyImm, 0, 64, 0xe91c0001}, {Opcode::kUcWriteOnlyImm, 1, 0, 0xe91c0002},
      {Opcode::kUcWriteFirst, 2, 256, 0},          {Opcode::kUcWriteMiddle, 3, 256, 0},
      {Opcode::kUcWriteLastImm, 4, 1, 0xe91c0003}};
  EXPECT_EQ(CheckCapture("uc_imm.pcap"), expected);
}

TEST(GoldenTest, SendOverIpv6) {
  const std::vector<Seen> expected = {
      {Opcode::kRcSendFirst, 0x516d54, 256, 0}, {Opcode::kRcSendMiddle, 0x516d55, 256, 0},
      {Opcode::kRcSendLast, 0x516d56, 189, 0},  {Opcode::kRcAck, 0x516d56, 0, 0x1f000001},
      {Opcode::kRcSendFirst, 0x04b881, 256, 0}, {Opcode::kRcSendMiddle, 0x04b882, 256, 0},
      {Opcode::kRcSendLast, 0x04b883, 189, 0},  {Opcode::kRcAck, 0x04b883, 0, 0x1f000001}};
  EXPECT_EQ(CheckCapture("rc_send_ipv6.pcap", Qpn{0x11}, ParseIpv6Frame), expected);
}

TEST(GoldenTest, ReadOverIpv6) {
  const std::vector<Seen> expected = {{Opcode::kRcReadRequest, 0x9c3162, 0, 0},
                                      {Opcode::kRcReadResponseFirst, 0x9c3162, 256, 0x1f000001},
                                      {Opcode::kRcReadResponseMiddle, 0x9c3163, 256, 0},
                                      {Opcode::kRcReadResponseLast, 0x9c3164, 191, 0x1f000001},
                                      {Opcode::kRcReadRequest, 0x9c3165, 0, 0},
                                      {Opcode::kRcReadResponseFirst, 0x9c3165, 256, 0x1f000002},
                                      {Opcode::kRcReadResponseMiddle, 0x9c3166, 256, 0},
                                      {Opcode::kRcReadResponseLast, 0x9c3167, 191, 0x1f000002}};
  EXPECT_EQ(CheckCapture("rc_read_ipv6.pcap", Qpn{0x12}, ParseIpv6Frame), expected);
}

TEST(GoldenTest, UnreliableDatagramOverIpv6) {
  const std::vector<Seen> expected = {{Opcode::kUdSendOnly, 0x5db72e, 99, 0},
                                      {Opcode::kUdSendOnly, 0xf6353f, 99, 0},
                                      {Opcode::kUdSendOnly, 0x5db72f, 99, 0},
                                      {Opcode::kUdSendOnly, 0xf63540, 99, 0}};
  EXPECT_EQ(CheckCapture("ud_send_ipv6.pcap", Qpn{0x13}, ParseIpv6Frame), expected);
}

TEST(GoldenTest, ArpExchange) {
  const std::vector<Frame> frames = ReadCapture("arp.pcap");
  ASSERT_EQ(frames.size(), 2u);
  std::vector<Arp> parsed;
  for (const Frame& frame : frames) {
    const auto arp = ParseArp(frame);
    ASSERT_TRUE(arp.has_value());
    parsed.push_back(*arp);
    Frame written(kMaxArpFrameBytes);
    written.resize(WriteArp(*arp, written));
    EXPECT_EQ(written, frame);
  }
  EXPECT_EQ(parsed[1], ArpReplyTo(parsed[0], parsed[1].src));
}

}  // namespace
}  // namespace epic::roce
