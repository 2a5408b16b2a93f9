// The stores of an exploration against the standard library's.
#include "check/seen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <random>
#include <set>
#include <unordered_map>

#include "base/seeds_testing.h"
#include "check/chunks.h"

namespace epic::check {
namespace {

TEST(SeenTest, NumbersStatesInTheOrderInWhichTheyAreFirstSeen) {
  const TestSeeds seeds = SeedsToRun(3);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("EPIC_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::unordered_map<uint64_t, Seen::Number> expected;
    Seen seen;
    for (int i = 0; i < 200'000; ++i) {
      // Some come often; and many have the same low byte.
      const uint64_t fingerprint = random() % 3 == 0 ? random() % 5'000 : random() << 8;
      const auto [it, inserted] = expected.emplace(fingerprint, static_cast<Seen::Number>(expected.size()));
      bool fresh = !inserted;
      ASSERT_EQ(seen.Insert(fingerprint, &fresh), it->second);
      ASSERT_EQ(fresh, inserted);
    }
    EXPECT_EQ(seen.size(), expected.size());
  }
}

TEST(SeenTest, ZeroIsAFingerprintToo) {
  Seen seen;
  bool fresh = false;
  EXPECT_EQ(seen.Insert(0, &fresh), 0u);
  EXPECT_TRUE(fresh);
  EXPECT_EQ(seen.Insert(1, &fresh), 1u);
  EXPECT_EQ(seen.Insert(0, &fresh), 0u);
  EXPECT_FALSE(fresh);
}

// As those of states with symmetries are, each the least of several: a table that put them where their high
// bits say would take hours.
TEST(SeenTest, SmallFingerprintsDoNotCrowd) {
  std::mt19937_64 random(1);
  Seen seen;
  bool fresh = false;
  for (int i = 0; i < 1'000'000; ++i) seen.Insert(random() >> 10, &fresh);
  EXPECT_EQ(seen.size(), 1'000'000u);
}

// A table that is three quarters full at most and grows by half, and the fingerprints themselves.
TEST(SeenTest, NeedsAtMostEighteenAndAHalfBytesAState) {
  std::mt19937_64 random(1);
  Seen seen;
  bool fresh = false;
  for (int i = 0; i < 300'000; ++i) {
    seen.Insert(random(), &fresh);
    if (i > 10'000) {
      ASSERT_LE(static_cast<double>(seen.bytes()), 18.5 * static_cast<double>(seen.size()));
    }
  }
}

// The probability that the least of `one` numbers below `range` and the least of `other` others are the same,
// all drawn at random, exactly.
double SameLeast(int one, int other, int range) {
  const auto is_least = [range](int hashes, int number) {
    const double n = range;
    return std::pow((n - number) / n, hashes) - std::pow((n - number - 1) / n, hashes);
  };
  double same = 0;
  for (int number = 0; number < range; ++number) same += is_least(one, number) * is_least(other, number);
  return same;
}

TEST(OmissionBoundTest, TheFactorIsThatOfTheLeastOfSeveral) {
  constexpr int kRange = 1 << 14;
  EXPECT_EQ(CollisionFactor(1), 1);
  EXPECT_NEAR(CollisionFactor(8), 4.27, 0.01);
  for (const int k : {1, 2, 3, 8, 128}) {
    SCOPED_TRACE(k);
    const double bound = CollisionFactor(static_cast<size_t>(k)) / kRange;
    const double rounding = 1e-9 * bound;
    EXPECT_LE(SameLeast(k, k, kRange), bound + rounding);
    EXPECT_GE(SameLeast(k, k, kRange), 0.99 * bound) << "it is no more than is needed";
    // A state that is its own image under some symmetries has fewer hashes.
    for (int fewer = 1; fewer <= k; fewer = fewer * 2 + 1) {
      EXPECT_LE(SameLeast(fewer, k, kRange), bound + rounding) << fewer;
      EXPECT_LE(SameLeast(fewer, fewer, kRange), bound + rounding) << fewer;
    }
  }
}

// Many sets of states whose fingerprints have few bits, each the least of eight: no more of them have a
// collision than is said, and more than there would be of single hashes.
TEST(OmissionBoundTest, HoldsForSetsOfStates) {
  constexpr int kSets = 20'000, kStates = 40, kBits = 16;
  constexpr size_t kHashes = 8;
  const TestSeeds seeds = SeedsToRun(1);
  SCOPED_TRACE("EPIC_SEED=" + std::to_string(seeds.first));
  std::mt19937_64 random(seeds.first);
  int collided = 0;
  for (int set = 0; set < kSets; ++set) {
    std::set<uint64_t> fingerprints;
    for (int state = 0; state < kStates; ++state) {
      uint64_t least = UINT64_MAX;
      for (size_t i = 0; i < kHashes; ++i) least = std::min<uint64_t>(least, random() >> (64 - kBits));
      fingerprints.insert(least);
    }
    collided += fingerprints.size() < kStates ? 1 : 0;
  }
  const double scale = std::ldexp(kSets, 64 - kBits);
  const double expected = OmissionBound(kStates, kHashes) * scale;
  // Far more than five standard deviations.
  EXPECT_LT(collided, expected * 1.2);
  EXPECT_GT(collided, OmissionBound(kStates, 1) * scale * 1.5);
}

TEST(ChunksTest, KeepsWhatWasAppended) {
  Chunks<uint32_t> chunks;
  for (uint32_t i = 0; i < 200'000; ++i) chunks.push_back(i * i);
  ASSERT_EQ(chunks.size(), 200'000u);
  for (uint32_t i = 0; i < 200'000; ++i) ASSERT_EQ(chunks[i], i * i);
}

TEST(RowsTest, AreTakenFromEitherEnd) {
  using Row = std::array<uint32_t, 3>;
  const TestSeeds seeds = SeedsToRun(20);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("EPIC_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    Rows<uint32_t> rows(3);
    std::deque<Row> expected;
    Row row{};
    // Rows come and go in spells, so that blocks fill and empty from both sides.
    for (int spell = 0; spell < 40; ++spell) {
      const uint64_t kind = random() % 4;
      for (uint64_t i = random() % 10'000; i > 0 && (kind < 2 || !expected.empty()); --i) {
        if (kind < 2) {
          expected.push_back({static_cast<uint32_t>(random()), static_cast<uint32_t>(i), 7});
          rows.PushBack(expected.back());
          continue;
        }
        kind == 2 ? rows.PopFront(row) : rows.PopBack(row);
        ASSERT_EQ(row, kind == 2 ? expected.front() : expected.back());
        kind == 2 ? expected.pop_front() : expected.pop_back();
      }
      ASSERT_EQ(rows.size(), expected.size());
    }
    while (rows.size() != 0) rows.PopFront(row);
    EXPECT_EQ(rows.bytes(), 0u);
  }
}

}  // namespace
}  // namespace epic::check
