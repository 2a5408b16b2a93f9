#include "base/psn.h"

#include <gtest/gtest.h>

#include <random>

namespace epic {
namespace {

TEST(PsnTest, KeepsTheLow24Bits) { EXPECT_EQ(Psn(0x1000005).raw(), 5u); }

TEST(PsnTest, WrapsAt2To24) {
  EXPECT_EQ((Psn(0xffffff) + 1).raw(), 0u);
  EXPECT_EQ((Psn(0) - 1).raw(), 0xffffffu);
  EXPECT_EQ(Psn(2).DistanceFrom(Psn(0xfffffe)), 4);
  EXPECT_EQ(Psn(0xfffffe).DistanceFrom(Psn(2)), -4);
}

TEST(PsnTest, DistanceCoversHalfTheSpaceEachWay) {
  EXPECT_EQ(Psn(0x7fffff).DistanceFrom(Psn(0)), 0x7fffff);
  EXPECT_EQ(Psn(0x800000).DistanceFrom(Psn(0)), -0x800000);
}

TEST(PsnTest, AddingADistanceLeadsThere) {
  std::minstd_rand rng(1);
  for (int i = 0; i < 10000; ++i) {
    const Psn a(static_cast<uint32_t>(rng()));
    const Psn b(static_cast<uint32_t>(rng()));
    EXPECT_EQ(a + b.DistanceFrom(a), b) << a.raw() << " " << b.raw();
  }
}

}  // namespace
}  // namespace epic
