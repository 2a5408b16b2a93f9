// Inputs that make every error of a collective visible, and the results to expect.
//
// Rank r's element i of run s is a hash of (r, i, s). A missing, doubled, stale or misplaced contribution
// changes a sum of INT32 elements with probability 1 - 2^-32, of other integers with as many bits as they
// have; logical operations see a hash that is zero half of the time. FP elements are integers small enough
// for every partial sum, in any order, to be exact in their type, so that results are compared bit by bit:
// with 64 ranks FP64 has 46 bits, FP32 17, FP16 4 and BF16 one. For products they are powers of two of either
// sign, which are exact in any order too. An average is the exact sum, divided in FP32 (FP64 in FP64) and
// rounded once, or the wrapped sum of integers, divided and truncated. In a group with a scale FP32 elements
// are such integers divided by it, which become these integers again, and results those of the integers
// divided by the scale, and of an average by the ranks, in FP64.
#pragma once

#include <cstdint>
#include <span>

#include "epic/epic.h"
#include "protocol/types.h"

namespace epic::perf {

// Most ranks for which there are exact BF16 sums.
inline constexpr int kMaxExactRanks = 64;

constexpr uint32_t ElementBytes(Datatype type) { return epic::ElementBytes(static_cast<DataType>(type)); }

struct Inputs {
  Datatype type = Datatype::kFloat32;
  int ranks = 1;
  uint32_t run = 0;  // numbers runs: what an earlier one has left behind is wrong in a later one
  RedOp op = RedOp::kSum;
  float scale = 0;  // of the group; 0: it has none
};

// Writes a rank's elements from number `first` on; `data` is whole elements.
void FillInput(const Inputs& inputs, int rank, uint64_t first, std::span<uint8_t> data);

// The number of elements, from number `first` on, that differ from the reduction over all ranks by
// inputs.op, which the type must have.
uint64_t CountWrong(const Inputs& inputs, uint64_t first, std::span<const uint8_t> data);

// ... from the rank's input.
uint64_t CountWrongCopies(const Inputs& inputs, int rank, uint64_t first, std::span<const uint8_t> data);

// The number of bytes that are no longer `untouched`, of a buffer that held nothing else.
uint64_t CountTouched(std::span<const uint8_t> data, uint8_t untouched);

}  // namespace epic::perf
