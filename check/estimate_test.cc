// From how an exploration begins, how it ends: to an order of magnitude.
#include "check/estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "check/explorer.h"
#include "check/setups_testing.h"

namespace epic::check {
namespace {

// Of all subsets of 40 things by their size.
std::vector<uint64_t> Binomial() {
  std::vector<uint64_t> layers = {1};
  for (uint64_t k = 1; k <= 40; ++k) layers.push_back(layers.back() * (41 - k) / k);
  return layers;
}

TEST(EstimateTest, InterleavingsOfShortSequencesAreKnownFromTheirFirstLayers) {
  const std::vector<uint64_t> layers = Binomial();
  // 2^40, in a run of as many steps as lead through them.
  for (const size_t known : {12u, 14u, 18u}) {
    const double states = EstimatedStates(std::span(layers).first(known), 31);
    EXPECT_GT(states, std::pow(2, 40) / 10) << known;
    EXPECT_LT(states, std::pow(2, 40) * 10) << known;
  }
}

TEST(EstimateTest, BehindTheWidestLayerAsManyFollowAsWereBefore) {
  const std::vector<uint64_t> layers = Binomial();
  const double states = EstimatedStates(std::span(layers).first(26), 31);
  EXPECT_GT(states, std::pow(2, 40));
  EXPECT_LT(states, std::pow(2, 40) * 1.2);
}

TEST(EstimateTest, NeverLessThanIsKnownAndNothingOfNothing) {
  EXPECT_EQ(EstimatedStates({}, 50), 0);
  const std::vector<uint64_t> first = {1};
  EXPECT_EQ(EstimatedStates(first, 50), 0);
  const std::vector<uint64_t> thin(5000, 3);
  EXPECT_GE(EstimatedStates(thin, 10), 15000);
}

TEST(EstimateTest, ARunWithoutFaultsEnds) {
  for (const Mode each : ModesOfOwnMemory()) {
    const std::string mode = std::to_string(NumberOf(each));
    Model model = ModelOf({.mode = mode, .topology = "star-2", .faults = {.losses = 3, .late_timers = 2}});
    const int64_t steps = StepsOfARun(model);
    // Two calls made; up and down two edges a control packet, a data packet, and an acknowledgement of each.
    EXPECT_GE(steps, 10) << mode;
    EXPECT_LE(steps, 24) << mode;
  }
}

// Systems of a hundred thousand states, of which the first twenty thousand are known.
TEST(EstimateTest, ItIsWithinAFactorOfTenOfWhatTheExplorationComesTo) {
  const check::Setup setups[] = {
      {.mode = "2", .topology = "tree-3-2", .messages = 2, .faults = {.losses = 1}},
      {.mode = "3", .topology = "tree-3-2", .messages = 2, .faults = {.losses = 1}},
      {.mode = "2", .collective = "allgather", .topology = "tree-3-2", .faults = {.losses = 1}},
      {.mode = "2", .topology = "star-2", .reorder = "any"},
      {.mode = "2",
       .collective = "barrier",
       .topology = "tree-3-2",
       .faults = {.losses = 1},
       .late_calls = "2"},
  };
  for (const check::Setup& setup : setups) {
    SCOPED_TRACE(Line(setup));
    Model model = ModelOf(setup);
    const Report report = Explore(model, {});
    ASSERT_EQ(report.verdict, Verdict::kRight);
    const std::vector<uint64_t>& layers = report.progress.layers;
    const auto all = static_cast<double>(report.progress.states);
    EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), uint64_t{0}), report.progress.states);
    size_t known = 0;
    for (uint64_t states = 0; states < 20'000; ++known) states += layers[known];
    Model fresh = ModelOf(setup);
    const double estimated = EstimatedStates(std::span(layers).first(known), StepsOfARun(fresh));
    EXPECT_GT(estimated, all / 10) << all;
    EXPECT_LT(estimated, all * 10) << all;
  }
}

TEST(EstimateTest, ASearchByDepthHasNoLayers) {
  Model model = ModelOf({.topology = "star-2"});
  EXPECT_TRUE(Explore(model, {.depth_first = true}).progress.layers.empty());
}

}  // namespace
}  // namespace epic::check
