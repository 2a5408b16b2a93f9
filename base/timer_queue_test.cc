#include "base/timer_queue.h"

#include <gtest/gtest.h>

namespace epic {
namespace {

TEST(TimerQueue, PopsWhatIsDueEarliestFirst) {
  TimerQueue timers;
  EXPECT_EQ(timers.NextDeadline(), kNever);
  timers.Set(1, 30);
  timers.Set(2, 10);
  timers.Set(3, 20);
  EXPECT_EQ(timers.NextDeadline(), 10);
  EXPECT_EQ(timers.PopDue(9), std::nullopt);
  EXPECT_EQ(timers.PopDue(20), 2u);
  EXPECT_EQ(timers.PopDue(20), 3u);
  EXPECT_EQ(timers.PopDue(20), std::nullopt);
  EXPECT_EQ(timers.NextDeadline(), 30);
}

TEST(TimerQueue, SettingAgainMovesTheTimerBothWays) {
  TimerQueue timers;
  timers.Set(1, 30);
  timers.Set(1, 10);
  EXPECT_EQ(timers.NextDeadline(), 10);
  timers.Set(1, 50);
  EXPECT_EQ(timers.PopDue(49), std::nullopt);
  EXPECT_EQ(timers.PopDue(50), 1u);
  EXPECT_EQ(timers.PopDue(1000), std::nullopt);  // once only
}

TEST(TimerQueue, TimersOfOneDeadlineAllFire) {
  TimerQueue timers;
  timers.Set(1, 10);
  timers.Set(2, 10);
  EXPECT_EQ(timers.PopDue(10), 1u);
  EXPECT_EQ(timers.PopDue(10), 2u);
}

}  // namespace
}  // namespace epic
