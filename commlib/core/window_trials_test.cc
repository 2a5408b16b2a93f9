#include "commlib/core/window_trials.h"

#include <functional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace epic {
namespace {

constexpr uint32_t kM = 8, kBound = 8;
constexpr int64_t kBig = 4 * kM * kBound;  // packets
constexpr int64_t kRound = 16;             // big calls until the first round is over

WindowTrials Starting(uint32_t start) {
  return WindowTrials({.message_packets = kM, .bound = kBound, .start = start});
}

// Calls one after the other, in virtual time. `per_packet` says how long a packet takes with a window.
class WindowCalls {
 public:
  using PerPacket = std::function<Nanos(uint32_t window, int64_t call)>;

  WindowCalls(WindowTrials* trials, PerPacket per_packet)
      : trials_(trials), per_packet_(std::move(per_packet)) {}

  void Make(int64_t count, int64_t packets = kBig) {
    for (; count > 0; --count, ++call_) {
      trials_->Posted(call_, packets, /*alone=*/true);
      End(packets);
    }
  }
  // One that another one overlaps, or that overlaps another one.
  void MakeOverlapped(int64_t packets = kBig) { trials_->Posted(call_++, packets, /*alone=*/false); }

 private:
  void End(int64_t packets) {
    if (!trials_->measured()) return;
    EXPECT_EQ(*trials_->measured(), call_);
    EXPECT_TRUE(trials_->awaits_reply());
    now_ += (call_ % 3) * kSecond;  // for ranks that are late
    trials_->Replied(now_);
    EXPECT_FALSE(trials_->awaits_reply());
    now_ += per_packet_(trials_->window(), call_) * packets;
    trials_->Ended(now_);
  }

  WindowTrials* trials_;
  PerPacket per_packet_;
  int64_t call_ = 0;
  Nanos now_ = 0;
};

Nanos ShorterIsBetter(uint32_t window, int64_t) { return 100 + 50 * window; }
Nanos LongerIsBetter(uint32_t window, int64_t) { return 2000 / window; }
Nanos AllTheSame(uint32_t, int64_t) { return 300; }

TEST(WindowTrialsTest, TriesHalfWholeAndDoubleInOneOrder) {
  WindowTrials trials = Starting(4);
  std::vector<uint32_t> windows;
  WindowCalls calls(&trials, [&windows](uint32_t window, int64_t) {
    windows.push_back(window);
    return 300;
  });
  calls.Make(70);
  const std::vector<uint32_t> round = {2, 4, 8, 8, 4, 2, 2, 4, 8, 8, 4, 2};
  for (size_t call = 0; call < windows.size(); ++call) {
    const size_t place = call % 64 - 4;
    EXPECT_EQ(windows[call], place < round.size() ? round[place] : 4) << call;
  }
  EXPECT_EQ(trials.window(), 4u);
}

TEST(WindowTrialsTest, GoesToTheBetterWindowStepByStep) {
  WindowTrials trials = Starting(8);
  WindowCalls calls(&trials, ShorterIsBetter);
  calls.Make(kRound);
  EXPECT_EQ(trials.window(), 4u);
  const auto found = trials.TakeFound();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->messages, 4u);
  EXPECT_EQ(found->ns_per_packet, 300u);
  EXPECT_EQ(found->before_messages, 8u);
  EXPECT_EQ(found->before_ns_per_packet, 500u);
  EXPECT_FALSE(trials.TakeFound()) << "once";
  calls.Make(64);
  EXPECT_EQ(trials.window(), 2u);
  calls.Make(3 * 64);
  EXPECT_EQ(trials.window(), 2u) << "16 packets are the least";

  WindowTrials other = Starting(3);
  WindowCalls longer(&other, LongerIsBetter);
  longer.Make(kRound);
  EXPECT_EQ(other.window(), 6u);
  longer.Make(64);
  EXPECT_EQ(other.window(), 8u) << "the bound is the most";
  longer.Make(3 * 64);
  EXPECT_EQ(other.window(), 8u);
}

TEST(WindowTrialsTest, TheWindowToBeginWithIsTheLeastIfThatIsLess) {
  WindowTrials trials = Starting(1);
  WindowCalls calls(&trials, ShorterIsBetter);
  calls.Make(5 * 64);
  EXPECT_EQ(trials.window(), 1u);
}

TEST(WindowTrialsTest, StaysWhereNothingIsFivePercentBetter) {
  WindowTrials trials = Starting(4);
  WindowCalls calls(&trials, [](uint32_t window, int64_t) { return window == 4 ? 1000 : 955; });
  calls.Make(kRound);
  EXPECT_EQ(trials.window(), 4u);
  const auto found = trials.TakeFound();
  ASSERT_TRUE(found) << "that it has tried is told once";
  EXPECT_EQ(found->messages, 4u);
  EXPECT_EQ(found->before_messages, 4u);
  EXPECT_EQ(found->ns_per_packet, 1000u);
  calls.Make(4 * 64);
  EXPECT_EQ(trials.window(), 4u);
  EXPECT_FALSE(trials.TakeFound());
}

TEST(WindowTrialsTest, OneSlowCallWithEachWindowDoesNotDecide) {
  WindowTrials trials = Starting(4);
  WindowCalls calls(&trials, [](uint32_t window, int64_t call) {
    return call == 5 || call == 6 || call == 9 ? kMillisecond : LongerIsBetter(window, call);
  });
  calls.Make(kRound);
  EXPECT_EQ(trials.window(), 8u);
}

TEST(WindowTrialsTest, SizesThatAlternateDoNotDecide) {
  for (const int64_t slow : {0, 1}) {
    WindowTrials trials = Starting(4);
    WindowCalls calls(&trials, [slow](uint32_t, int64_t call) { return call % 2 == slow ? 600 : 300; });
    calls.Make(kRound);
    EXPECT_EQ(trials.window(), 4u) << slow;
  }
}

TEST(WindowTrialsTest, AnOverlappedCallMakesItsRoundTeachNothing) {
  WindowTrials trials = Starting(4);
  WindowCalls calls(&trials, LongerIsBetter);
  calls.Make(9);
  calls.MakeOverlapped();  // the tenth is a trial, the last of the round is as well
  calls.Make(kRound - 10);
  EXPECT_EQ(trials.window(), 4u);
  EXPECT_FALSE(trials.TakeFound());
  calls.Make(64);
  EXPECT_EQ(trials.window(), 8u) << "the next round does";
}

TEST(WindowTrialsTest, WhatOverlapsATrialEndsIt) {
  WindowTrials trials = Starting(4);
  WindowCalls calls(&trials, AllTheSame);
  calls.Make(4);
  trials.Posted(100, kBig, /*alone=*/true);
  EXPECT_EQ(trials.window(), 2u);
  trials.Posted(101, 1, /*alone=*/false);
  EXPECT_EQ(trials.window(), 4u);
  EXPECT_FALSE(trials.measured());
}

TEST(WindowTrialsTest, SmallCallsAreNeitherTrialsNorCounted) {
  WindowTrials trials = Starting(4);
  WindowCalls calls(&trials, LongerIsBetter);
  for (int i = 0; i < 16; ++i) {
    calls.Make(3, kBig - 1);
    EXPECT_EQ(trials.window(), 4u);
    calls.Make(1);
  }
  EXPECT_EQ(trials.window(), 8u);
}

TEST(WindowTrialsTest, RanksTryTheSameForTheSameCalls) {
  WindowTrials one = Starting(4), other = Starting(4);
  std::vector<uint32_t> of_one, of_other;
  WindowCalls calls_of_one(&one, [&](uint32_t window, int64_t) {
    of_one.push_back(window);
    return 300;
  });
  WindowCalls calls_of_other(&other, [&](uint32_t window, int64_t) {
    of_other.push_back(window);
    return 300;
  });
  calls_of_one.Make(1000);
  // Calls of this rank overlap, which does not put its numbers out.
  calls_of_other.Make(30);
  for (int i = 0; i < 270; ++i) calls_of_other.MakeOverlapped();
  calls_of_other.Make(700);
  of_one.erase(of_one.begin() + 30, of_one.begin() + 300);
  EXPECT_EQ(of_one, of_other);
}

TEST(WindowTrialsTest, LaterRoundsAreRare) {
  WindowTrials trials = Starting(4);
  int64_t tried = 0;
  WindowCalls calls(&trials, [&tried](uint32_t window, int64_t) {
    tried += window != 4;
    return 300;
  });
  calls.Make(256);
  EXPECT_EQ(tried, 4 * 8);
  calls.Make(1024);
  EXPECT_EQ(tried, 8 * 8);
}

TEST(WindowTrialsTest, WithoutAStartNothingIsTried) {
  WindowTrials trials = Starting(0);
  WindowCalls calls(&trials, ShorterIsBetter);
  for (int i = 0; i < 300; ++i) {
    calls.Make(1);
    EXPECT_EQ(trials.window(), kBound);
  }
  EXPECT_FALSE(trials.TakeFound());
}

}  // namespace
}  // namespace epic
