#include "softnic/verbs/waited_clock.h"

#include <gtest/gtest.h>

namespace epic::softnic {
namespace {

using enum WaitedClock::Looker;

class WaitedClockTest : public ::testing::Test {
 protected:
  WaitedClockTest() {
    // Two names of threads: that of this one, and that of none.
    clock_.Note(epic::kSecond, kHelper, one_, 500);
  }

  const std::thread::id one_ = std::this_thread::get_id(), other_;
  WaitedClock clock_;
};

TEST_F(WaitedClockTest, CountsWhatAThreadWaitedSinceItWasSeenLast) {
  EXPECT_EQ(clock_.waited(), 0) << "before";
  clock_.Note(2 * epic::kSecond, kHelper, one_, 700);
  EXPECT_EQ(clock_.waited(), 200);
  clock_.Note(3 * epic::kSecond, kHelper, one_, 700);
  EXPECT_EQ(clock_.waited(), 200);
}

TEST_F(WaitedClockTest, IsAskedNowAndThen) {
  EXPECT_FALSE(clock_.IsDue(epic::kSecond + 99 * kMillisecond));
  EXPECT_TRUE(clock_.IsDue(epic::kSecond + 100 * kMillisecond));
}

TEST_F(WaitedClockTest, NoMoreThanThereWasTime) {
  clock_.Note(2 * epic::kSecond, kApplication, other_, 0);
  clock_.Note(2 * epic::kSecond + 10, kHelper, one_, 500 + epic::kSecond);
  EXPECT_EQ(clock_.waited(), 10) << "the rest was before the other one was seen, which did not wait";
}

TEST_F(WaitedClockTest, OfAnotherThreadOfTheApplicationNothingIsKnown) {
  clock_.Note(2 * epic::kSecond, kApplication, one_, 100);
  clock_.Note(3 * epic::kSecond, kApplication, other_, 900);
  EXPECT_EQ(clock_.waited(), 0);
  clock_.Note(4 * epic::kSecond, kApplication, other_, 950);
  EXPECT_EQ(clock_.waited(), 50);
}

}  // namespace
}  // namespace epic::softnic
