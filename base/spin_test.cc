#include "base/spin.h"

#include "gtest/gtest.h"

namespace epic {
namespace {

constexpr Nanos kLimit = 64 * kMicrosecond;

// A wait that begins at `now` and in which something comes after each pause; returns its end.
Nanos Wait(Spin& spin, Nanos now, std::initializer_list<Nanos> pauses) {
  spin.Begin(now);
  for (const Nanos pause : pauses) spin.KeepPolling(now += pause, true);
  return now;
}

TEST(SpinTest, PollsForTheLimitAndThenSleeps) {
  Spin spin(kLimit);
  spin.Begin(1000);
  EXPECT_TRUE(spin.KeepPolling(1000, false));
  EXPECT_TRUE(spin.KeepPolling(1000 + kLimit - 1, false));
  EXPECT_FALSE(spin.KeepPolling(1000 + kLimit, false));
}

TEST(SpinTest, WithoutALimitItSleepsAtOnce) {
  Spin spin(0);
  spin.Begin(1000);
  EXPECT_FALSE(spin.KeepPolling(1000, false));
  EXPECT_FALSE(spin.KeepPolling(1010, true));
  EXPECT_EQ(spin.length(), 0);
}

TEST(SpinTest, WhatComesStartsTheTimeAnew) {
  Spin spin(kLimit);
  spin.Begin(0);
  EXPECT_TRUE(spin.KeepPolling(kLimit - 1, true));
  EXPECT_TRUE(spin.KeepPolling(2 * kLimit - 2, false));
  EXPECT_FALSE(spin.KeepPolling(2 * kLimit - 1, false));
  EXPECT_TRUE(spin.KeepPolling(3 * kLimit, true)) << "what has been slept for may be followed by more";
}

TEST(SpinTest, LongPausesHalveTheLengthDownToAFewLooks) {
  Spin spin(kLimit);
  Nanos now = 0;
  for (Nanos expected = kLimit / 2; expected >= 2 * kMicrosecond; expected /= 2) {
    now = Wait(spin, now, {kLimit + 1});
    EXPECT_EQ(spin.length(), expected);
  }
  now = Wait(spin, now, {kSecond, kSecond});
  EXPECT_EQ(spin.length(), 2 * kMicrosecond);
}

TEST(SpinTest, PausesThatPollingBridgesDoubleItAlsoWhileItSleeps) {
  Spin spin(kLimit);
  Nanos now = Wait(spin, 0, {kSecond, kSecond, kSecond, kSecond, kSecond});
  ASSERT_EQ(spin.length(), 2 * kMicrosecond);
  // Calls have become short: their waits still sleep, since 40 us are longer than 2, but not for long.
  for (Nanos expected = 4 * kMicrosecond; expected <= kLimit; expected *= 2) {
    now = Wait(spin, now, {40 * kMicrosecond});
    EXPECT_EQ(spin.length(), expected);
  }
  Wait(spin, now, {40 * kMicrosecond});
  EXPECT_EQ(spin.length(), kLimit);
}

TEST(SpinTest, TheRestOfABurstSaysNothing) {
  Spin spin(kLimit);
  Wait(spin, 0, {kSecond, kMicrosecond, 0, kMicrosecond});
  EXPECT_EQ(spin.length(), kLimit / 2);
}

TEST(SpinTest, TheTimeBetweenTwoWaitsIsNotAPause) {
  Spin spin(kLimit);
  const Nanos end = Wait(spin, 0, {kLimit});
  Wait(spin, end + kSecond, {kLimit});
  EXPECT_EQ(spin.length(), kLimit);
}

}  // namespace
}  // namespace epic
