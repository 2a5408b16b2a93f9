#include "incengine/state/segment.h"

#include <gtest/gtest.h>

namespace epic::engine {
namespace {

TEST(DirectionTest, MapsIndexAndPsnThroughTheWrap) {
  Direction d(Psn(0xfffffe));
  d.Open(0, 3, 2);
  d.Open(1, 0, 2);
  d.Open(2, 1, 2);
  for (Index i = 0; i < d.next_index(); ++i) {
    EXPECT_EQ(d.WireOf(i), Psn(0xfffffe) + i);
    EXPECT_EQ(d.IndexOf(Psn(0xfffffe) + i), i);
  }
  EXPECT_EQ(d.next_index(), 7);
  EXPECT_EQ(d.IndexOf(Psn(0xfffffd)), std::nullopt);
  EXPECT_EQ(d.IndexOf(d.next_wire()), std::nullopt);
  EXPECT_EQ(d.WireOf(7), d.next_wire());
}

TEST(DirectionTest, CountsMessagesAsTheReceiverDoes) {
  Direction d(Psn(0));
  d.Open(0, 5, 2);  // control, messages of 2, 2 and 1 packets
  const std::vector<uint32_t> msn = {1, 1, 2, 2, 3, 4};
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(d.MsnAfter(i), msn[static_cast<size_t>(i)]) << i;
  d.Open(1, 0, 2);
  EXPECT_EQ(d.MsnAfter(6), 5u);
}

TEST(DirectionTest, ForgetsTheOldestInvocation) {
  Direction d(Psn(0));
  for (int64_t k = 0; k < kKeptInvocations; ++k) d.Open(k, 1, 1);
  EXPECT_TRUE(d.IndexOf(Psn(0)).has_value());
  EXPECT_FALSE(d.CanOpenKeeping(1));
  EXPECT_TRUE(d.CanOpenKeeping(2));
  d.Open(kKeptInvocations, 1, 1);
  EXPECT_FALSE(d.IndexOf(Psn(1)).has_value());
  EXPECT_TRUE(d.IndexOf(Psn(2)).has_value());
}

}  // namespace
}  // namespace epic::engine
