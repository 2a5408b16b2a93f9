#include "base/silence.h"

#include <gtest/gtest.h>

namespace epic {
namespace {

TEST(SilenceTest, CountsWhatPassedWithoutAWord) {
  Silence silence(2 * kSecond);
  silence.Unheard(kSecond);
  silence.Unheard(2 * kSecond);
  EXPECT_EQ(silence.counted(), 3 * kSecond);
  EXPECT_FALSE(silence.IsProof(3 * kSecond + 1));
  EXPECT_TRUE(silence.IsProof(3 * kSecond));
  silence.Heard();
  EXPECT_EQ(silence.counted(), 0);
  EXPECT_FALSE(silence.IsProof(1));
}

TEST(SilenceTest, WhoLooksSeldomDidNotRunMeanwhile) {
  Silence silence(2 * kSecond);
  silence.Unheard(kSecond * 3600);
  EXPECT_EQ(silence.counted(), 2 * kSecond);
}

TEST(SilenceTest, WhatEitherWaitedForAProcessorDoesNotCount) {
  Silence silence(2 * kSecond);
  silence.Unheard(kSecond, 900 * kMillisecond);
  EXPECT_EQ(silence.counted(), 100 * kMillisecond);
  silence.Unheard(kSecond, 5 * kSecond);
  EXPECT_EQ(silence.counted(), 100 * kMillisecond);
}

TEST(SilenceTest, ButNotForEver) {
  Silence silence(2 * kSecond);
  for (int i = 0; i < 29; ++i) silence.Unheard(kSecond, kSecond);
  EXPECT_FALSE(silence.IsProof(1));
  silence.Unheard(kSecond, kSecond);
  EXPECT_TRUE(silence.IsProof(1));
  silence.Heard();
  EXPECT_FALSE(silence.IsProof(1));
}

TEST(HasMostlyWaitedTest, IsMoreThanHalf) {
  EXPECT_FALSE(HasMostlyWaited(1000, 0));
  EXPECT_FALSE(HasMostlyWaited(1000, 500));
  EXPECT_TRUE(HasMostlyWaited(1000, 501));
}

// Looks at 100 ms distance, unless they are late.
class Looks {
 public:
  bool After(Nanos passed) { return standstill_.MayJudge(now_ += passed, passed); }

 private:
  Nanos now_ = 0;
  Standstill standstill_{500 * kMillisecond, 500 * kMillisecond};
};

TEST(StandstillTest, WhoStoodStillJudgesWhenHeHasHeardWhatWaited) {
  Looks looks;
  EXPECT_TRUE(looks.After(100 * kMillisecond));
  EXPECT_TRUE(looks.After(500 * kMillisecond));
  EXPECT_FALSE(looks.After(501 * kMillisecond));
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(looks.After(100 * kMillisecond)) << i;
  EXPECT_TRUE(looks.After(100 * kMillisecond));
}

TEST(StandstillTest, NotWhenHeHasJustBeenLateAgain) {
  Looks looks;
  EXPECT_FALSE(looks.After(kSecond));
  EXPECT_FALSE(looks.After(kSecond));
  EXPECT_TRUE(looks.After(100 * kMillisecond)) << "half a second has gone since the first";
}

TEST(StandstillTest, OneWhoIsLateEachTimeJudgesAfterHalfAMinute) {
  Looks looks;
  for (int i = 0; i < 31; ++i) EXPECT_FALSE(looks.After(kSecond)) << i;
  EXPECT_TRUE(looks.After(kSecond));
}

TEST(StandstillTest, WhatIsExcusedEnds) {
  Standstill standstill(500 * kMillisecond, kSecond);
  EXPECT_EQ(standstill.Excuse(500 * kMillisecond), 0);
  Nanos excused = 0;
  for (int i = 0; i < 100; ++i) excused += standstill.Excuse(600 * kMillisecond);
  EXPECT_EQ(excused, kLongestSilence);
  EXPECT_EQ(standstill.Excuse(100 * kMillisecond), 0);
  EXPECT_EQ(standstill.Excuse(3600 * kSecond), kLongestSilence);  // once he has run again
}

}  // namespace
}  // namespace epic
