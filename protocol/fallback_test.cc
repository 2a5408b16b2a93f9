#include "protocol/fallback.h"

#include <gtest/gtest.h>

namespace epic {
namespace {

TEST(FallbackTest, TheImmediateHasTheKindAndTheLowBitsOfTheIndex) {
  EXPECT_EQ(LegImmediate(LegMessage::kPart, 5), 0x20000005u);
  EXPECT_EQ(LegImmediate(LegMessage::kSum, (int64_t{3} << 28) + 7), 0x50000007u);
}

TEST(FallbackTest, WhatOpensACallComesBack) {
  const LegOpen open{.header = {.collective = Collective::kAllReduce,
                                .op = ReduceOp::kSum,
                                .type = DataType::kInt32,
                                .invocation = 3,
                                .count = 64},
                     .control_index = int64_t{1} << 40};
  const auto bytes = EncodeOpen(open);
  EXPECT_EQ(bytes.size(), 72u);
  const auto back = DecodeOpen(bytes);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->header, open.header);
  EXPECT_EQ(back->control_index, open.control_index);
}

TEST(FallbackTest, WhatIsMalformedIsNone) {
  auto bytes = EncodeOpen({.header = {.collective = Collective::kBarrier}, .control_index = 1});
  EXPECT_FALSE(DecodeOpen(std::span(bytes).first(kOpenBytes - 1)).has_value());
  auto negative = bytes;
  negative.back() = 0x80;
  EXPECT_FALSE(DecodeOpen(negative).has_value());
  bytes[0] ^= 1;
  EXPECT_FALSE(DecodeOpen(bytes).has_value());
}

}  // namespace
}  // namespace epic
