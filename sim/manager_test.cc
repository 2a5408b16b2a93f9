// What the manager of a world makes of a crash.
#include "sim/manager.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace epic::sim {
namespace {

constexpr Nanos kLease = 5 * kMillisecond;
constexpr Nanos kLimit = kSecond;

// tree-3-2: switches 1 and 2 have the hosts 0, 1 and 2, 3. Group 0 has all hosts, group 1 the first two.
class ManagerTest : public testing::TestWithParam<engine::Mode> {
 protected:
  ManagerTest()
      : world_({.mode = GetParam(), .tree = FullTree(2, 2), .host_timeout = 8, .arena_bytes = 4 << 20}, 1),
        second_(world_.AddGroup({.mode = GetParam(), .rank_host = {0, 1}})),
        manager_(world_, trace_, choices_,
                 {.lease = kLease, .message = 100 * kMicrosecond, .quarantine = kSecond},
                 [this](int group) { made_.push_back(group); }) {}

  void Barrier(int group) {
    for (int r = 0; r < world_.ranks(group); ++r) {
      if (world_.host(r, group).alive()) world_.host(r, group).Barrier();
    }
  }
  void CrashEngine(int s, Nanos until) {
    manager_.EngineCrashes(s);
    world_.CrashEngine(s, until);
  }
  bool RunToEnd() {
    return world_.RunUntil(
        [this] {
          if (!manager_.idle()) return false;
          for (int g = 0; g < world_.groups(); ++g) {
            if (!world_.AllDone(g)) return false;
          }
          return true;
        },
        world_.now() + kLimit);
  }

  World world_;
  const int second_;
  Choices choices_{2};
  Trace trace_{{}};
  std::vector<int> made_;
  Manager manager_;
};

TEST_P(ManagerTest, AGroupThroughASwitchThatCrashedFailsAndNoOther) {
  Barrier(0);
  Barrier(second_);
  CrashEngine(2, kMicrosecond);
  ASSERT_TRUE(RunToEnd());
  EXPECT_TRUE(manager_.hit(0));
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(world_.host(r, 0).life(), RankLife::kAborted);
    EXPECT_EQ(world_.host(r, 0).outcome(0), Outcome::kAborted);
    EXPECT_LE(world_.host(r, 0).finished_at(0), kLease + 100 * kMicrosecond);
  }
  EXPECT_FALSE(manager_.hit(second_));
  for (int r = 0; r < 2; ++r) EXPECT_EQ(world_.host(r, second_).outcome(0), Outcome::kOk);

  ASSERT_EQ(made_, std::vector{2});
  Barrier(2);
  Barrier(second_);
  ASSERT_TRUE(RunToEnd());
  for (int r = 0; r < 4; ++r) EXPECT_EQ(world_.host(r, 2).state(0), CallState::kDone);
  for (int r = 0; r < 2; ++r) EXPECT_EQ(world_.host(r, second_).state(1), CallState::kDone);
}

TEST_P(ManagerTest, TheRanksOfAKilledHostNeverHear) {
  Barrier(0);
  Barrier(second_);
  manager_.HostDies(1);
  world_.KillHost(1, 20 * kMillisecond);
  ASSERT_TRUE(RunToEnd());
  for (const int group : {0, second_}) {
    EXPECT_EQ(world_.host(1, group).life(), RankLife::kKilled);
    EXPECT_EQ(world_.host(1, group).state(0), CallState::kRunning);
    EXPECT_EQ(world_.host(0, group).outcome(0), Outcome::kAborted);
  }
  ASSERT_EQ(made_.size(), 2u);
  EXPECT_GE(world_.now(), 20 * kMillisecond) << "a group needs all its hosts";
  for (const int group : made_) Barrier(group);
  ASSERT_TRUE(RunToEnd());
  for (const int group : made_) {
    for (int r = 0; r < world_.ranks(group); ++r) EXPECT_EQ(world_.host(r, group).state(0), CallState::kDone);
  }
}

TEST_P(ManagerTest, WhatIsLeftOfAFailedGroupIsRemoved) {
  CrashEngine(2, kMicrosecond);
  ASSERT_TRUE(RunToEnd());
  // The last messages of the removal may come after the new group.
  world_.RunUntil([] { return false; }, world_.now() + kMillisecond);
  for (int s = 0; s < world_.switches(); ++s) {
    EXPECT_FALSE(world_.HasContext(s, 0));
    EXPECT_TRUE(world_.HasContext(s, made_.at(0)));
  }
}

TEST_P(ManagerTest, QpnsRestBeforeTheyAreUsedAgain) {
  for (const Nanos wait : {Nanos{0}, kSecond / 2, 2 * kSecond}) {
    world_.At(world_.now() + wait, [this] { CrashEngine(2, world_.now() + 1); });
    world_.RunUntil([this] { return !manager_.idle(); }, kNever - 1);
    ASSERT_TRUE(RunToEnd());
  }
  ASSERT_EQ(made_.size(), 3u);
  const auto qpns_of = [this](int group) { return *world_.spec(group).qpns; };
  EXPECT_NE(qpns_of(made_[0]), qpns_of(0));
  EXPECT_NE(qpns_of(made_[1]), qpns_of(0)) << "they have rested for half a second";
  EXPECT_EQ(qpns_of(made_[2]), qpns_of(0));
}

TEST_P(ManagerTest, ARankIsToldWhenItsHostGoesOn) {
  Barrier(0);
  world_.Freeze(3, 50 * kMillisecond);
  CrashEngine(0, kMicrosecond);
  ASSERT_TRUE(RunToEnd());
  EXPECT_GE(world_.host(3, 0).finished_at(0), 50 * kMillisecond);
  EXPECT_LE(world_.host(2, 0).finished_at(0), 2 * kLease);
}

INSTANTIATE_TEST_SUITE_P(Modes, ManagerTest, testing::ValuesIn(ModesOfOwnMemory()), [](const auto& mode) {
  return "Mode" + std::to_string(static_cast<int>(mode.param));
});

}  // namespace
}  // namespace epic::sim
