// Groups that are left at the end of a program.
#include "mpi/binding/leavers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "mpi/binding/group_testing.h"

namespace epic::mpi {
namespace {

// Ranks of as many groups: each leaves when all of them do.
class Meeting {
 public:
  explicit Meeting(int groups) : groups_(groups) {}

  // Whether all have come in time.
  bool Wait(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    ++here_;
    changed_.notify_all();
    return changed_.wait_for(lock, at_most, [this] { return here_ == groups_; });
  }

 private:
  const int groups_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int here_ = 0;
};

class FakeGroup : public NoGroup {
 public:
  FakeGroup(Meeting* meeting, std::atomic<int>* met) : meeting_(meeting), met_(met) {}
  void Leave(std::chrono::milliseconds at_most) override {
    if (meeting_->Wait(at_most)) ++*met_;
  }

 private:
  Meeting* meeting_;
  std::atomic<int>* met_;
};

// A rank that does not come is waited for once, not once for each of them.
TEST(LeaversTest, WhatIsLeftAtTheEndGoesTogether) {
  constexpr int kGroups = 5;
  Meeting meeting(kGroups);
  std::atomic<int> met = 0;
  Leavers leavers;
  for (int i = 0; i < kGroups; ++i) leavers.Leave(std::make_unique<FakeGroup>(&meeting, &met));
  leavers.Wait();
  EXPECT_EQ(met, kGroups);
}

TEST(LeaversTest, WhatIsKeptAtTheEndGoesToo) {
  Meeting meeting(2);
  std::atomic<int> met = 0;
  Leavers leavers;
  for (const char* name : {"a", "b", "c"}) {
    leavers.Keep({.name = name,
                  .members = 7,
                  .rank = 0,
                  .ranks = 2,
                  .group = std::make_unique<FakeGroup>(&meeting, &met)},
                 std::chrono::hours(1));
  }
  EXPECT_EQ(leavers.Offer(7), "c");
  EXPECT_NE(leavers.Take("c", 0, 2), nullptr);
  leavers.Wait();
  EXPECT_EQ(met, 2);
  EXPECT_EQ(leavers.Offer(7), "");
}

TEST(LeaversTest, WhatHasBeenKeptForItsTimeIsLeft) {
  Meeting meeting(2);
  std::atomic<int> met = 0;
  Leavers leavers;
  leavers.Keep({.name = "a",
                .members = 7,
                .rank = 0,
                .ranks = 2,
                .group = std::make_unique<FakeGroup>(&meeting, &met)},
               std::chrono::milliseconds(1));
  // Returns when that group is being left.
  EXPECT_TRUE(meeting.Wait(std::chrono::hours(1)));
  EXPECT_EQ(leavers.Offer(7), "");
  leavers.Wait();
  EXPECT_EQ(met, 1);
}

TEST(LeaversTest, AfterTheEndThereCanBeMore) {
  Meeting meeting(1);
  std::atomic<int> met = 0;
  Leavers leavers;
  leavers.Wait();
  leavers.Leave(std::make_unique<FakeGroup>(&meeting, &met));
  leavers.Wait();
  EXPECT_EQ(met, 1);
  leavers.Wait();
}

}  // namespace
}  // namespace epic::mpi
