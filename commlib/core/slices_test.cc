#include "commlib/core/slices.h"

#include <vector>

#include "gtest/gtest.h"

namespace epic {
namespace {

TEST(SlicesTest, WhatFitsIsOneSlice) {
  for (const uint64_t most : {1, 7, 1024, 5000}) {
    EXPECT_EQ(SlicesOf(0, most), 1u);
    EXPECT_EQ(SliceAt(0, most, 0), (Slice{0, 0}));
    EXPECT_EQ(SlicesOf(most, most), 1u);
    EXPECT_EQ(SliceAt(most, most, 0), (Slice{0, most}));
    EXPECT_EQ(SlicesOf(most + 1, most), 2u);
  }
}

TEST(SlicesTest, SlicesAreTheCallInOrderAndNoneIsShort) {
  for (const uint64_t most : {1, 2, 7, 1000, 1023, 1024, 1025, 4096, 10000}) {
    const uint64_t grain = most >= kSliceGrain ? kSliceGrain : 1;
    for (const uint64_t count : {1, 2, 13, 1023, 1024, 1025, 9999, 10000, 10001, 123457}) {
      const uint64_t slices = SlicesOf(count, most);
      uint64_t next = 0;
      for (uint64_t k = 0; k < slices; ++k) {
        const Slice slice = SliceAt(count, most, k);
        EXPECT_EQ(slice.first, next);
        EXPECT_GT(slice.count, 0u);
        EXPECT_LE(slice.count, most);
        if (slices > 1) {
          EXPECT_EQ(slice.first % grain, 0u);
          EXPECT_LE(count / slices, slice.count + 2 * grain) << "all are about as long";
        }
        next += slice.count;
      }
      EXPECT_EQ(next, count) << count << " in slices of at most " << most;
    }
  }
}

TEST(SlicesTest, TheLongestCallHasNoOverflow) {
  constexpr uint64_t kCount = 1ull << 46;
  EXPECT_EQ(SlicesOf(kCount, 1ull << 30), 1u << 16);
  EXPECT_EQ(SliceAt(kCount, 1ull << 30, 0xffff), (Slice{kCount - (1ull << 30), 1ull << 30}));
}

// A call of 2 GiB and one of 1 GiB begin with a slice of the same count.
TEST(SlicesTest, HeadersOfCallsThatDifferInLengthDiffer) {
  const ControlHeader one{.collective = Collective::kAllReduce,
                          .op = ReduceOp::kSum,
                          .type = DataType::kInt8,
                          .count = 4096,
                          .flags = 1};
  ControlHeader two = one;
  two.count = 8192;
  const ControlHeader first = HeaderOfSlice(two, 4096, 0);
  EXPECT_EQ(first.count, 4096u);
  EXPECT_EQ(SlicesLeft(first), 1u);
  EXPECT_EQ(first.flags & 0xff, 1u);
  EXPECT_EQ(FirstDifference(HeaderOfSlice(one, 4096, 0), first), ControlField::kCount);
  EXPECT_EQ(HeaderOfSlice(one, 4096, 0), one);
  EXPECT_EQ(HeaderOfSlice(two, 4096, 1), one);
}

}  // namespace
}  // namespace epic
