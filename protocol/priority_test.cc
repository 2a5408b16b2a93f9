#include "protocol/priority.h"

#include <gtest/gtest.h>

#include <limits>

namespace epic {
namespace {

TEST(PriorityTest, IsInSixteenBitsBeforeThePointAndSixteenBehind) {
  EXPECT_EQ(PriorityOf(1), kDefaultPriority);
  EXPECT_EQ(PriorityOf(2.5), 0x28000u);
  EXPECT_EQ(ValueOf(0x28000), 2.5);
}

TEST(PriorityTest, IsClampedToWhatThereIs) {
  EXPECT_EQ(PriorityOf(0), kLeastPriority);
  EXPECT_EQ(PriorityOf(1e-9), kLeastPriority);
  EXPECT_EQ(PriorityOf(65'535), kMostPriority);
  EXPECT_EQ(PriorityOf(65'535.9), kMostPriority);
  EXPECT_EQ(PriorityOf(std::numeric_limits<double>::max()), kMostPriority);
}

TEST(PriorityTest, WhatIsNone) {
  using Limits = std::numeric_limits<double>;
  for (const double wrong : {-1e-300, -1.0, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()})
    EXPECT_FALSE(IsPriority(wrong)) << wrong;
  for (const double right : {0.0, 1.0, 1e300}) EXPECT_TRUE(IsPriority(right)) << right;
}

TEST(PriorityTest, WhatAControlPacketSays) {
  EXPECT_EQ(SaidPriority(0, 0), kDefaultPriority) << "who knows of none says 0";
  EXPECT_EQ(SaidPriority(1, 0), 1u);
  EXPECT_EQ(SaidPriority(UINT32_MAX, 0), kMostPriority);
  EXPECT_EQ(SaidPriority(9 << 16, 3 << 16), 3u << 16);
  EXPECT_EQ(SaidPriority(0, 1 << 15), 1u << 15) << "the limit is also the default's";
  EXPECT_EQ(SaidPriority(UINT32_MAX, UINT32_MAX), kMostPriority);
}

}  // namespace
}  // namespace epic
