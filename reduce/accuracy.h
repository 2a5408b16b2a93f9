// How far sums of quantised numbers are from exact ones: the signal-to-quantisation-noise ratio (SQNR) of an
// AllReduce by switches and between hosts, by the shape of the data, the number of ranks and the form of a
// block. It uses no network. epic-accuracy prints it.
//
// Blocks of 62 INT8 are those of the kernels (blocks.h). Blocks of other lengths and of INT4 are the same
// arithmetic in plain code: they have a scale in BF16, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace epic {

// Numbers of mean 0, independent of each other but for kOutliers: Gaussian ones, of which every hundredth is
// twenty times as large, on each rank the same ones, as channels of activations are.
enum class Distribution { kGaussian, kLaplace, kStudent3, kOutliers };

inline constexpr Distribution kDistributions[] = {Distribution::kGaussian, Distribution::kLaplace,
                                                  Distribution::kStudent3, Distribution::kOutliers};

// "gaussian", "laplace", "t3" or "outliers".
std::string_view NameOf(Distribution distribution);
// Nothing if there is none of that name.
std::optional<Distribution> DistributionNamed(std::string_view name);

// What each rank contributes: vectors of equal length.
using Operands = std::vector<std::vector<float>>;

// `elements` numbers for each of `ranks`. They follow from the seed, bit for bit the same on every machine.
// With more ranks the first ones keep what they have.
Operands DrawOperands(Distribution distribution, int ranks, size_t elements, uint64_t seed);

struct BlockForm {
  size_t elements = 62;  // of a block, 1 and more
  int bits = 8;          // of a whole number, 2 to 8; the largest is 2^(bits - 1) - 1
};

// SQNR in dB: 10 log10 of the exact sum's squares over those of what the result lacks. Infinite without
// noise.
struct Accuracy {
  double one_switch = 0;  // adds all ranks' blocks in FP32, and rounds once
  double two_levels = 0;  // switches with two ranks each, and one above them
  double ring_exact =
      0;                // a ring in which each rank adds its numbers as they are to a block (SCIN paper, 2.1)
  double ring = 0;      // a ring in which each rank combines two blocks, as commlib's does
  double doubling = 0;  // recursive doubling, which combines two blocks
};

// Of one rank or more.
Accuracy MeasureAccuracy(const Operands& operands, const BlockForm& form);

}  // namespace epic
