#include "commlib/core/chunk_map.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/seeds_testing.h"

namespace epic {
namespace {

TEST(ChunkMapTest, PartsBecomeWholeOneByOne) {
  ChunkMap map;
  map.Reset(2, 65);
  EXPECT_FALSE(map.all_whole());
  map.SetPart(1);
  EXPECT_TRUE(map.IsWhole(1));
  for (uint32_t chunk = 0; chunk < 65; ++chunk) {
    EXPECT_FALSE(map.IsWhole(0)) << chunk;
    EXPECT_TRUE(map.Set(0, chunk));
    EXPECT_FALSE(map.Set(0, chunk)) << "it is there";
  }
  EXPECT_TRUE(map.all_whole());
  map.Reset(3, 1);
  EXPECT_FALSE(map.Has(2, 0));
}

// Against a look at each chunk.
TEST(ChunkMapTest, RunsOfMissingChunks) {
  const auto [first, count] = SeedsToRun(50);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay: EPIC_SEED=" << seed);
    std::mt19937_64 random(seed);
    const auto chunks = static_cast<uint32_t>(1 + random() % 200);
    const uint64_t there_of_ten = random() % 11;
    ChunkMap map;
    map.Reset(1, chunks);
    std::vector<bool> there(chunks);
    for (uint32_t i = 0; i < chunks; ++i) {
      there[i] = random() % 10 < there_of_ten;
      if (there[i]) map.Set(0, i);
    }
    const auto most = static_cast<uint32_t>(1 + random() % 9);
    for (uint32_t from = 0; from <= chunks; ++from) {
      uint32_t want = from;
      while (want < chunks && there[want]) ++want;
      uint32_t end = want;
      while (end < chunks && end - want < most && !there[end]) ++end;
      const ChunkMap::Run run = map.NextMissing(0, from, most);
      ASSERT_EQ(run.count, end - want) << from;
      if (run.count > 0) {
        ASSERT_EQ(run.first, want) << from;
      }
    }
  }
}

}  // namespace
}  // namespace epic
