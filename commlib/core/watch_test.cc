#include "commlib/core/watch.h"

#include <array>
#include <set>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

namespace epic {
namespace {

// Three calls; threads 0 and 1 wait for the first and the second, nobody for the third. Completions come one
// by one at any time, every thread runs whenever it can. As Comm uses Watch.
class WatchWorld {
 public:
  enum class Where : uint8_t { kOutside, kFollows, kPolls, kSleeps, kGone };
  static constexpr int kCalls = 3, kThreads = 2;

  // Makes the step; false if it is not possible now.
  bool Step(int number) {
    if (number == 0) return Arrive();
    if (number == 1) return ProgressThread();
    return Run(number - 2);
  }
  static constexpr int kSteps = 2 + kThreads;

  bool finished() const { return done_ == kCalls && where_[0] == Where::kGone && where_[1] == Where::kGone; }
  // The mutex is free between steps.
  bool watched() const {
    if (done_ == kCalls || (watch_.watcher() == Watch::Watcher::kThread && armed_)) return true;
    return watch_.leads() || (watch_.followers() > 0 && (woken_[0] || woken_[1])) ||
           (where_[0] == Where::kOutside && where_[1] == Where::kOutside);  // nobody has begun
  }
  auto Key() const {
    return std::tuple(static_cast<int>(watch_.watcher()), watch_.followers(), Copy().RequestNotify(), where_,
                      woken_, arrived_, done_, event_, cq_armed_, armed_);
  }

 private:
  Watch Copy() const { return watch_; }

  bool Arrive() {
    if (arrived_ == kCalls) return false;
    ++arrived_;
    if (cq_armed_) event_ = true;
    cq_armed_ = false;
    return true;
  }
  void Process() {
    if (done_ < arrived_) WakeFollowers();
    done_ = arrived_;
  }
  void WakeFollowers() {
    for (size_t t = 0; t < kThreads; ++t) woken_[t] = woken_[t] || where_[t] == Where::kFollows;
  }
  void TakeEvents() {
    event_ = false;
    watch_.OnEvents();
  }
  void PassOn() {
    while (true) {
      switch (watch_.PassOn(done_ < kCalls)) {
        case Watch::Next::kNothing:
          return;
        case Watch::Next::kWakeFollowers:
          return WakeFollowers();
        case Watch::Next::kRequestNotify:
          cq_armed_ = true;
          Process();
          break;
        case Watch::Next::kArmThread:
          armed_ = true;
          return;
      }
    }
  }
  bool ProgressThread() {
    if (!armed_ || !event_) return false;
    armed_ = false;
    if (!watch_.OnThreadWoken()) return true;
    TakeEvents();
    Process();
    PassOn();
    return true;
  }
  bool Run(int thread) {
    const auto t = static_cast<size_t>(thread);
    const bool ended = done_ > thread;
    switch (where_[t]) {
      case Where::kGone:
        return false;
      case Where::kOutside:
        if (thread == 0) Process();  // its call is posted while it is on its way to wait
        return Wait(t);
      case Where::kFollows:
        if (!woken_[t]) return false;
        woken_[t] = false;
        if (!ended && watch_.leads()) return true;  // sleeps on
        watch_.FollowerWoke();
        return Wait(t);
      case Where::kPolls:
        Process();
        return SleepOn(t);
      case Where::kSleeps:
        if (!event_) return false;
        TakeEvents();
        return Lead(t);
    }
    return false;
  }
  bool Wait(size_t t) {
    if (done_ > static_cast<int>(t)) {
      where_[t] = Where::kGone;
      PassOn();
      return true;
    }
    if (watch_.Lead()) return Lead(t);
    where_[t] = Where::kFollows;
    return true;
  }
  // It has looked, and lets go of the mutex before it looks again or sleeps.
  bool Lead(size_t t) {
    Process();
    where_[t] = Where::kPolls;
    return done_ <= static_cast<int>(t) || Leave(t);
  }
  bool SleepOn(size_t t) {
    if (done_ <= static_cast<int>(t) && watch_.RequestNotify()) {
      cq_armed_ = true;
      Process();
    }
    where_[t] = Where::kSleeps;
    return done_ <= static_cast<int>(t) || Leave(t);
  }
  bool Leave(size_t t) {
    watch_.Resign();
    where_[t] = Where::kGone;
    PassOn();
    return true;
  }

  Watch watch_;
  std::array<Where, kThreads> where_{};
  std::array<bool, kThreads> woken_{};
  int arrived_ = 0;        // completions in the queue
  int done_ = 0;           // ... that have been taken
  bool event_ = false;     // the channel is readable
  bool cq_armed_ = false;  // the next completion makes it so
  bool armed_ = false;     // the progress thread waits for that
};

TEST(WatchTest, SomebodyWatchesInEveryOrderOfEvents) {
  std::set<decltype(WatchWorld().Key())> seen;
  std::vector<WatchWorld> open = {WatchWorld()};
  size_t ends = 0;
  while (!open.empty()) {
    const WatchWorld world = open.back();
    open.pop_back();
    ASSERT_TRUE(world.watched());
    bool stuck = true;
    for (int step = 0; step < WatchWorld::kSteps; ++step) {
      WatchWorld next = world;
      if (!next.Step(step)) continue;
      stuck = false;
      if (seen.insert(next.Key()).second) open.push_back(next);
    }
    if (!stuck) continue;
    ++ends;
    ASSERT_TRUE(world.finished()) << "nothing can happen, and a call has not ended";
  }
  EXPECT_GT(ends, 0u);
  EXPECT_GT(seen.size(), 50u);
}

TEST(WatchTest, AFollowerThatLeavesTogetherWithItsLeaderArmsTheProgressThread) {
  Watch watch;
  ASSERT_TRUE(watch.Lead());
  ASSERT_FALSE(watch.Lead());
  EXPECT_TRUE(watch.RequestNotify());
  // The leader's last progress ends both calls; a third one is outstanding.
  watch.Resign();
  EXPECT_EQ(watch.PassOn(true), Watch::Next::kWakeFollowers);
  watch.FollowerWoke();
  EXPECT_EQ(watch.PassOn(true), Watch::Next::kArmThread);
  EXPECT_EQ(watch.watcher(), Watch::Watcher::kThread);
}

TEST(WatchTest, AThreadThatWasWokenForAWaiterDoesNothing) {
  Watch watch;
  EXPECT_EQ(watch.PassOn(true), Watch::Next::kRequestNotify);
  EXPECT_EQ(watch.PassOn(true), Watch::Next::kArmThread);
  EXPECT_EQ(watch.PassOn(true), Watch::Next::kNothing) << "armed already";
  ASSERT_TRUE(watch.Lead());
  EXPECT_FALSE(watch.OnThreadWoken());
  EXPECT_TRUE(watch.leads());
}

}  // namespace
}  // namespace epic
