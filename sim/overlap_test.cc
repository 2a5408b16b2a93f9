#include "sim/overlap.h"

#include <gtest/gtest.h>

#include <string>

namespace epic::sim {
namespace {

using engine::Mode;

class OverlapTest : public testing::TestWithParam<Mode> {};

INSTANTIATE_TEST_SUITE_P(Modes, OverlapTest, testing::ValuesIn(ModesOfOwnMemory()),
                         [](const auto& param) { return std::string(NumeralOf(param.param)); });

// What both together load: a ReduceScatter mostly the way up, an AllGather mostly the way down. With n ranks
// the other direction carries the n-th part of it, control packets and acknowledgements.
void ExpectDisjointDirections(const Overlap& result, const OverlapConfig& config) {
  const auto whole = static_cast<double>(config.bytes) * config.calls;
  const double part = whole / static_cast<double>(config.tree.rank_switch.size());
  const HostLoad& scatter = result.reduce_scatter_load;
  const HostLoad& gather = result.all_gather_load;
  EXPECT_GE(static_cast<double>(scatter.up), whole);
  EXPECT_LE(static_cast<double>(scatter.up), 1.1 * whole);
  EXPECT_LE(static_cast<double>(scatter.down), part + 0.1 * whole);
  EXPECT_GE(static_cast<double>(gather.down), whole - part);
  EXPECT_LE(static_cast<double>(gather.down), 1.1 * whole);
  EXPECT_LE(static_cast<double>(gather.up), part + 0.1 * whole);
}

// Parts that fit into the window together: all hosts send theirs at the same time, and what both calls take
// of each direction, 1 + 1/n, is what the links are busy with.
TEST_P(OverlapTest, ShortPartsOverlapAlmostWhole) {
  for (const TreeSpec& tree : {Star(8), FullTree(2, 2)}) {
    const OverlapConfig config{.mode = GetParam(), .tree = tree, .bytes = 64 << 10, .calls = 8};
    const Overlap result = MeasureOverlap(config);
    ASSERT_TRUE(result.right);
    ExpectDisjointDirections(result, config);
    const Nanos sum = result.reduce_scatter + result.all_gather;
    EXPECT_LT(result.both * 100, sum * (tree.rank_switch.size() == 8 ? 60 : 70));
  }
}

// Parts beyond the window: they come one after the other, and the link of the host whose part it is carries
// both calls' data in one direction.
TEST_P(OverlapTest, LongPartsOverlap) {
  const OverlapConfig config{.mode = GetParam(), .tree = Star(8), .bytes = 1 << 20};
  const Overlap result = MeasureOverlap(config);
  ASSERT_TRUE(result.right);
  ExpectDisjointDirections(result, config);
  EXPECT_LT(result.both * 100, (result.reduce_scatter + result.all_gather) * 90);
}

// A part leaves its host once, and comes to all others.
TEST(OverlapWaysTest, AnAllGatherByMulticastBesideTheSwitch) {
  const OverlapConfig config{.all_gather = OverlapWay::kMulticast, .bytes = 1 << 20, .staging_chunks = 2048};
  const Overlap result = MeasureOverlap(config);
  ASSERT_TRUE(result.right);
  ExpectDisjointDirections(result, config);
  EXPECT_LT(result.both * 100, (result.reduce_scatter + result.all_gather) * 90);
}

TEST(OverlapWaysTest, TwoRingsShareTheLinks) {
  const OverlapConfig config{
      .reduce_scatter = OverlapWay::kRing, .all_gather = OverlapWay::kRing, .bytes = 4 << 20};
  const Overlap result = MeasureOverlap(config);
  ASSERT_TRUE(result.right);
  EXPECT_GT(result.both * 100, (result.reduce_scatter + result.all_gather) * 90);
}

}  // namespace
}  // namespace epic::sim
