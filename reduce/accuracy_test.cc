#include "reduce/accuracy.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace epic {
namespace {

// Of a few elements, so that it is quick.
constexpr size_t kElements = 62 * 192;
constexpr double kTolerance = 0.3;  // dB

Operands Gaussian(int ranks) { return DrawOperands(Distribution::kGaussian, ranks, kElements, 1); }

// 6 L^2 / m^2, with L the largest whole number and m a block's peak in standard deviations.
TEST(AccuracyTest, OneSwitchByLengthAndBits) {
  const Operands operands = Gaussian(8);
  struct Expected {
    size_t block;
    double int8, int4;
  };
  for (const auto& [block, int8, int4] : {Expected{32, 42.3, 17.2},
                                          {62, 41.4, 16.3},
                                          {128, 40.7, 15.6},
                                          {256, 40.1, 14.9},
                                          {512, 39.6, 14.4}}) {
    EXPECT_NEAR(MeasureAccuracy(operands, {.elements = block, .bits = 8}).one_switch, int8, kTolerance)
        << block;
    EXPECT_NEAR(MeasureAccuracy(operands, {.elements = block, .bits = 4}).one_switch, int4, kTolerance)
        << block;
  }
}

// A switch's sum has the noise of one quantisation per rank, and as much again, whatever the number of ranks
// n. Around a ring the k-th sum has as much as k ranks.
TEST(AccuracyTest, ByTheNumberOfRanks) {
  for (const int ranks : {2, 3, 4, 8, 16, 32, 64}) {
    const Accuracy a = MeasureAccuracy(Gaussian(ranks), {});
    const double n = ranks;
    EXPECT_NEAR(a.one_switch, 41.4, kTolerance) << ranks;
    EXPECT_NEAR(a.one_switch - a.ring_exact, 10 * std::log10((n + 1) / 4), kTolerance) << ranks;
    EXPECT_NEAR(a.one_switch - a.ring, 10 * std::log10((n * (n + 1) / 2 + n - 1) / (2 * n)), kTolerance)
        << ranks;
    // Each of log2 n rounds has as much noise as all ranks' own.
    if (std::has_single_bit(static_cast<unsigned>(ranks))) {
      EXPECT_NEAR(a.one_switch - a.doubling, 10 * std::log10((1 + std::log2(n)) / 2), kTolerance) << ranks;
    } else {
      EXPECT_GT(a.doubling, a.ring - kTolerance) << ranks;
    }
    if (ranks >= 4) {
      EXPECT_NEAR(a.two_levels - a.one_switch, -1.76, kTolerance) << ranks;
    }
  }
}

TEST(AccuracyTest, EightRanks) {
  const Accuracy a = MeasureAccuracy(Gaussian(8), {});
  EXPECT_NEAR(a.two_levels - a.one_switch, -1.76, kTolerance);
  EXPECT_NEAR(a.ring_exact - a.one_switch, -3.5, kTolerance);
  EXPECT_NEAR(a.ring - a.one_switch, -4.3, kTolerance);
  EXPECT_NEAR(a.doubling - a.one_switch, -3.0, kTolerance);
}

// Larger peaks beside their standard deviation make larger scales.
TEST(AccuracyTest, OtherDistributions) {
  const auto of = [](Distribution distribution) {
    return MeasureAccuracy(DrawOperands(distribution, 8, kElements, 1), {}).one_switch;
  };
  EXPECT_NEAR(of(Distribution::kLaplace), 39.9, kTolerance);
  EXPECT_NEAR(of(Distribution::kStudent3), 37.1, 1);
  EXPECT_NEAR(of(Distribution::kOutliers), 32.9, 0.5);
}

TEST(AccuracyTest, BlocksOfOtherLengthsAreMadeAsThoseOfTheKernels) {
  const Operands operands = Gaussian(4);
  const Accuracy kernels = MeasureAccuracy(operands, {.elements = 62});
  const Accuracy plain = MeasureAccuracy(operands, {.elements = 64});
  EXPECT_NEAR(kernels.one_switch, plain.one_switch, 0.2);
  EXPECT_NEAR(kernels.ring, plain.ring, 0.2);
  EXPECT_NEAR(kernels.doubling, plain.doubling, 0.2);
}

TEST(AccuracyTest, WithoutNoiseItIsInfinite) {
  const Accuracy a = MeasureAccuracy({{127, 1, 64}, {-127, 2, 0}}, {.elements = 62});
  EXPECT_TRUE(std::isfinite(a.one_switch));
  EXPECT_TRUE(std::isinf(MeasureAccuracy({{127, 1, 0}, {0, -127, 64}}, {.elements = 62}).one_switch));
}

TEST(AccuracyTest, OperandsFollowFromTheSeed) {
  for (const Distribution distribution : kDistributions) {
    const Operands two = DrawOperands(distribution, 2, 300, 7);
    EXPECT_EQ(two, DrawOperands(distribution, 2, 300, 7));
    EXPECT_EQ(two[1], DrawOperands(distribution, 3, 300, 7)[1]);
    EXPECT_NE(two[0], two[1]);
    EXPECT_NE(two, DrawOperands(distribution, 2, 300, 8));
    EXPECT_EQ(DistributionNamed(NameOf(distribution)), distribution);
  }
  EXPECT_FALSE(DistributionNamed("cauchy"));
}

// Mean, variance, fourth moment; of t3, which has none, the quarter that is beyond 0.765 on either side.
TEST(AccuracyTest, NumbersAreOfTheirDistribution) {
  const auto moment = [](Distribution distribution, int power) {
    const Operands x = DrawOperands(distribution, 1, 100'000, 3);
    double sum = 0;
    for (const float v : x[0]) sum += std::pow(double{v}, power);
    return sum / static_cast<double>(x[0].size());
  };
  EXPECT_NEAR(moment(Distribution::kGaussian, 1), 0, 0.02);
  EXPECT_NEAR(moment(Distribution::kGaussian, 2), 1, 0.03);
  EXPECT_NEAR(moment(Distribution::kGaussian, 4), 3, 0.15);
  EXPECT_NEAR(moment(Distribution::kLaplace, 1), 0, 0.02);
  EXPECT_NEAR(moment(Distribution::kLaplace, 2), 2, 0.06);
  EXPECT_NEAR(moment(Distribution::kLaplace, 4), 24, 2);
  EXPECT_NEAR(moment(Distribution::kOutliers, 2), 0.99 + 4, 0.5);
  const Operands t = DrawOperands(Distribution::kStudent3, 1, 100'000, 3);
  int beyond = 0;
  for (const float v : t[0]) beyond += v > 0.7649f ? 1 : 0;
  EXPECT_NEAR(beyond, 25'000, 500);
}

}  // namespace
}  // namespace epic
