// Floating-point numbers as blocks of INT8 that share a scale (SCIN paper, section 3.4.4): SIMD with run-time
// dispatch, as the kernels of reduce.h, which take them for those of the type block8 (docs/PROTOCOL.md,
// section 8).
//
// A block has 64 bytes, so that packets hold whole ones: a scale s in BF16, then 62 whole numbers q in two's
// complement. Element i is q[i] * s. Of numbers x the scale is that of the largest magnitude:
//
//   s = max|x| / 127 in FP32, rounded up to BF16, and not below its least subnormal number; 0 if all are 0
//   q = x / s in FP32, rounded to nearest, ties to even; from -127 to 127
//
// so that q * s is exact in FP32 and no further from x than s / 2, also beside the largest and among
// subnormal numbers. Zeros have no sign. A block with a number that is infinite or none has NaN as s, and 0
// as each q: all that is made of it is NaN. Blocks that others have made may hold any bits: q * s is then
// what IEEE 754 says.
//
// Sums are in FP32. They round to a block once, by Store, however many contributions they have.
//
// All data are little-endian and need no alignment. Results are the same on every instruction set, bit for
// bit, except for the payload and sign of a NaN that Dequantise gives.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "protocol/number_blocks.h"
#include "protocol/types.h"

namespace epic {

// Of a block's accumulator: FP32 for each byte of the block. Those of the scale are not used.
inline constexpr size_t kBlockAccumulatorBytes = 256;

// acc = in, for the first contribution. in.size() is a multiple of kBlockBytes, and acc.size() as many times
// kBlockAccumulatorBytes. The spans do not overlap.
void LoadBlocks(std::span<uint8_t> acc, std::span<const uint8_t> in);

// acc[i] = acc[i] + in[i] for every element; conditions as for LoadBlocks.
void AccumulateBlocks(std::span<uint8_t> acc, std::span<const uint8_t> in);

// out = acc as blocks. A sum beyond FP32 is infinite, and its block NaN. Sizes as for LoadBlocks. Blocks are
// made from front to back: out may begin where acc begins, else the spans do not overlap.
void StoreBlocks(std::span<const uint8_t> acc, std::span<uint8_t> out);

// out[i] = a[i] + b[i] for every element, all as blocks: LoadBlocks, AccumulateBlocks and StoreBlocks in one,
// of two contributions. a and b have as many bytes as out, a multiple of kBlockBytes; out is a, is b, or
// overlaps neither. The order of a and b makes no difference.
void CombineBlocks(std::span<uint8_t> out, const uint8_t* a, const uint8_t* b);

// out = in as blocks. `type` is kFloat32, kFloat16 or kBFloat16, and in.size() a multiple of its size;
// out.size() is kBlockBytes for each of BlocksOf its elements. A short last block has zeros behind its
// elements. The spans do not overlap.
void QuantiseBlocks(DataType type, std::span<uint8_t> out, std::span<const uint8_t> in);

// out = in as numbers of that type, rounded to nearest, ties to even; too large becomes infinity. Sizes as
// for QuantiseBlocks: the elements of a short last block are written, and nothing behind them. The spans do
// not overlap.
void DequantiseBlocks(DataType type, std::span<uint8_t> out, std::span<const uint8_t> in);

// The scale of a block of kBlockBytes: half of it is how far an element may be from what it was made of. NaN
// if that was not finite.
inline float BlockScale(const uint8_t* block) {
  uint16_t upper;
  std::memcpy(&upper, block, sizeof upper);
  return std::bit_cast<float>(uint32_t{upper} << 16);
}

}  // namespace epic
