#include "commlib/crowding.h"

#include <gtest/gtest.h>

namespace epic::internal {
namespace {

TEST(CrowdingTest, TheFourthFieldOfLoadavgHasTheThreadsThatWantToRun) {
  EXPECT_EQ(RunnableThreads("0.52 0.58 0.59 3/870 1234\n"), 3);
  EXPECT_EQ(RunnableThreads("120.00 58.10 9.33 1024/87000 4194303\n"), 1024);
}

TEST(CrowdingTest, OtherTextSaysNothing) {
  for (const char* text : {"", "0.52", "0.52 0.58 0.59", "0.52 0.58 0.59 ", "0.52 0.58 0.59 3", "a b c d/e 1",
                           "0.52 0.58 0.59 -3/870 1"}) {
    EXPECT_EQ(RunnableThreads(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace epic::internal
