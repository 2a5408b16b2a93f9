#include "commlib/backoff.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace epic::internal {
namespace {

TEST(Backoff, DoublesUpToItsMostAndBeginsAgainAfterASuccess) {
  Backoff backoff;
  std::vector<int64_t> waits;
  for (int i = 0; i < 7; ++i) waits.push_back(backoff.Next().count());
  EXPECT_THAT(waits, ::testing::ElementsAre(100, 200, 400, 800, 1600, 2000, 2000));
  backoff.Reset();
  EXPECT_EQ(backoff.Next(), Backoff::kFirst);
}

}  // namespace
}  // namespace epic::internal
