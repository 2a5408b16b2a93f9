// The stores of an exploration against the standard library's.
#include "check/seen.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <random>
#include <unordered_map>

#include "check/chunks.h"
#include "sim/seeds_testing.h"

namespace epic::check {
namespace {

TEST(SeenTest, NumbersStatesInTheOrderInWhichTheyAreFirstSeen) {
  const sim::TestSeeds seeds = sim::SeedsToRun(3);
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

TEST(ChunksTest, KeepsWhatWasAppended) {
  Chunks<uint32_t> chunks;
  for (uint32_t i = 0; i < 200'000; ++i) chunks.push_back(i * i);
  ASSERT_EQ(chunks.size(), 200'000u);
  for (uint32_t i = 0; i < 200'000; ++i) ASSERT_EQ(chunks[i], i * i);
}

TEST(RowsTest, AreTakenFromEitherEnd) {
  using Row = std::array<uint32_t, 3>;
  const sim::TestSeeds seeds = sim::SeedsToRun(20);
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
