#include "check/conform/expected.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

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

TEST(ExpectedTest, MinimaHaveNoTolerance) {
  ControlHeader header = Sum(DataType::kFloat32);
  header.op = ReduceOp::kMin;
  const std::vector<Contribution> all = {{0, Floats({1})}, {1, Floats({2})}};
  EXPECT_EQ(WrongPayload(header, all, Floats({1}), false), "");
  EXPECT_NE(WrongPayload(header, all, Floats({std::nextafter(1.0f, 2.0f)}), false), "");
}

TEST(ExpectedTest, TheFirstDifferenceAndItsCulprit) {
  ControlHeader a = Sum(DataType::kInt32), b = a;
  b.count = 2;
  PacketBytes first(kControlBytes), second(kControlBytes);
  Encode(a, std::span<uint8_t, kControlBytes>(first));
  Encode(b, std::span<uint8_t, kControlBytes>(second));
  const auto merged = DecodeControl(MergedControl({{0, first}, {1, second}}, {0, 5}, {.world_size = 8}));
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(merged->status, ControlStatus::kMismatch);
  EXPECT_EQ(merged->field, ControlField::kCount);
  EXPECT_EQ(merged->culprit, 5u);
  EXPECT_EQ(merged->count, 1u);
}

}  // namespace
}  // namespace epic::conform
