#include "roce/super_frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "roce/frame_testing.h"
#include "roce/packet_testing.h"
#include "roce/view.h"
#include "roce/wire.h"

namespace epic::roce {
namespace {

using Frame = std::vector<uint8_t>;

constexpr size_t kIp = 14, kUdp = kIp + 20, kBth = kUdp + 8;

// Packets of one flow, their frames, and the super-frame of them, put together as a sender does.
class SuperFrameTest : public ::testing::Test {
 protected:
  void Make(const std::vector<size_t>& payloads, uint16_t first_id = 100) {
    ids_ = first_id;
    std::mt19937 random(1);
    std::vector<FramePieces> pieces(payloads.size());
    for (size_t k = 0; k < payloads.size(); ++k) {
      payloads_.emplace_back(payloads[k]);
      std::ranges::generate(payloads_.back(), [&] { return static_cast<uint8_t>(random()); });
    }
    for (size_t k = 0; k < payloads.size(); ++k) {
      Packet& packet = packets_.emplace_back();
      packet.src_ip = Ipv4{0x0a000001};
      packet.dst_ip = Ipv4{0x0a000002};
      packet.udp_src_port = 0xc123;
      packet.bth.opcode = Opcode::kRcSendMiddle;
      packet.bth.dest_qp = Qpn{0x1234};
      packet.bth.psn = Psn(0xfffffe) + static_cast<int32_t>(k);
      packet.payload = payloads_[k];
      const FrameAddress address{
          .dst = {2, 0, 0, 0, 0, 2}, .src = {2, 0, 0, 0, 0, 1}, .ip_id = Id(k), .vlan = {}};
      Frame& frame = frames_.emplace_back(FrameBytes(packet));
      WriteFrame(address, packet, frame);
      WritePieces(address, packet, nullptr, &pieces[k]);
    }
    segment_ = frames_[0].size() - kBth;
    for (size_t k = 0; k < pieces.size(); ++k) {
      const auto head = pieces[k].head();
      super_.insert(super_.end(), head.begin() + (k == 0 ? 0 : kBth), head.end());
      super_.insert(super_.end(), pieces[k].payload.begin(), pieces[k].payload.end());
      super_.insert(super_.end(), pieces[k].tail().begin(), pieces[k].tail().end());
    }
    MakeSuperFrameHead(super_.size() - kBth, super_);
  }

  uint16_t Id(size_t k) const { return static_cast<uint16_t>(ids_ + k); }

  // That the k-th packet of the super-frame is the k-th that was made.
  void ExpectPacket(const SuperFrameView& view, size_t k) {
    FrameAddress address;
    Packet packet;
    ASSERT_EQ(view.Parse(k, &address, &packet), ParseResult::kOk) << k;
    EXPECT_TRUE(testing::SamePacket(packet, packets_[k])) << k;
    EXPECT_EQ(address.ip_id, Id(k));
    EXPECT_EQ(address.dst[5], 2);
    Frame alone(70'000);
    alone.resize(view.Write(k, alone));
    EXPECT_EQ(alone, frames_[k]) << k;
  }

  std::vector<Frame> payloads_, frames_;
  std::vector<Packet> packets_;
  Frame super_;
  size_t segment_ = 0;
  uint16_t ids_ = 0;
  SuperFrameView view_;
  FrameAddress address_;
  Packet packet_;
};

TEST_F(SuperFrameTest, EachPacketIsWhatItWouldBeAlone) {
  Make({1024, 1024, 1024, 300}, 0xfffe);
  ASSERT_EQ(SuperFrameView::Of(super_, segment_, &view_), ParseResult::kOk);
  ASSERT_EQ(view_.packets(), 4u);
  for (size_t k = 0; k < 4; ++k) ExpectPacket(view_, k);
  EXPECT_EQ(view_.Parse(4, &address_, &packet_), ParseResult::kTruncated) << "there is none";
}

TEST_F(SuperFrameTest, FifteenOfTheLargestFit) {
  Make(std::vector<size_t>(15, 4096));
  EXPECT_LE(super_.size(), kMaxSuperFrameBytes);
  ASSERT_EQ(SuperFrameView::Of(super_, segment_, &view_), ParseResult::kOk);
  ASSERT_EQ(view_.packets(), 15u);
  for (size_t k = 0; k < 15; ++k) ExpectPacket(view_, k);
}

TEST_F(SuperFrameTest, WholeIsWhatASenderJoinsAndNothingCutOff) {
  Make({1024, 1024, 300});
  const size_t bytes = super_.size();
  super_.resize(bytes + 6);  // padding
  ASSERT_EQ(SuperFrameView::Of(super_, segment_, &view_), ParseResult::kOk);
  EXPECT_TRUE(view_.whole());
  EXPECT_EQ(view_.bytes().size(), bytes);
  for (const size_t cut : {bytes - 1, bytes - 300, kBth + segment_, kBth}) {
    ASSERT_EQ(SuperFrameView::Of(std::span(super_).first(cut), segment_, &view_), ParseResult::kOk);
    EXPECT_FALSE(view_.whole()) << cut;
  }
}

TEST_F(SuperFrameTest, OneThatIsASinglePacketIsNotWhole) {
  Make({1024});
  ASSERT_EQ(SuperFrameView::Of(super_, segment_, &view_), ParseResult::kOk);
  EXPECT_FALSE(view_.whole());
}

TEST_F(SuperFrameTest, OneOfMorePacketsThanASenderJoinsIsNotWhole) {
  Make(std::vector<size_t>(kMaxSuperFramePackets + 1, 64));
  ASSERT_EQ(SuperFrameView::Of(super_, segment_, &view_), ParseResult::kOk);
  EXPECT_FALSE(view_.whole());
}

TEST_F(SuperFrameTest, PiecesAreTheBytesOfTheFrame) {
  std::mt19937_64 random(2);
  Frame storage;
  for (int i = 0; i < 200; ++i) {
    const Packet packet = testing::RandomPacket(random, 600, &storage);
    const FrameAddress address = testing::RandomAddress(random);
    Frame frame(FrameBytes(packet, address.vlan.has_value()));
    WriteFrame(address, packet, frame);
    FramePieces pieces;
    WritePieces(address, packet, nullptr, &pieces);
    Frame joined(pieces.head().begin(), pieces.head().end());
    joined.insert(joined.end(), pieces.payload.begin(), pieces.payload.end());
    joined.insert(joined.end(), pieces.tail().begin(), pieces.tail().end());
    ASSERT_EQ(joined, frame);
    ASSERT_EQ(pieces.size(), frame.size());
  }
}

TEST_F(SuperFrameTest, PiecesTakeAPayloadsCrc) {
  Make({1024});
  const CrcShift shift(1024);
  const PayloadCrc crc{&shift, Crc32(0, payloads_[0])};
  FramePieces given, computed;
  WritePieces({}, packets_[0], &crc, &given);
  WritePieces({}, packets_[0], nullptr, &computed);
  EXPECT_TRUE(std::ranges::equal(given.tail(), computed.tail()));
}

TEST_F(SuperFrameTest, OneThatWasCutHasThePacketsThatAreWhole) {
  Make({1024, 1024, 1024, 300});
  for (size_t bytes = kBth; bytes < super_.size(); ++bytes) {
    const Frame cut(super_.begin(), super_.begin() + static_cast<ptrdiff_t>(bytes));
    ASSERT_EQ(SuperFrameView::Of(cut, segment_, &view_), ParseResult::kOk) << bytes;
    ASSERT_EQ(view_.packets(), 4u);
    const size_t whole = (bytes - kBth) / segment_;
    for (size_t k = 0; k < 4; ++k) {
      const ParseResult result = view_.Parse(k, &address_, &packet_);
      ASSERT_EQ(result, k < whole ? ParseResult::kOk : ParseResult::kTruncated) << bytes << ", " << k;
      Frame alone(2000);
      ASSERT_EQ(view_.Write(k, alone), k < whole ? frames_[k].size() : 0);
    }
  }
  for (size_t bytes = 0; bytes < kBth; ++bytes) {
    const Frame cut(super_.begin(), super_.begin() + static_cast<ptrdiff_t>(bytes));
    ASSERT_EQ(SuperFrameView::Of(cut, segment_, &view_), ParseResult::kTruncated) << bytes;
  }
}

TEST_F(SuperFrameTest, ADamagedByteCostsThePacketThatItIsIn) {
  Make({1024, 1024, 1024});
  super_[kBth + segment_ + 500] ^= 1;
  ASSERT_EQ(SuperFrameView::Of(super_, segment_, &view_), ParseResult::kOk);
  ExpectPacket(view_, 0);
  EXPECT_EQ(view_.Parse(1, &address_, &packet_), ParseResult::kBadIcrc);
  ExpectPacket(view_, 2);
}

TEST_F(SuperFrameTest, AWrongSegmentLengthIsNoPacket) {
  Make({1024, 1024, 1024});
  for (const size_t wrong : {segment_ - 4, segment_ + 4, segment_ * 2}) {
    ASSERT_EQ(SuperFrameView::Of(super_, wrong, &view_), ParseResult::kOk);
    for (size_t k = 0; k < view_.packets(); ++k)
      EXPECT_NE(view_.Parse(k, &address_, &packet_), ParseResult::kOk) << wrong << ", " << k;
  }
  for (const size_t wrong : {size_t{0}, size_t{15}, super_.size()})
    EXPECT_EQ(SuperFrameView::Of(super_, wrong, &view_), ParseResult::kBadLength) << wrong;
}

TEST_F(SuperFrameTest, HeadersThatDisagreeAreRefused) {
  Make({1024, 1024});
  const auto refused = [&](size_t at, uint8_t bits, ParseResult as) {
    Frame frame = super_;
    frame[at] ^= bits;
    if (as != ParseResult::kBadIpChecksum) {
      StoreBe16(0, &frame[kIp + 10]);
      StoreBe16(InternetChecksum({&frame[kIp], 20}), &frame[kIp + 10]);
    }
    EXPECT_EQ(SuperFrameView::Of(frame, segment_, &view_), as) << at;
  };
  refused(12, 1, ParseResult::kNotRoce);
  refused(kIp, 0x10, ParseResult::kBadIpHeader);
  refused(kIp + 3, 1, ParseResult::kBadLength);
  refused(kIp + 3, 8, ParseResult::kBadLength);
  refused(kIp + 6, 0x20, ParseResult::kFragment);
  refused(kIp + 8, 1, ParseResult::kBadIpChecksum);
  refused(kUdp + 3, 1, ParseResult::kNotRoce);
  refused(kUdp + 5, 1, ParseResult::kBadLength);
}

TEST_F(SuperFrameTest, OnlyPacketsOfOneFlowInOrderOfTheirIdentificationJoin) {
  Make({1024, 1024, 1024}, 0xffff);
  EXPECT_TRUE(SameSuperFrame(frames_[0], frames_[1], 1)) << "the identification wraps";
  EXPECT_TRUE(SameSuperFrame(frames_[0], frames_[2], 2));
  EXPECT_FALSE(SameSuperFrame(frames_[0], frames_[2], 1)) << "one is missing";
  const auto joins = [&](size_t at) {
    Frame other = frames_[1];
    other[at] ^= 1;
    return SameSuperFrame(frames_[0], other, 1);
  };
  for (const size_t at : {size_t{0}, size_t{6}, kIp + 1, kIp + 8, kIp + 12, kIp + 16, kUdp, kUdp + 2})
    EXPECT_FALSE(joins(at)) << at;
  EXPECT_FALSE(joins(kBth + 5)) << "another queue pair";
  EXPECT_TRUE(joins(kBth + 8)) << "acknowledge request";
  EXPECT_TRUE(joins(kBth + 11)) << "PSN";
  EXPECT_TRUE(joins(kBth)) << "opcode";
}

TEST_F(SuperFrameTest, WhatJoinsIsNoLongerThanTheFirstAndEndsBehindAShorterOne) {
  Make({1024, 1024, 300, 300});
  OpenSuperFrame open{
      .first = frames_[0], .packet_bytes = segment_, .bytes = frames_[0].size(), .packets = 1};
  const auto join = [&](size_t k) {
    const bool joins = JoinsSuperFrame(open, frames_[k], frames_[k].size());
    if (joins) open.bytes += frames_[k].size() - kBth, ++open.packets;
    return joins;
  };
  EXPECT_TRUE(join(1));
  EXPECT_FALSE(join(3)) << "another flow: its identification is not the next";
  EXPECT_TRUE(join(2)) << "a shorter one";
  EXPECT_FALSE(join(3)) << "behind it";
  open = {.first = frames_[2], .packet_bytes = 300 + 16, .bytes = frames_[2].size(), .packets = 1};
  EXPECT_FALSE(JoinsSuperFrame(open, frames_[3], frames_[3].size() + 4)) << "longer than the first";
  EXPECT_TRUE(JoinsSuperFrame(open, frames_[3], frames_[3].size()));
}

TEST_F(SuperFrameTest, WhatJoinsHasBounds) {
  Make(std::vector<size_t>(kMaxSuperFramePackets + 1, 4096));
  const auto joined = [&](size_t packet_bytes) {
    OpenSuperFrame open{
        .first = frames_[0], .packet_bytes = packet_bytes, .bytes = kBth + packet_bytes, .packets = 1};
    while (open.packets < frames_.size() &&
           JoinsSuperFrame(open, frames_[open.packets], kBth + packet_bytes)) {
      open.bytes += packet_bytes;
      ++open.packets;
    }
    return open.packets;
  };
  EXPECT_EQ(joined(12 + 4096 + 4), 15u);
  EXPECT_EQ(joined(12 + 256 + 4), kMaxSuperFramePackets);
}

TEST_F(SuperFrameTest, TheHeadHasTheChecksumsThatTheKernelGoesOnFrom) {
  Make({1024, 1024, 300});
  EXPECT_EQ(InternetChecksum({&super_[kIp], 20}), 0);
  // Completing the checksum over header and payload must give what a receiver takes as right.
  Frame datagram(super_.begin() + kUdp, super_.end());
  const uint16_t udp = InternetChecksum(datagram);
  StoreBe16(udp, &datagram[6]);
  Frame pseudo(super_.begin() + kIp + 12, super_.begin() + kIp + 20);
  pseudo.insert(pseudo.end(),
                {0, 17, static_cast<uint8_t>(datagram.size() >> 8), static_cast<uint8_t>(datagram.size())});
  pseudo.insert(pseudo.end(), datagram.begin(), datagram.end());
  EXPECT_EQ(InternetChecksum(pseudo), 0);
}

}  // namespace
}  // namespace epic::roce
