#include "roce/opcode.h"

#include <gtest/gtest.h>

#include <tuple>

namespace epic::roce {
namespace {

TEST(OpcodeTest, KnowsExactlyTheNamedOpcodes) {
  int known = 0;
  for (int byte = 0; byte < 256; ++byte) known += Info(Opcode{static_cast<uint8_t>(byte)}).known ? 1 : 0;
  EXPECT_EQ(known, 0x15 + 2 + 12 + 3);     // RC 0x00 to 0x14, 0x16 and 0x17, UC 0x20 to 0x2b, two of UD, CNP
  EXPECT_FALSE(Info(Opcode{0x15}).known);  // reserved
  EXPECT_FALSE(Info(Opcode{0x1c}).known);  // FLUSH
  EXPECT_FALSE(Info(Opcode{0x1f}).known);
  EXPECT_FALSE(Info(Opcode{0x2c}).known);  // there are no Reads without a reliable connection
  EXPECT_FALSE(Info(Opcode{0xff}).known);
}

// Table 38: extension headers of each opcode.
TEST(OpcodeTest, HeaderBytesFollowFromTheExtensionHeaders) {
  EXPECT_EQ(Info(Opcode::kRcSendOnly).header_bytes, 12);
  EXPECT_EQ(Info(Opcode::kRcSendOnlyImm).header_bytes, 16);
  EXPECT_EQ(Info(Opcode::kRcSendLastImm).header_bytes, 16);
  EXPECT_EQ(Info(Opcode::kRcWriteFirst).header_bytes, 28);
  EXPECT_EQ(Info(Opcode::kRcWriteLastImm).header_bytes, 16);
  EXPECT_EQ(Info(Opcode::kRcWriteOnlyImm).header_bytes, 32);
  EXPECT_EQ(Info(Opcode::kRcReadRequest).header_bytes, 28);
  EXPECT_EQ(Info(Opcode::kRcReadResponseFirst).header_bytes, 16);
  EXPECT_EQ(Info(Opcode::kRcReadResponseMiddle).header_bytes, 12);
  EXPECT_EQ(Info(Opcode::kRcAck).header_bytes, 16);
  EXPECT_EQ(Info(Opcode::kRcAtomicAck).header_bytes, 24);
  EXPECT_EQ(Info(Opcode::kRcCompareSwap).header_bytes, 40);
  EXPECT_EQ(Info(Opcode::kRcFetchAdd).header_bytes, 40);
  EXPECT_EQ(Info(Opcode::kRcSendLastInv).header_bytes, 16);
  EXPECT_EQ(Info(Opcode::kRcSendOnlyInv).header_bytes, 16);
  EXPECT_EQ(Info(Opcode::kUdSendOnly).header_bytes, 20);
  EXPECT_EQ(Info(Opcode::kUdSendOnlyImm).header_bytes, 24);
  EXPECT_EQ(Info(Opcode::kCnp).header_bytes, 28);
}

TEST(OpcodeTest, UcHasRcsSendsAndWrites) {
  for (uint8_t rc = 0; rc <= static_cast<uint8_t>(Opcode::kRcWriteOnlyImm); ++rc) {
    const Opcode uc = UcOf(Opcode{rc});
    const OpcodeInfo &a = Info(Opcode{rc}), &b = Info(uc);
    EXPECT_TRUE(IsUc(uc) && !IsUc(Opcode{rc}));
    EXPECT_EQ(RcOf(uc), Opcode{rc});
    EXPECT_EQ(std::tuple(a.reth, a.imm, a.payload, a.first, a.last, a.only, a.header_bytes),
              std::tuple(b.reth, b.imm, b.payload, b.first, b.last, b.only, b.header_bytes));
  }
  EXPECT_EQ(UcOf(Opcode::kRcSendFirst), Opcode::kUcSendFirst);
  EXPECT_EQ(UcOf(Opcode::kRcWriteOnlyImm), Opcode::kUcWriteOnlyImm);
}

TEST(OpcodeTest, MiddlePacketsNeitherOpenNorClose) {
  for (const Opcode opcode : {Opcode::kRcSendMiddle, Opcode::kRcWriteMiddle, Opcode::kRcReadResponseMiddle,
                              Opcode::kUcSendMiddle, Opcode::kUcWriteMiddle}) {
    const OpcodeInfo& info = Info(opcode);
    EXPECT_TRUE(info.payload);
    EXPECT_FALSE(info.first || info.last || info.only);
  }
}

TEST(OpcodeTest, EveryOtherPacketHasExactlyOnePlaceInItsMessage) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto opcode = Opcode{static_cast<uint8_t>(byte)};
    const OpcodeInfo& info = Info(opcode);
    const bool middle = opcode == Opcode::kRcSendMiddle || opcode == Opcode::kRcWriteMiddle ||
                        opcode == Opcode::kRcReadResponseMiddle || opcode == Opcode::kUcSendMiddle ||
                        opcode == Opcode::kUcWriteMiddle;
    EXPECT_EQ(info.first + info.last + info.only, info.known && !middle ? 1 : 0) << byte;
  }
}

}  // namespace
}  // namespace epic::roce
