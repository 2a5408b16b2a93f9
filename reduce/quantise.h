// FP32 as INT32 and back, for groups that sum it over switches that have integers alone (docs/PROTOCOL.md,
// section 8; EPIC paper, appendix I.1): SIMD with run-time dispatch, as the kernels of reduce.h. Results are
// the same on every instruction set. Data are little-endian and need no alignment; in and out are the same,
// or do not overlap, and have as many bytes, a multiple of 4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace epic {

// out[i] = in[i] * scale, rounded to nearest, ties to even, or the limit of INT32 that it is beyond. The
// product is exact before that. Returns how many of out are at a limit. `scale` IsScale (protocol/types.h);
// what an element that is not finite becomes is not specified (FirstNotFinite).
size_t Quantise(float scale, std::span<uint8_t> out, const uint8_t* in);

// out[i] = in[i] / divisor, in FP64, rounded to FP32. Returns how many of in are at a limit of INT32.
size_t Dequantise(double divisor, std::span<uint8_t> out, const uint8_t* in);

// The number of the first FP32 element that is infinite or no number.
std::optional<size_t> FirstNotFinite(std::span<const uint8_t> data);

}  // namespace epic
