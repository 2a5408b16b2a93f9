#include "commlib/core/wait_trials.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace epic {
namespace {

using WaitWay = WaitTrials::Way;

// Waits for the calls first to last, each for as long as `wait` says; returns how many were polled for.
int Calls(WaitTrials& trials, int64_t first, int64_t last,
          const std::function<Nanos(int64_t call, WaitWay way)>& wait) {
  int polled = 0;
  for (int64_t call = first; call <= last; ++call) {
    const WaitWay way = trials.WayOf(call);
    polled += way == WaitWay::kPoll;
    trials.Ended(call, wait(call, way));
  }
  return polled;
}

Nanos PollingIsShorter(int64_t, WaitWay way) { return way == WaitWay::kPoll ? 30 : 100; }
Nanos SleepingIsShorter(int64_t, WaitWay way) { return way == WaitWay::kPoll ? 400 : 100; }

TEST(WaitTrialsTest, AGroupsFirstCallsSayWhichWayIsShorter) {
  WaitTrials trials;
  EXPECT_EQ(Calls(trials, 0, 7, SleepingIsShorter), 4) << "the first trials";
  EXPECT_EQ(Calls(trials, 8, 31, SleepingIsShorter), 0);
  EXPECT_EQ(Calls(trials, 32, 47, SleepingIsShorter), 8) << "the later ones";
  EXPECT_EQ(Calls(trials, 48, 287, SleepingIsShorter), 0);
}

// What a short program sees: most of its calls after the first two.
TEST(WaitTrialsTest, TheMedianOfTheThirdToTheTwentiethCallIsTheBetterWays) {
  for (const auto& wait : {PollingIsShorter, SleepingIsShorter}) {
    WaitTrials trials;
    std::vector<Nanos> waits;
    Calls(trials, 0, 19, [&](int64_t call, WaitWay way) {
      const Nanos one = call < 2 ? kSecond : wait(call, way);
      if (call >= 2) waits.push_back(one);
      return one;
    });
    std::ranges::sort(waits);
    EXPECT_EQ(waits[waits.size() / 2], std::min(wait(0, WaitWay::kPoll), wait(0, WaitWay::kSleep)));
  }
}

TEST(WaitTrialsTest, SleepsWhereNothingIsKnown) {
  WaitTrials trials;
  EXPECT_EQ(Calls(trials, 3, 31, PollingIsShorter), 3) << "the first calls were not waited for";
  EXPECT_EQ(trials.WayOf(31), WaitWay::kSleep);
}

TEST(WaitTrialsTest, TrialsOfTwoPeriodsAreNoneTogether) {
  WaitTrials trials;
  Calls(trials, 0, 3, PollingIsShorter);
  Calls(trials, 32 + 4, 47, PollingIsShorter);
  EXPECT_EQ(trials.WayOf(48), WaitWay::kSleep);
}

// Twelve calls later the later trials decide by what is shorter, however little.
TEST(WaitTrialsTest, AfterTheFirstTrialsOnlyWhatIsHalfAsLongIsPolledFor) {
  for (const auto& [polling, polled] : {std::pair<Nanos, int>{49, 24}, {51, 0}}) {
    WaitTrials trials;
    const auto wait = [polling = polling](int64_t, WaitWay way) {
      return way == WaitWay::kPoll ? polling : Nanos{100};
    };
    Calls(trials, 0, 7, wait);
    EXPECT_EQ(Calls(trials, 8, 31, wait), polled);
    Calls(trials, 32, 47, wait);
    EXPECT_EQ(trials.WayOf(48), WaitWay::kPoll);
  }
}

TEST(WaitTrialsTest, EightOf256CallsArePolledForWhereSleepingIsShorter) {
  WaitTrials trials;
  Calls(trials, 0, 255, SleepingIsShorter);
  EXPECT_EQ(Calls(trials, 256, 11 * 256 - 1, SleepingIsShorter), 80);
}

TEST(WaitTrialsTest, FollowsWhatChanges) {
  WaitTrials trials;
  Calls(trials, 0, 255, PollingIsShorter);
  EXPECT_EQ(trials.WayOf(256), WaitWay::kPoll);
  Calls(trials, 256, 511, SleepingIsShorter);
  EXPECT_EQ(trials.WayOf(512), WaitWay::kSleep);
}

TEST(WaitTrialsTest, OneLateRankInEachWayDoesNotDecide) {
  WaitTrials trials;
  Calls(trials, 0, 255, [](int64_t call, WaitWay way) {
    return call == 32 ? kSecond : PollingIsShorter(call, way);  // the first trial of polling
  });
  EXPECT_EQ(trials.WayOf(255), WaitWay::kPoll);
}

TEST(WaitTrialsTest, SizesThatAlternateDoNotDecide) {
  for (const int64_t long_ones : {0, 1}) {
    for (const auto& wait : {PollingIsShorter, SleepingIsShorter}) {
      WaitTrials trials;
      Calls(trials, 0, 255,
            [&](int64_t call, WaitWay way) { return (call % 2 == long_ones ? 10 : 1) * wait(call, way); });
      EXPECT_EQ(trials.WayOf(255), wait == PollingIsShorter ? WaitWay::kPoll : WaitWay::kSleep) << long_ones;
    }
  }
}

TEST(WaitTrialsTest, WithoutAllTrialsTheWayStays) {
  WaitTrials trials;
  Calls(trials, 0, 255, PollingIsShorter);
  Calls(trials, 256, 256 + 34, SleepingIsShorter);
  Calls(trials, 256 + 36, 511, SleepingIsShorter);  // the fourth was done before anybody waited
  EXPECT_EQ(trials.WayOf(511), WaitWay::kPoll);
  Calls(trials, 512, 767, SleepingIsShorter);
  EXPECT_EQ(trials.WayOf(767), WaitWay::kSleep);
}

TEST(WaitTrialsTest, RanksTryTheSameForTheSameCalls) {
  WaitTrials one, other;
  Calls(one, 0, 999, PollingIsShorter);
  Calls(other, 0, 999, SleepingIsShorter);
  for (int64_t call = 1056; call < 1072; ++call) EXPECT_EQ(one.WayOf(call), other.WayOf(call)) << call;
}

}  // namespace
}  // namespace epic
