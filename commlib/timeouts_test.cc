#include "commlib/timeouts.h"

#include "gtest/gtest.h"

namespace epic::internal {
namespace {

using std::chrono::milliseconds;

TEST(TimeoutsTest, ADeadlineThatTheClockDoesNotReachNeverComes) {
  const Clock::time_point now = Clock::time_point(std::chrono::hours(24 * 365));
  EXPECT_EQ(DeadlineAfter(now, milliseconds(5)), now + milliseconds(5));
  EXPECT_EQ(DeadlineAfter(now, milliseconds::max()), Clock::time_point::max());
  EXPECT_EQ(DeadlineAfter(now, milliseconds::max() / 1000'000), Clock::time_point::max());
  // Twice, as with a time of grace.
  EXPECT_EQ(DeadlineAfter(Clock::time_point::max(), milliseconds(1)), Clock::time_point::max());
  const auto far = std::chrono::hours(24 * 365 * 200);
  EXPECT_EQ(DeadlineAfter(now, far), now + far);
}

TEST(TimeoutsTest, ATimeThatDoesNotFitOnTheWireIsForEver) {
  EXPECT_EQ(WireMilliseconds(milliseconds(0)), 0u);
  EXPECT_EQ(WireMilliseconds(milliseconds(1500)), 1500u);
  EXPECT_EQ(WireMilliseconds(milliseconds(int64_t{1} << 32)), UINT32_MAX) << "and not 0, the default";
  EXPECT_EQ(WireMilliseconds(milliseconds::max()), UINT32_MAX);
}

}  // namespace
}  // namespace epic::internal
