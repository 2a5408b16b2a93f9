#include "base/grpc/frame_counter.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/seeds_testing.h"

namespace epic {
namespace {

std::string FrameOf(size_t length) {
  std::string frame(kHttp2FrameHeader, '\0');
  frame[0] = static_cast<char>(length >> 16);
  frame[1] = static_cast<char>(length >> 8);
  frame[2] = static_cast<char>(length);
  return frame + std::string(length, '\0');
}

TEST(FrameCounterTest, CountsFramesHoweverTheyAreCut) {
  const TestSeeds seeds = SeedsToRun(50);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE(testing::Message() << "again: EPIC_SEED=" << seed);
    std::mt19937_64 random(seed);
    std::string bytes(kHttp2Preface);
    const uint64_t frames = 1 + random() % 20;
    for (uint64_t i = 0; i < frames; ++i) bytes += FrameOf(random() % 3 == 0 ? random() % 70'000 : random() % 10);
    FrameCounter counter;
    uint64_t counted = 0;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = 1 + random() % (random() % 2 == 0 ? 5 : 30'000);
      counted += counter.Count(std::string_view(bytes).substr(at, size));
      at += size;
    }
    EXPECT_EQ(counted, frames);
  }
}

TEST(FrameCounterTest, ACallCountsForMore) {
  std::string call = FrameOf(3);
  call[3] = 1;  // HEADERS
  FrameCounter counter;
  EXPECT_EQ(counter.Count(std::string(kHttp2Preface) + call + FrameOf(0)), FrameCounter::kCall + 1);
}

TEST(FrameBudgetTest, AQuarterOfASecondAtOnceAndThenSoManyASecond) {
  FrameBudget budget(4000);
  EXPECT_FALSE(budget.IsSpent(kSecond));
  budget.Spend(1000);
  EXPECT_TRUE(budget.IsSpent(kSecond));
  EXPECT_FALSE(budget.IsSpent(kSecond + 10 * kMillisecond));
  budget.Spend(1040);  // what is in hand is passed on whole
  EXPECT_TRUE(budget.IsSpent(kSecond + 250 * kMillisecond));
  EXPECT_FALSE(budget.IsSpent(kSecond + 270 * kMillisecond));
  EXPECT_FALSE(budget.IsSpent(1000 * kSecond));
  EXPECT_FALSE(budget.IsLow());
  budget.Spend(501);
  EXPECT_TRUE(budget.IsLow());
  budget.Spend(499);
  EXPECT_TRUE(budget.IsSpent(1000 * kSecond)) << "no more is saved";
}

TEST(FrameBudgetTest, LooksInShortTimesLoseNothing) {
  FrameBudget budget(4000);
  Nanos now = kSecond;
  (void)budget.IsSpent(now);
  budget.Spend(1000);
  for (int i = 0; i < 2000; ++i) (void)budget.IsSpent(now += kMillisecond / 10);
  budget.Spend(799);
  EXPECT_FALSE(budget.IsSpent(now));
}

// A look each millisecond, of which each brings less than a frame.
TEST(FrameBudgetTest, OneOfFewFramesASecondRecovers) {
  FrameBudget budget(100);
  Nanos now = kSecond;
  (void)budget.IsSpent(now);
  budget.Spend(35);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(budget.IsSpent(now += kMillisecond)) << i;
  EXPECT_FALSE(budget.IsSpent(now + 10 * kMillisecond));
}

}  // namespace
}  // namespace epic
