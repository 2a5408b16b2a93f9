#include "incmanager/rpc/refusals.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "incmanager/rpc/refusal_rate.h"

namespace epic::manager {
namespace {

TEST(Refusals, TwoByTurnsAreToldOnceEach) {
  Refusals refusals;
  int told = 0;
  for (Nanos now = 0; now < 10 * Refusals::kRemembered; now += kSecond) {
    told += refusals.IsNew(now, "a", "a: no") ? 1 : 0;
    told += refusals.IsNew(now, "b", "b: no") ? 1 : 0;
  }
  EXPECT_EQ(told, 2);
}

TEST(Refusals, AreNewsWhenTheyHaveNotComeForAWhileOrAnotherReasonComes) {
  Refusals refusals;
  EXPECT_TRUE(refusals.IsNew(0, "a", "no"));
  EXPECT_TRUE(refusals.IsNew(0, "a", "never"));
  EXPECT_FALSE(refusals.IsNew(Refusals::kRemembered, "a", "no"));
  EXPECT_TRUE(refusals.IsNew(2 * Refusals::kRemembered + 1, "a", "no"));
}

TEST(Refusals, WhoIsTakenIsToldOfAnew) {
  Refusals refusals;
  EXPECT_TRUE(refusals.IsNew(0, "a", "no"));
  EXPECT_TRUE(refusals.IsNew(0, "b", "no"));
  refusals.Forget("a");
  EXPECT_TRUE(refusals.IsNew(1, "a", "no"));
  EXPECT_FALSE(refusals.IsNew(1, "b", "no"));
}

TEST(Refusals, TheOldestGoesWhenThereAreTooMany) {
  Refusals refusals;
  for (size_t i = 0; i <= Refusals::kMost; ++i)
    EXPECT_TRUE(refusals.IsNew(static_cast<Nanos>(i), fmt::format("{}", i), "no"));
  EXPECT_FALSE(refusals.IsNew(Refusals::kMost, fmt::format("{}", Refusals::kMost), "no"))
      << "the newest stays";
  EXPECT_TRUE(refusals.IsNew(Refusals::kMost, "0", "no"));
}

TEST(RefusalRateTest, SoManyOfASecondAreToldOfEachPeer) {
  RefusalRate rate(3);
  for (Nanos now = 0; now < 3 * kSecond; now += kSecond) {
    int told = 0;
    for (int i = 0; i < 100; ++i) told += rate.IsTold(now + i, "host h0") ? 1 : 0;
    EXPECT_EQ(told, 3);
    EXPECT_TRUE(rate.IsTold(now + 200, "host h1")) << "another one is told all the same";
  }
}

TEST(RefusalRateTest, OfManyPeersTheOldestIsForgotten) {
  RefusalRate rate(1);
  EXPECT_TRUE(rate.IsTold(0, "first"));
  EXPECT_TRUE(rate.IsTold(1, "second"));
  for (size_t i = 0; i < RefusalRate::kPeers - 1; ++i) EXPECT_TRUE(rate.IsTold(2, std::to_string(i)));
  EXPECT_FALSE(rate.IsTold(3, "second"));
  EXPECT_TRUE(rate.IsTold(4, "first"));
}

}  // namespace
}  // namespace epic::manager
