#include "protocol/descriptor.h"

#include <gtest/gtest.h>

#include <array>

namespace epic {
namespace {

using Bytes = std::array<uint8_t, kDescriptorBytes>;

constexpr Descriptor kBoth{.source = {.address = 0x1122334455667788, .stride = 0x9000, .rkey = 0xa1b2c3d4},
                           .destination = {.address = 0xffeeddccbbaa, .stride = 0x7000, .rkey = 0x01020304}};

ControlHeader Call(Collective collective, uint32_t ranks = 4) {
  ControlHeader header{.collective = collective,
                       .op = Reduces(collective) ? ReduceOp::kSum : ReduceOp::kNone,
                       .type = DataType::kInt32,
                       .count = 100};
  if (HasPartPerRank(collective)) header.parts = ranks;
  return header;
}

Bytes Encoded(const Descriptor& descriptor) {
  Bytes bytes;
  Encode(descriptor, bytes);
  return bytes;
}

TEST(DescriptorTest, BytesOnTheWire) {
  const Bytes bytes = Encoded(kBoth);
  const Bytes want = {1,    0,    0,    0,    0xd4, 0xc3, 0xb2, 0xa1, 0x88, 0x77, 0x66,
                      0x55, 0x44, 0x33, 0x22, 0x11, 0x00, 0x90, 0,    0,    0,    0,
                      0,    0,    0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0,    0,    0x00,
                      0x70, 0,    0,    0,    0,    0,    0,    0x04, 0x03, 0x02, 0x01};
  EXPECT_EQ(bytes, want);
  EXPECT_EQ(DecodeDescriptor(bytes), kBoth);
}

TEST(DescriptorTest, WhatIsNoneOfThisVersion) {
  const Bytes good = Encoded(kBoth);
  EXPECT_FALSE(DecodeDescriptor(std::span(good).first(63)).has_value());
  EXPECT_FALSE(DecodeDescriptor({}).has_value());
  for (size_t at = 0; at < good.size(); ++at) {
    Bytes bad = good;
    bad[at] ^= 0x80;
    const bool unused = (at >= 1 && at < 4) || at >= 44;
    EXPECT_EQ(DecodeDescriptor(bad).has_value(), at != 0 && !unused) << at;
  }
}

TEST(DescriptorTest, OnlyOfDataThatAreNotInTheMessage) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
                                      Collective::kReduceScatter, Collective::kAllGather}) {
    ControlHeader header = Call(collective);
    EXPECT_TRUE(HasDescriptor(header));
    for (const uint32_t flag : {kInlinedFlag, kByHostsFlag, kRequestFlag}) {
      header.flags = flag;
      EXPECT_FALSE(HasDescriptor(header)) << flag;
    }
    header.flags = 0;
    header.status = ControlStatus::kMismatch;
    EXPECT_FALSE(HasDescriptor(header));
    header.status = ControlStatus::kOk;
    header.count = 0;
    EXPECT_FALSE(HasDescriptor(header));
  }
  EXPECT_FALSE(HasDescriptor({.collective = Collective::kBarrier}));
}

// Of whom one gives and another receives.
TEST(DescriptorTest, ZeroWhereNothingIsGivenOrReceived) {
  const RemoteParts one{.address = 4096, .rkey = 7};
  const auto expect = [&](const ControlHeader& header, uint32_t rank, bool gives, bool receives) {
    for (const bool source : {false, true}) {
      for (const bool destination : {false, true}) {
        const Descriptor descriptor{.source = source ? one : RemoteParts{},
                                    .destination = destination ? one : RemoteParts{}};
        // A rank that gives from address 0 by key 0 may: its NIC says what that is.
        EXPECT_EQ(IsSound(descriptor, header, rank), (gives || !source) && (receives || !destination))
            << static_cast<int>(header.collective) << " rank " << rank << " " << source << destination;
      }
    }
  };
  ControlHeader rooted = Call(Collective::kReduce);
  rooted.root = 2;
  expect(rooted, 2, true, true);
  expect(rooted, 1, true, false);
  rooted.collective = Collective::kBroadcast;
  rooted.op = ReduceOp::kNone;
  expect(rooted, 2, true, false);
  expect(rooted, 1, false, true);
  expect(Call(Collective::kAllReduce), 0, true, true);
  expect(Call(Collective::kAllGather), 3, true, true);
  expect(Call(Collective::kReduceScatter), 3, true, true);
}

TEST(DescriptorTest, RangesThatWrapAndPartsThatOverlapAreRefused) {
  const ControlHeader one = Call(Collective::kAllReduce), all = Call(Collective::kReduceScatter);
  const uint64_t bytes = 400;
  const auto sound = [](const ControlHeader& header, uint64_t address, uint64_t stride) {
    return IsSound({.source = {.address = address, .stride = stride, .rkey = 1}, .destination = {.rkey = 1}},
                   header, 0);
  };
  EXPECT_TRUE(sound(one, UINT64_MAX - bytes, 0));
  EXPECT_FALSE(sound(one, UINT64_MAX - bytes + 1, 0));
  EXPECT_FALSE(sound(one, 0, bytes)) << "there is one part";
  EXPECT_TRUE(sound(all, UINT64_MAX - 4 * bytes, 0));
  EXPECT_FALSE(sound(all, UINT64_MAX - 4 * bytes + 1, 0));
  EXPECT_TRUE(sound(all, 0, bytes));
  EXPECT_FALSE(sound(all, 0, bytes - 1));
  EXPECT_TRUE(sound(all, 0, (UINT64_MAX - bytes) / 3));
  EXPECT_FALSE(sound(all, 0, (UINT64_MAX - bytes) / 3 + 1));
  EXPECT_FALSE(sound(all, 3, (UINT64_MAX - bytes) / 3));
  EXPECT_FALSE(sound(all, 0, UINT64_MAX));
}

TEST(DescriptorTest, WhereAPartLies) {
  ControlHeader header = Call(Collective::kReduceScatter);
  EXPECT_EQ(SourceAt(kBoth, header, 3, 8), kBoth.source.address + 3 * 0x9000 + 8);
  EXPECT_EQ(DestinationAt(kBoth, header, 3, 8), kBoth.destination.address + 8) << "its own part alone";
  header = Call(Collective::kAllGather);
  EXPECT_EQ(SourceAt(kBoth, header, 3, 8), kBoth.source.address + 8);
  EXPECT_EQ(DestinationAt(kBoth, header, 3, 8), kBoth.destination.address + 3 * 0x7000 + 8);
  Descriptor side_by_side = kBoth;
  side_by_side.destination.stride = 0;
  EXPECT_EQ(DestinationAt(side_by_side, header, 3, 8), kBoth.destination.address + 3 * 400 + 8);
}

}  // namespace
}  // namespace epic
