// A reference of the kernels, one element at a time and by other arithmetic, and a loop over instruction
// sets.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "protocol/types.h"

namespace epic {

// Runs body once with every instruction set that was compiled and that this machine has.
template <typename Body>
void ForEachTarget(Body body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

// An IEEE 754 binary format; every value of those used here is exact as a double.
struct Format {
  int mantissa_bits;
  int exponent_bits;

  int Bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t Infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  uint32_t SignBit() const { return 1u << (mantissa_bits + exponent_bits); }
  bool IsNaN(uint32_t bits) const { return (bits & (SignBit() - 1)) > Infinity(); }

  double Decode(uint32_t bits) const {
    const uint32_t magnitude = bits & (SignBit() - 1);
    double value;
    if (magnitude > Infinity()) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (magnitude == Infinity()) {
      value = std::numeric_limits<double>::infinity();
    } else {
      const int exponent = static_cast<int>(magnitude >> mantissa_bits);
      const uint32_t fraction = magnitude & ((1u << mantissa_bits) - 1);
      const uint32_t significand = exponent == 0 ? fraction : fraction | 1u << mantissa_bits;
      value = std::ldexp(significand, std::max(exponent, 1) - Bias() - mantissa_bits);
    }
    return (bits & SignBit()) != 0 ? -value : value;
  }

  // The nearest value of the format, ties to even.
  uint32_t Encode(double value) const {
    const uint32_t sign = std::signbit(value) ? SignBit() : 0;
    if (std::isnan(value)) return sign | Infinity() | 1u << (mantissa_bits - 1);
    if (value == 0) return sign;
    const double magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return sign | Infinity();
    const int exponent = std::max(std::ilogb(magnitude), 1 - Bias());
    // In units of the last place, of which a number of the next binade has just enough to carry.
    const auto units = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
    const uint64_t bits = (static_cast<uint64_t>(exponent + Bias() - 1) << mantissa_bits) + units;
    return sign | static_cast<uint32_t>(std::min<uint64_t>(bits, Infinity()));
  }
};

inline constexpr Format kFp32{23, 8};
inline constexpr Format kFp16{10, 5};
inline constexpr Format kBf16{7, 8};

inline const Format& FormatOf(DataType type) {
  return type == DataType::kFloat16 ? kFp16 : type == DataType::kBFloat16 ? kBf16 : kFp32;
}

inline float ReferenceOp(ReduceOp op, float a, float b) {
  if (op == ReduceOp::kSum) return a + b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
  const bool a_is_less = a < b || (a == b && std::signbit(a));
  return a_is_less == (op == ReduceOp::kMin) ? a : b;
}

inline int32_t ReferenceOp(ReduceOp op, int32_t a, int32_t b) {
  if (op == ReduceOp::kSum) return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  return (a < b) == (op == ReduceOp::kMin) ? a : b;
}

// The wire form, as bits, of the reduction of elements in the order given.
inline uint32_t ReferenceReduce(ReduceOp op, DataType type, std::span<const uint32_t> elements) {
  if (type == DataType::kInt32) {
    auto acc = static_cast<int32_t>(elements[0]);
    for (size_t i = 1; i < elements.size(); ++i)
      acc = ReferenceOp(op, acc, static_cast<int32_t>(elements[i]));
    return static_cast<uint32_t>(acc);
  }
  const Format& format = FormatOf(type);
  auto acc = static_cast<float>(format.Decode(elements[0]));
  for (size_t i = 1; i < elements.size(); ++i) {
    acc = ReferenceOp(op, acc, static_cast<float>(format.Decode(elements[i])));
  }
  return format.Encode(acc);
}

// True if the two wire forms are the same value; which NaN it is does not matter.
inline bool Same(DataType type, uint32_t a, uint32_t b) {
  if (a == b) return true;
  return type != DataType::kInt32 && FormatOf(type).IsNaN(a) && FormatOf(type).IsNaN(b);
}

// Elements in wire form, shift bytes behind the start of the vector.
inline std::vector<uint8_t> ToBytes(DataType type, const std::vector<uint32_t>& elements, size_t shift = 0) {
  std::vector<uint8_t> bytes(shift + elements.size() * ElementBytes(type));
  for (size_t i = 0; i < elements.size(); ++i) {
    std::memcpy(bytes.data() + shift + i * ElementBytes(type), &elements[i], ElementBytes(type));
  }
  return bytes;
}

inline std::vector<uint32_t> FromBytes(DataType type, const uint8_t* bytes, size_t count) {
  std::vector<uint32_t> elements(count);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(&elements[i], bytes + i * ElementBytes(type), ElementBytes(type));
  }
  return elements;
}

// Zeros, infinities, NaNs, subnormals, the largest, powers of two and their neighbours, of either sign.
inline std::vector<uint32_t> Specials(DataType type) {
  std::vector<uint32_t> specials;
  if (type == DataType::kInt32) {
    for (const int64_t v : {0ll, 1ll, 2ll, 0x7ffffffell, 0x7fffffffll}) {
      specials.push_back(static_cast<uint32_t>(v));
      specials.push_back(static_cast<uint32_t>(-v));
    }
    specials.push_back(0x80000000u);
    return specials;
  }
  const Format& format = FormatOf(type);
  const uint32_t ulp = 1;
  const uint32_t min_normal = 1u << format.mantissa_bits;
  const uint32_t one = static_cast<uint32_t>(format.Bias()) << format.mantissa_bits;
  const uint32_t inf = format.Infinity();
  const uint32_t quiet = inf | min_normal >> 1;
  for (const uint32_t v :
       {0u, ulp, 2 * ulp, min_normal - ulp, min_normal, min_normal + ulp, one - ulp, one, one + ulp,
        one + min_normal * 10 + 3, inf - min_normal, inf - ulp, inf, inf + ulp, quiet}) {
    specials.push_back(v);
    specials.push_back(v | format.SignBit());
  }
  return specials;
}

}  // namespace epic
