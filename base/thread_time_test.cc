#include "base/thread_time.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace epic {
namespace {

TEST(WaitedSinceTest, IsWhatTheKernelAdded) {
  EXPECT_EQ(WaitedSince({.ran_ns = 5, .waited_ns = 100}, {.ran_ns = 9, .waited_ns = 400}, 1000),
            300);
}

TEST(WaitedSinceTest, AWaitThatBeganBeforeCountsFromThenOn) {
  EXPECT_EQ(WaitedSince({.ran_ns = 5, .waited_ns = 100}, {.ran_ns = 9, .waited_ns = 4000}, 1000),
            1000);
}

TEST(WaitedSinceTest, OneThatIsRunnableAndHasNotRunHasWaitedAllTheTime) {
  EXPECT_EQ(WaitedSince({.ran_ns = 5, .waited_ns = 100}, {.ran_ns = 5, .waited_ns = 100, .runnable = true},
                        1000),
            1000);
  EXPECT_EQ(WaitedSince({.ran_ns = 5, .waited_ns = 100}, {.ran_ns = 5, .waited_ns = 100}, 1000),
            0);
  EXPECT_EQ(WaitedSince({.ran_ns = 5, .waited_ns = 100}, {.ran_ns = 9, .waited_ns = 100, .runnable = true},
                        1000),
            0);
}

// A thread may end between open and read: read fails then, as it does of a folder.
TEST(TimeOfTest, NothingOfWhatCannotBeRead) {
  std::string folder = std::filesystem::temp_directory_path() / "epic-time-of-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (const char* file : {"schedstat", "stat"}) std::filesystem::create_directory(folder + "/" + file);
  EXPECT_FALSE(TimeOf(folder));
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(TimeOf(folder));
  EXPECT_TRUE(TimeOf("/proc/thread-self"));
}

TEST(OwnWaitTest, IsWhatTimeOfSays) {
  const Nanos before = OwnWait();
  const std::optional<ThreadTime> time = TimeOf("/proc/thread-self");
  const Nanos after = OwnWait();
  ASSERT_TRUE(time);
  EXPECT_LE(before, static_cast<Nanos>(time->waited_ns));
  EXPECT_LE(static_cast<Nanos>(time->waited_ns), after);
}

}  // namespace
}  // namespace epic
