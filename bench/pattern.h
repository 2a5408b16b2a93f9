// Inputs that make every error of a collective visible, and the results to expect.
//
// Rank r's element i of run s is a hash of (r, i, s). A missing, doubled, stale or misplaced contribution
// changes a sum of INT32 elements with probability 1 - 2^-32. FP elements are integers small enough for every
// partial sum, in any order, to be exact in their type, so that results are compared bit by bit: with 64
// ranks FP32 has 17 bits, FP16 4 and BF16 one. An average is the exact sum, divided in FP32 and rounded once.
#pragma once

#include <cstdint>
#include <span>

#include "epic/epic.h"

namespace epic::perf {

// Most ranks for which there are exact BF16 sums.
inline constexpr int kMaxExactRanks = 64;

constexpr uint32_t ElementBytes(Datatype type) {
  switch (type) {
    case Datatype::kFloat32:
    case Datatype::kInt32:
      return 4;
    case Datatype::kFloat16:
    case Datatype::kBFloat16:
      return 2;
    case Datatype::kByte:
      return 1;
  }
  return 0;
}

struct Inputs {
  Datatype type = Datatype::kFloat32;
  int ranks = 1;
  uint32_t run = 0;  // numbers runs: what an earlier one has left behind is wrong in a later one
};

// Writes a rank's elements from number `first` on; `data` is whole elements.
void FillInput(const Inputs& inputs, int rank, uint64_t first, std::span<uint8_t> data);

// The number of elements, from number `first` on, that differ from the reduction over all ranks.
uint64_t CountWrong(const Inputs& inputs, RedOp op, uint64_t first, std::span<const uint8_t> data);

// ... from the rank's input.
uint64_t CountWrongCopies(const Inputs& inputs, int rank, uint64_t first, std::span<const uint8_t> data);

}  // namespace epic::perf
