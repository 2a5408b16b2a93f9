// How far a sum that travels in blocks (reduce/blocks.h) may be from the exact one (docs/PROTOCOL.md, section 8): for those who
// judge results.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "protocol/types.h"

namespace epic {

// The scale of a block whose largest magnitude this is, more than 0 and finite.
inline double ScaleOf(float largest) {
  const uint32_t bits = (std::bit_cast<uint32_t>(largest / 127.0f) + 0xffff) & 0xffff0000;
  return std::bit_cast<float>(std::max(bits, 0x10000u));
}

// Half the distance from 1 to the next value of a type that becomes blocks, and from 0 to the next.
inline double UnitOf(DataType type) {
  return type == DataType::kFloat32 ? 0x1p-24 : type == DataType::kFloat16 ? 0x1p-11 : 0x1p-8;
}
inline double LeastOf(DataType type) {
  return type == DataType::kFloat32 ? 0x1p-150 : type == DataType::kFloat16 ? 0x1p-25 : 0x1p-134;
}

// What an element of such a type is, by its bits; NaN for an infinity of FP16, too, which is no sum.
inline double NumberOf(DataType type, uint32_t bits) {
  if (type == DataType::kFloat32) return std::bit_cast<float>(bits);
  if (type == DataType::kBFloat16) return std::bit_cast<float>(bits << 16);
  const auto exponent = static_cast<int>(bits >> 10 & 0x1f);
  const double fraction = bits & 0x3ff;
  if (exponent == 31) return std::nan("");
  const double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

// Of the block that an element is in, what all ranks have in it.
class BlockBound {
 public:
  // One rank's, whose largest magnitude this is.
  void Add(float largest) {
    ++ranks_;
    largest_ += largest;
    if (largest > 0) scales_ += ScaleOf(largest);
  }

  // How far an element may be from the sum, with `levels` of blocks on its way behind the ranks' own: half the scale of
  // each of these, and the roundings of FP32. At each level scales add up to no more than those of all numbers that
  // are below, in one block.
  double OfSum(int levels) const {
    double half_scales = scales_ / 2;
    for (int level = 0; level < levels; ++level)
      half_scales += ((largest_ + half_scales) / 127 * (1 + 0x1p-7) + ranks_ * 0x1p-133) / 2;
    return half_scales + (ranks_ + 2) * 0x1p-24 * (largest_ + half_scales);
  }

  // The same of what the caller has of it, or of an average: `result`, rounded to the type.
  double Of(int levels, bool average, DataType type, double result) const {
    const double divisor = average ? std::max(ranks_, 1) : 1;
    // FP16 and BF16 are rounded before they are divided, too.
    const double roundings = average ? 2 : 1;
    return OfSum(levels) / divisor + roundings * (UnitOf(type) * std::abs(result) * (1 + UnitOf(type)) + LeastOf(type));
  }

 private:
  int ranks_ = 0;
  double largest_ = 0;
  double scales_ = 0;
};

}  // namespace epic
