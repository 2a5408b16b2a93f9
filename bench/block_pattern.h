// Inputs and results of sums that travel in blocks of INT8 (docs/PROTOCOL.md, section 8). They are rounded on their way, so
// that results are not compared bit by bit: what is further from the exact sum than its bound is wrong.
//
// Rank r's element i of run s is a Gaussian number, of a deviation of 1, made of a hash of (r, i, s). Blocks begin with
// element 0 of a part.
#pragma once

#include <cstdint>
#include <span>

#include "bench/pattern.h"

namespace epic::perf {

// How exact sums were.
struct Accuracy {
  double signal = 0;  // squares of exact sums
  double noise = 0;   // squares of what the results lack
  double worst = 0;   // the largest error, as a share of its bound
  // The signal-to-quantisation-noise ratio, dB; infinite without noise.
  double Sqnr() const;
};

// As FillInput; the type is kFloat32, kFloat16 or kBFloat16.
void FillBlocksInput(const Inputs& inputs, int rank, uint64_t first, std::span<uint8_t> data);

// The number of elements of a part, whose first one has the number `first`, that are further from the sum or average
// over all ranks than `levels` of blocks on its way allow. Adds to *accuracy.
uint64_t CountBeyondBound(const Inputs& inputs, int levels, uint64_t first, std::span<const uint8_t> data,
                          Accuracy* accuracy);

}  // namespace epic::perf
