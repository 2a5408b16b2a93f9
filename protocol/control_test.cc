#include "protocol/control.h"

#include <gtest/gtest.h>

#include "protocol/number_blocks.h"

namespace epic {
namespace {

ControlHeader Sample() {
  ControlHeader h;
  h.collective = Collective::kAllReduce;
  h.op = ReduceOp::kSum;
  h.type = DataType::kFloat32;
  h.invocation = 0x1122334455667788;
  h.count = 1000003;
  h.root = 3;
  h.parts = 2;
  h.flags = 0x80000001;
  h.status = ControlStatus::kMismatch;
  h.field = ControlField::kCount;
  h.culprit = 7;
  return h;
}

TEST(ControlTest, DecodesWhatItEncodes) {
  std::array<uint8_t, kControlBytes> bytes;
  Encode(Sample(), bytes);
  EXPECT_EQ(DecodeControl(bytes), Sample());
}

// A header that refuses is for ranks of before there were turns as well.
TEST(ControlTest, OnlyACallHasATurn) {
  ControlHeader h = Sample();
  h.turn = 9;
  std::array<uint8_t, kControlBytes> bytes;
  Encode(h, bytes);
  EXPECT_EQ(DecodeControl(bytes), Sample());
  h.status = ControlStatus::kOk;
  Encode(h, bytes);
  EXPECT_EQ(DecodeControl(bytes), h);
  EXPECT_EQ(bytes[44], 9);
}

TEST(ControlTest, OnlyACallInBlocksSaysWhatItsCallersHave) {
  ControlHeader h = InBlocks({.collective = Collective::kAllReduce,
                              .op = ReduceOp::kSum,
                              .type = DataType::kFloat16,
                              .count = 2 * kBlockElements + 5});
  EXPECT_EQ(h.type, DataType::kBlock8);
  EXPECT_EQ(h.count, 3u);
  std::array<uint8_t, kControlBytes> bytes;
  Encode(h, bytes);
  EXPECT_EQ(bytes[52], 3);
  EXPECT_EQ(bytes[53], 5);
  EXPECT_EQ(DecodeControl(bytes), h);
  for (const DataType type : {DataType::kFloat32, DataType::kNone}) {
    auto other = bytes;
    other[7] = static_cast<uint8_t>(type);
    EXPECT_EQ(DecodeControl(other), std::nullopt) << NameOf(type);
  }
  auto later = bytes;
  later[7] = 40;
  EXPECT_TRUE(DecodeControl(later).has_value()) << "what it means there is not known here";
  // Ranks that merge what refuses compare it with others.
  h.status = ControlStatus::kMismatch;
  Encode(h, bytes);
  EXPECT_EQ(DecodeControl(bytes), h);
}

// Of FP16 beside BF16, of blocks beside what they are made of, and of lengths that need as many blocks.
TEST(ControlTest, CallsInBlocksDifferInWhatWasCalled) {
  ControlHeader call{
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kFloat16, .count = 100};
  const ControlHeader blocks = InBlocks(call);
  EXPECT_EQ(FirstDifference(blocks, call), ControlField::kType);
  call.count = 110;
  EXPECT_EQ(InBlocks(call).count, blocks.count);
  EXPECT_EQ(FirstDifference(blocks, InBlocks(call)), ControlField::kCount);
  call.type = DataType::kBFloat16;
  EXPECT_EQ(FirstDifference(blocks, InBlocks(call)), ControlField::kType)
      << "what it is comes before how long";
  call.count = 100;
  EXPECT_EQ(FirstDifference(blocks, InBlocks(call)), ControlField::kType);
}

TEST(ControlTest, OfACallInBlocksTheLastSliceAloneEndsShort) {
  ControlHeader call = InBlocks({.type = DataType::kFloat32, .count = 4 * kBlockElements + 1});
  EXPECT_EQ(CalledElements(call), 4 * kBlockElements + 1);
  EXPECT_EQ(CalledBytes(call), 4 * (4 * kBlockElements + 1));
  call.flags = 1u << kSlicesLeftShift;
  EXPECT_EQ(CalledElements(call), 5 * kBlockElements);
  EXPECT_EQ(CalledBytes({.type = DataType::kInt64, .count = 3}), 24u);
  for (const uint64_t whole : {uint64_t{kBlockElements}, uint64_t{2 * kBlockElements}})
    EXPECT_EQ(CalledElements(InBlocks({.type = DataType::kFloat32, .count = whole})), whole);
}

TEST(ControlTest, APriorityIsNotCompared) {
  ControlHeader h = Sample();
  h.priority = 0x89abcdef;
  std::array<uint8_t, kControlBytes> bytes;
  Encode(h, bytes);
  EXPECT_EQ((std::array{bytes[56], bytes[57], bytes[58], bytes[59]}),
            (std::array<uint8_t, 4>{0xef, 0xcd, 0xab, 0x89}));
  EXPECT_EQ(DecodeControl(bytes), h);
  EXPECT_EQ(FirstDifference(h, Sample()), ControlField::kNone);
}

TEST(ControlTest, RefusesEveryByteThatMustBeZeroOrKnown) {
  std::array<uint8_t, kControlBytes> good;
  Encode(Sample(), good);
  for (const size_t at : {0, 1, 2, 3, 4, 5, 36, 37, 38, 39, 44, 48, 52, 53, 54, 55, 60, 63}) {
    auto bad = good;
    bad[at] = 0xff;
    EXPECT_EQ(DecodeControl(bad), std::nullopt) << "byte " << at;
  }
  EXPECT_EQ(DecodeControl(std::span(good).first(63)), std::nullopt);
}

// Ranks of a later version may call what this one has no row for. An element has a byte at least.
TEST(ControlTest, ReadsTypesAndOperationsOfALaterVersion) {
  ControlHeader h = Sample();
  h.type = DataType{40};
  h.op = ReduceOp{255};
  h.count = kMaxBytes;
  std::array<uint8_t, kControlBytes> bytes;
  Encode(h, bytes);
  EXPECT_EQ(DecodeControl(bytes), h);
  EXPECT_EQ(FirstDifference(*DecodeControl(bytes), Sample()), ControlField::kType);
  ++h.count;
  Encode(h, bytes);
  EXPECT_EQ(DecodeControl(bytes), std::nullopt);
  h.type = DataType::kNone;
  h.count = 1;
  Encode(h, bytes);
  EXPECT_EQ(DecodeControl(bytes), std::nullopt) << "elements of no type";
}

TEST(ControlTest, RefusesMoreThanOneGibibyte) {
  ControlHeader h = Sample();
  h.count = kMaxBytes / 4 + 1;
  std::array<uint8_t, kControlBytes> bytes;
  Encode(h, bytes);
  EXPECT_EQ(DecodeControl(bytes), std::nullopt);
}

TEST(ControlTest, CallsThatDifferInTheSlicesThatFollowDifferInTheCount) {
  const ControlHeader a = Sample();
  ControlHeader b = a;
  b.flags += 1u << kSlicesLeftShift;
  EXPECT_EQ(FirstDifference(a, b), ControlField::kCount);
  EXPECT_EQ(SlicesLeft(b), SlicesLeft(a) + 1);
}

// One after the other, from the last in the order to the first: what comes later in it does not matter.
TEST(ControlTest, NamesTheFirstFieldThatDiffers) {
  ControlHeader other = Sample();
  EXPECT_EQ(FirstDifference(Sample(), other), ControlField::kNone);
  const auto expect = [&other](ControlField field) {
    EXPECT_EQ(FirstDifference(Sample(), other), field) << Name(field);
    EXPECT_EQ(FirstDifference(other, Sample()), field) << Name(field);
  };
  other.turn = 1;
  expect(ControlField::kFlags);
  other.flags ^= kInlinedFlag;
  expect(ControlField::kFlags);
  other.flags ^= 1u << kSlicesLeftShift;
  expect(ControlField::kCount);
  other.count = 1;
  expect(ControlField::kCount);
  other.flags = Sample().flags ^ kInlinedFlag;
  expect(ControlField::kCount);
  other.flags ^= 1u << kSlicesLeftShift;
  other.parts = 1;
  expect(ControlField::kParts);
  other.root = 0;
  expect(ControlField::kRoot);
  other.flags ^= 1;  // an average
  expect(ControlField::kFlags);
  other.op = ReduceOp::kMax;
  expect(ControlField::kOp);
  other.type = DataType::kInt32;
  expect(ControlField::kType);
  other.flags ^= 0x20;
  expect(ControlField::kAlgorithm);
  other.collective = Collective::kReduce;
  expect(ControlField::kCollective);
  ++other.invocation;
  expect(ControlField::kInvocation);
}

// What another algorithm does with the data follows from it.
TEST(ControlTest, NamesTheAlgorithmApartFromOtherFlags) {
  ControlHeader here, there;
  there.flags = 0x10;
  EXPECT_EQ(FirstDifference(here, there), ControlField::kAlgorithm);
  there.flags = 0x20 | kInlinedFlag;
  EXPECT_EQ(FirstDifference(here, there), ControlField::kAlgorithm);
  EXPECT_STREQ(Name(ControlField::kAlgorithm), "algorithm");
  there.flags = 1;
  EXPECT_EQ(FirstDifference(here, there), ControlField::kFlags);
  there.flags = kInlinedFlag;
  EXPECT_EQ(FirstDifference(here, there), ControlField::kFlags);
}

// Without being told calls go by multicast from a length on: that is looked at behind the length.
TEST(ControlTest, ACallThatGoesByMulticastForItsLengthDiffersInThatFirst) {
  ControlHeader large = Sample(), small = Sample();
  large.flags |= kMulticastFlags;
  EXPECT_EQ(FirstDifference(small, large), ControlField::kAlgorithm) << "by a table of another version";
  EXPECT_EQ(FirstDifference(large, small), ControlField::kAlgorithm);
  small.count = 1;
  EXPECT_EQ(FirstDifference(small, large), ControlField::kCount);
  small.type = DataType::kFloat64;
  EXPECT_EQ(FirstDifference(large, small), ControlField::kType);
  small.flags |= 0x20;
  EXPECT_EQ(FirstDifference(large, small), ControlField::kAlgorithm) << "the ring, which was told";
}

// A call by the network has no algorithm: it differs in what sends the other one between the hosts.
TEST(ControlTest, ACallByTheNetworkDiffersFromOneByTheHostsInWhatSendsItThere) {
  ControlHeader network = Sample(), hosts = Sample();
  hosts.flags |= kByHostsFlag | 0x20;
  EXPECT_EQ(FirstDifference(network, hosts), ControlField::kFlags);
  // By its length another call goes another way, which is not what the user gave otherwise.
  hosts.count += 1000;
  EXPECT_EQ(FirstDifference(network, hosts), ControlField::kCount);
  hosts.op = ReduceOp::kProduct;
  EXPECT_EQ(FirstDifference(network, hosts), ControlField::kOp);
  EXPECT_EQ(FirstDifference(hosts, network), ControlField::kOp);
  network.flags |= kByHostsFlag | 0x10;
  EXPECT_EQ(FirstDifference(network, hosts), ControlField::kAlgorithm);
}

}  // namespace
}  // namespace epic
