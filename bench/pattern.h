// Inputs that make every error of a sum visible, and the sums to expect.
//
// Rank r's element i of run s is a hash of (r, i, s). A missing, doubled, stale or misplaced contribution
// changes the sum of an INT32 element with probability 1 - 2^-32. FP32 elements are integers small enough for
// every partial sum, in any order, to be exact, so that results are compared bit by bit.
#pragma once

#include <cstdint>
#include <span>

namespace epic::perf {

// Fills a rank's input.
void FillInput(std::span<int32_t> data, int rank, uint32_t run);
void FillInput(std::span<float> data, int rank, int ranks, uint32_t run);

// The number of elements that differ from the sum over all ranks.
uint64_t CountWrong(std::span<const int32_t> data, int ranks, uint32_t run);
uint64_t CountWrong(std::span<const float> data, int ranks, uint32_t run);

}  // namespace epic::perf
