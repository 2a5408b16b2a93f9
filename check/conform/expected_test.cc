#include "check/conform/expected.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "protocol/number_blocks.h"
#include "reduce/blocks.h"
#include "reduce/reduce.h"

namespace epic::conform {
namespace {

PacketBytes Floats(const std::vector<float>& values) {
  PacketBytes bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
PacketBytes Halves(const std::vector<uint16_t>& values) {
  PacketBytes bytes(values.size() * 2);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

PacketBytes Doubles(const std::vector<double>& values) {
  PacketBytes bytes(values.size() * 8);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

ControlHeader Sum(DataType type) {
  return {.collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = type, .count = 1};
}

// 2^24 + 1 + 1 is 2^24 from the left and 2^24 + 2 from the right.
TEST(ExpectedTest, ASumOfFloatsMayBeThatOfAnotherOrderUnlessTheOrderIsGiven) {
  const std::vector<Contribution> all = {{0, Floats({0x1p24f})}, {1, Floats({1})}, {2, Floats({1})}};
  const ControlHeader header = Sum(DataType::kFloat32);
  EXPECT_EQ(WrongPayload(header, all, Floats({0x1p24f}), true), "");
  EXPECT_EQ(WrongPayload(header, all, Floats({0x1p24f + 2}), false), "");
  EXPECT_NE(WrongPayload(header, all, Floats({0x1p24f + 2}), true), "");
  EXPECT_NE(WrongPayload(header, all, Floats({0x1p24f + 16}), false), "");
  EXPECT_NE(WrongPayload(header, all, Floats({-0x1p24f}), false), "");
}

TEST(ExpectedTest, AnyNanIsANan) {
  const std::vector<Contribution> all = {{0, Floats({NAN})}, {1, Floats({1})}};
  const PacketBytes other = Floats({-std::nanf("7")});
  EXPECT_EQ(WrongPayload(Sum(DataType::kFloat32), all, other, true), "");
  EXPECT_NE(WrongPayload(Sum(DataType::kFloat32), all, Floats({1}), false), "");
}

TEST(ExpectedTest, SixteenBits) {
  // binary16: 1 is 0x3c00, 2 is 0x4000, 2^-24 is 0x0001; 3 is 0x4200.
  const std::vector<Contribution> halves = {{0, Halves({0x3c00, 0x0001})}, {1, Halves({0x4000, 0x0001})}};
  EXPECT_EQ(WrongPayload(Sum(DataType::kFloat16), halves, Halves({0x4200, 0x0002}), false), "");
  EXPECT_NE(WrongPayload(Sum(DataType::kFloat16), halves, Halves({0x4210, 0x0002}), false), "");
  EXPECT_NE(WrongPayload(Sum(DataType::kFloat16), halves, Halves({0x4200, 0x0003}), false), "");
  // BF16: 1 is 0x3f80, 2 is 0x4000, 3 is 0x4040.
  const std::vector<Contribution> brains = {{0, Halves({0x3f80})}, {1, Halves({0x4000})}};
  EXPECT_EQ(WrongPayload(Sum(DataType::kBFloat16), brains, Halves({0x4040}), false), "");
  EXPECT_NE(WrongPayload(Sum(DataType::kBFloat16), brains, Halves({0x4048}), false), "");
}

ControlHeader Product(DataType type) {
  ControlHeader header = Sum(type);
  header.op = ReduceOp::kProduct;
  return header;
}

TEST(ExpectedTest, SixtyFourBits) {
  const std::vector<Contribution> all = {{0, Doubles({0x1p53})}, {1, Doubles({1})}, {2, Doubles({1})}};
  const ControlHeader header = Sum(DataType::kFloat64);
  EXPECT_EQ(WrongPayload(header, all, Doubles({0x1p53}), true), "");
  EXPECT_EQ(WrongPayload(header, all, Doubles({0x1p53 + 2}), false), "");
  EXPECT_NE(WrongPayload(header, all, Doubles({0x1p53 + 2}), true), "");
  EXPECT_NE(WrongPayload(header, all, Doubles({0x1p53 + 16}), false), "");
}

TEST(ExpectedTest, AProductOfFloatsMayBeThatOfAnotherOrderUnlessTheOrderIsGiven) {
  const std::vector<Contribution> all = {{0, Floats({1.1f})}, {1, Floats({1.3f})}, {2, Floats({1.7f})}};
  const ControlHeader header = Product(DataType::kFloat32);
  const float in_order = 1.1f * 1.3f * 1.7f;
  EXPECT_EQ(WrongPayload(header, all, Floats({in_order}), true), "");
  EXPECT_EQ(WrongPayload(header, all, Floats({std::nextafter(in_order, 9.0f)}), false), "");
  EXPECT_NE(WrongPayload(header, all, Floats({std::nextafter(in_order, 9.0f)}), true), "");
  EXPECT_NE(WrongPayload(header, all, Floats({in_order * 1.1f}), false), "") << "one twice";
  EXPECT_NE(WrongPayload(header, all, Floats({-in_order}), false), "");
  EXPECT_NE(WrongPayload(header, all, Floats({NAN}), false), "");
}

// 2^100 * 2^100 * 2^-100 is infinite or 2^100 as the order has it; 2^70 * 2^70 is infinite in any.
TEST(ExpectedTest, WhatOverflowsOnTheWayMayBeAnything) {
  const ControlHeader header = Product(DataType::kFloat32);
  const std::vector<Contribution> all = {
      {0, Floats({0x1p100f})}, {1, Floats({0x1p100f})}, {2, Floats({0x1p-100f})}};
  EXPECT_EQ(WrongPayload(header, all, Floats({0x1p100f}), false), "");
  EXPECT_EQ(WrongPayload(header, all, Floats({INFINITY}), false), "");
  EXPECT_NE(WrongPayload(header, all, Floats({0x1p100f}), true), "");
  const std::vector<Contribution> other = {all[0], all[2], all[1]};
  EXPECT_EQ(WrongPayload(header, other, Floats({INFINITY}), false), "");
  EXPECT_NE(WrongPayload(header, other, Floats({INFINITY}), true), "");
  // FP16 in FP32: 2^15 * 2^15 * 2^-20.
  const std::vector<Contribution> halves = {
      {0, Halves({0x7800})}, {1, Halves({0x7800})}, {2, Halves({0x0010})}};
  EXPECT_EQ(WrongPayload(Product(DataType::kFloat16), halves, Halves({0x6400}), false), "");
  EXPECT_NE(WrongPayload(Product(DataType::kFloat16), halves, Halves({0x7c00}), false), "");
}

TEST(ExpectedTest, IntegersHaveNoTolerance) {
  for (const OpInfo& row : kReduceOps) {
    ControlHeader header = Sum(DataType::kUint64);
    header.op = row.op;
    if (!CanReduce(row.op, header.type)) continue;
    const std::vector<Contribution> all = {{0, Doubles({3.5})}, {1, Doubles({-7.25})}};  // any bits
    for (const bool exact : {false, true}) {
      PacketBytes seen(8);
      Load(row.op, header.type, seen, all[0].payload);
      Accumulate(row.op, header.type, seen, all[1].payload);
      EXPECT_EQ(WrongPayload(header, all, seen, exact), "") << row.name;
      seen[5] ^= 1;
      EXPECT_NE(WrongPayload(header, all, seen, exact), "") << row.name;
    }
  }
}

// What has come to a limit in some order may be at it; what is at none is exact.
TEST(ExpectedTest, SaturatingSumsDependOnTheOrderAtTheirLimitsAlone) {
  ControlHeader header = Sum(DataType::kInt32);
  header.op = ReduceOp::kSaturatingSum;
  const auto ints = [](std::vector<int32_t> values) {
    PacketBytes bytes(4 * values.size());
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  };
  const std::vector<Contribution> all = {
      {0, ints({2'000'000'000})}, {1, ints({2'000'000'000})}, {2, ints({-2'100'000'000})}};
  EXPECT_EQ(WrongPayload(header, all, ints({INT32_MAX}), true), "");
  EXPECT_EQ(WrongPayload(header, all, ints({INT32_MAX}), false), "");
  EXPECT_EQ(WrongPayload(header, all, ints({1'900'000'000}), false), "") << "the negative one in between";
  EXPECT_NE(WrongPayload(header, all, ints({1'900'000'000}), true), "");
  EXPECT_NE(WrongPayload(header, all, ints({1'900'000'001}), false), "");
  EXPECT_NE(WrongPayload(header, all, ints({INT32_MIN}), false), "");
  EXPECT_NE(WrongPayload(header, all, ints({INT32_MAX - 2'100'000'000}), false), "") << "it came back";
  const std::vector<Contribution> stays = {{0, ints({INT32_MAX})}, {1, ints({-5})}};
  EXPECT_NE(WrongPayload(header, stays, ints({INT32_MAX - 5}), false), "");
}

// In blocks, of numbers whose sum in FP32 depends on the order: 2^24 + 1 + 1 - 2^24 is 0 from the left, 1
// from the right. Others are apart from what is added, or of the neighbouring block.
TEST(ExpectedTest, ABlockIsAsNearAsItsScale) {
  const auto blocks = [](const std::vector<float>& first, const std::vector<float>& second) {
    PacketBytes bytes(2 * kBlockBytes);
    std::vector<float> both = first;
    both.insert(both.end(), second.begin(), second.end());
    QuantiseBlocks(DataType::kFloat32, bytes, Floats(both));
    return bytes;
  };
  const auto all_of = [](float x) { return std::vector<float>(kBlockElements, x); };
  const std::vector<Contribution> all = {{0, blocks(all_of(127 * 0x1p24f), all_of(3 * 127))},
                                         {1, blocks(all_of(127), all_of(2 * 127))},
                                         {2, blocks(all_of(-127 * 0x1p24f), all_of(0))}};
  const ControlHeader header = Sum(DataType::kBlock8);
  const PacketBytes right = blocks(all_of(127), all_of(5 * 127)), other = blocks(all_of(0), all_of(5 * 127));
  EXPECT_EQ(WrongPayload(header, all, right, false), "");
  EXPECT_EQ(WrongPayload(header, all, other, false), "");
  EXPECT_NE(WrongPayload(header, all, right, true) + WrongPayload(header, all, other, true), "");
  EXPECT_NE(WrongPayload(header, all, blocks(all_of(127), all_of(5.5f * 127)), false), "");
  EXPECT_NE(WrongPayload(header, all, blocks(all_of(127), all_of(NAN)), false), "");
  PacketBytes swapped = right;
  std::copy_n(right.begin(), 2, swapped.begin() + kBlockBytes);
  EXPECT_NE(WrongPayload(header, all, swapped, false), "") << "the scale of the block in front";
  PacketBytes coarse = right;
  coarse[kBlockBytes + 1] += 2;  // 16 times the scale, of numbers a sixteenth
  std::fill_n(coarse.begin() + kBlockBytes + 2, kBlockElements, static_cast<uint8_t>(8));
  EXPECT_NE(WrongPayload(header, all, coarse, false), "") << "within half of its own scale";
  const std::vector<Contribution> nan = {{0, blocks(all_of(NAN), all_of(127))},
                                         {1, blocks(all_of(127), all_of(127))}};
  EXPECT_EQ(WrongPayload(header, nan, blocks(all_of(NAN), all_of(254)), false), "");
  EXPECT_NE(WrongPayload(header, nan, blocks(all_of(127), all_of(254)), false), "");
}

TEST(ExpectedTest, MinimaHaveNoTolerance) {
  ControlHeader header = Sum(DataType::kFloat32);
  header.op = ReduceOp::kMin;
  const std::vector<Contribution> all = {{0, Floats({1})}, {1, Floats({2})}};
  EXPECT_EQ(WrongPayload(header, all, Floats({1}), false), "");
  EXPECT_NE(WrongPayload(header, all, Floats({std::nextafter(1.0f, 2.0f)}), false), "");
}

TEST(ExpectedTest, ACallByTheHostsIsServedByEveryone) {
  engine::GroupConfig group{{.world_size = 8}};
  group.abilities = Abilities::First();
  ControlHeader header = Sum(DataType::kFloat64);
  EXPECT_FALSE(CanServe(header, group));
  header.flags = kByHostsFlag;
  EXPECT_TRUE(CanServe(header, group));
  header.root = 8;
  EXPECT_FALSE(CanServe(header, group)) << "its fields must fit the group all the same";
}

TEST(ExpectedTest, TheFirstDifferenceAndItsCulprit) {
  ControlHeader a = Sum(DataType::kInt32), b = a;
  b.count = 2;
  PacketBytes first(kControlBytes), second(kControlBytes);
  Encode(a, std::span<uint8_t, kControlBytes>(first));
  Encode(b, std::span<uint8_t, kControlBytes>(second));
  const auto merged = DecodeControl(MergedControl({{0, first}, {1, second}}, {0, 5}, {{.world_size = 8}}));
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(merged->status, ControlStatus::kMismatch);
  EXPECT_EQ(merged->field, ControlField::kCount);
  EXPECT_EQ(merged->culprit, 5u);
  EXPECT_EQ(merged->count, 1u);
}

}  // namespace
}  // namespace epic::conform
