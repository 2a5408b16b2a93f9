#include "bench/block_pattern.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "bench/collective.h"

namespace epic::perf {
namespace {

constexpr int kRanksOfBlocks = 3;
constexpr size_t kElements = 1000;  // the last block is short

std::vector<float> InputOf(const Inputs& inputs, int rank) {
  std::vector<float> input(kElements);
  FillBlocksInput(inputs, rank, 0, {reinterpret_cast<uint8_t*>(input.data()), kElements * sizeof(float)});
  return input;
}

std::vector<float> SumOf(const Inputs& inputs) {
  std::vector<double> sums(kElements);
  for (int rank = 0; rank < kRanksOfBlocks; ++rank) {
    const std::vector<float> input = InputOf(inputs, rank);
    for (size_t i = 0; i < kElements; ++i) sums[i] += input[i];
  }
  const double divisor = inputs.op == RedOp::kAvg ? kRanksOfBlocks : 1;
  std::vector<float> result(kElements);
  for (size_t i = 0; i < kElements; ++i) result[i] = static_cast<float>(sums[i] / divisor);
  return result;
}

uint64_t Beyond(const Inputs& inputs, const std::vector<float>& result, int levels, Accuracy* accuracy) {
  return CountBeyondBound(inputs, levels, 0,
                          {reinterpret_cast<const uint8_t*>(result.data()), kElements * sizeof(float)},
                          accuracy);
}

// A missing or doubled contribution, or one of another run, is further off than blocks may be.
TEST(BlockPatternTest, WhatIsFurtherOffThanItsBoundIsWrong) {
  for (const RedOp op : {RedOp::kSum, RedOp::kAvg}) {
    const Inputs inputs{.ranks = kRanksOfBlocks, .run = 7, .op = op};
    const std::vector<float> right = SumOf(inputs);
    Accuracy accuracy;
    EXPECT_EQ(Beyond(inputs, right, 1, &accuracy), 0u);
    EXPECT_LT(accuracy.worst, 1e-4);
    EXPECT_GT(accuracy.Sqnr(), 100);
    const float share = op == RedOp::kAvg ? 1.0f / kRanksOfBlocks : 1;
    std::vector<float> near = right, far = right;
    for (size_t i = 0; i < kElements; ++i) {
      near[i] += 0.005f * share;
      far[i] += 0.2f * share;
    }
    EXPECT_EQ(Beyond(inputs, near, 1, &accuracy), 0u);
    EXPECT_GT(accuracy.worst, 0.05);
    EXPECT_EQ(Beyond(inputs, far, 1, &accuracy), kElements);
    std::vector<float> none = right;
    none[5] = std::numeric_limits<float>::quiet_NaN();
    none[999] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(Beyond(inputs, none, 1, &accuracy), 2u);
    const std::vector<float> first = InputOf(inputs, 0);
    std::vector<float> missing = right;
    for (size_t i = 0; i < kElements; ++i) missing[i] -= first[i] * share;
    EXPECT_GT(Beyond(inputs, missing, 1, &accuracy), kElements * 9 / 10);
    EXPECT_GT(Beyond({.ranks = kRanksOfBlocks, .run = 8, .op = op}, right, 1, &accuracy), kElements * 9 / 10);
  }
}

TEST(BlockPatternTest, InputsAreGaussian) {
  double sum = 0, squares = 0;
  for (uint32_t run = 0; run < 50; ++run) {
    for (const float x : InputOf({.ranks = kRanksOfBlocks, .run = run}, 1)) {
      sum += x;
      squares += double{x} * x;
    }
  }
  EXPECT_NEAR(sum / (50 * kElements), 0, 0.02);
  EXPECT_NEAR(squares / (50 * kElements), 1, 0.02);
}

TEST(BlockPatternTest, OnlySumsOfFloatingPointNumbersAboveThePlainBytesHaveLevels) {
  const Quantisation quantised{.int8 = true, .plain_bytes = 400, .levels = 2};
  Job job{.count = 101, .ranks = 4};
  EXPECT_EQ(LevelsOf(job, quantised), 2);
  EXPECT_EQ(LevelsOf(job, {}), 0);
  job.op = RedOp::kMax;
  EXPECT_EQ(LevelsOf(job, quantised), 0);
  job.op = RedOp::kAvg;
  job.count = 100;
  EXPECT_EQ(LevelsOf(job, quantised), 0);
  job.kind = Kind::kReduceScatter;
  EXPECT_EQ(LevelsOf(job, quantised), 2) << "all shares together";
  job.kind = Kind::kAllGather;
  EXPECT_EQ(LevelsOf(job, quantised), 0);
  job = {.type = Datatype::kFloat64, .count = 1000, .ranks = 4};
  EXPECT_EQ(LevelsOf(job, quantised), 0);
}

}  // namespace
}  // namespace epic::perf
