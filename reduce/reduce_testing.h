// A reference of the kernels, one element at a time and by other arithmetic, and a loop over instruction
// sets. Elements are the bits of their wire form, in the low ones of 64.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
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

// The types that have operations, but blocks (blocks_testing.h).
inline std::vector<DataType> ReducedTypes() {
  std::vector<DataType> types;
  for (const TypeInfo& row : kCallerTypes) {
    if (row.kind != ElementKind::kBytes) types.push_back(row.type);
  }
  return types;
}

// Those that a type has.
inline std::vector<ReduceOp> OpsOf(DataType type) {
  std::vector<ReduceOp> ops;
  for (const OpInfo& row : kReduceOps) {
    if (CanReduce(row.op, type)) ops.push_back(row.op);
  }
  return ops;
}

inline bool IsFloatType(DataType type) { return FindType(type)->kind == ElementKind::kFloat; }

// The bits that an element of the type has.
inline uint64_t MaskOf(DataType type) { return ~uint64_t{0} >> (64 - 8 * ElementBytes(type)); }

// An IEEE 754 binary format; every value of those used here is exact as a double.
struct Format {
  int mantissa_bits;
  int exponent_bits;

  int Bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint64_t Infinity() const { return ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits; }
  uint64_t SignBit() const { return uint64_t{1} << (mantissa_bits + exponent_bits); }
  bool IsNaN(uint64_t bits) const { return (bits & (SignBit() - 1)) > Infinity(); }

  double Decode(uint64_t bits) const {
    const uint64_t magnitude = bits & (SignBit() - 1);
    double value;
    if (magnitude > Infinity()) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (magnitude == Infinity()) {
      value = std::numeric_limits<double>::infinity();
    } else {
      const int exponent = static_cast<int>(magnitude >> mantissa_bits);
      const uint64_t fraction = magnitude & ((uint64_t{1} << mantissa_bits) - 1);
      const uint64_t significand = exponent == 0 ? fraction : fraction | uint64_t{1} << mantissa_bits;
      value = std::ldexp(static_cast<double>(significand), std::max(exponent, 1) - Bias() - mantissa_bits);
    }
    return (bits & SignBit()) != 0 ? -value : value;
  }

  // The nearest value of the format, ties to even.
  uint64_t Encode(double value) const {
    const uint64_t sign = std::signbit(value) ? SignBit() : 0;
    if (std::isnan(value)) return sign | Infinity() | uint64_t{1} << (mantissa_bits - 1);
    if (value == 0) return sign;
    const double magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return sign | Infinity();
    const int exponent = std::max(std::ilogb(magnitude), 1 - Bias());
    // In units of the last place, of which a number of the next binade has just enough to carry.
    const auto units = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
    const uint64_t bits = (static_cast<uint64_t>(exponent + Bias() - 1) << mantissa_bits) + units;
    return sign | std::min(bits, Infinity());
  }
};

inline constexpr Format kFp64{52, 11};
inline constexpr Format kFp32{23, 8};
inline constexpr Format kFp16{10, 5};
inline constexpr Format kBf16{7, 8};

inline const Format& FormatOf(DataType type) {
  if (type == DataType::kFloat64) return kFp64;
  return type == DataType::kFloat16 ? kFp16 : type == DataType::kBFloat16 ? kBf16 : kFp32;
}

template <typename Float>
Float ReferenceFloat(ReduceOp op, Float a, Float b) {
  if (op == ReduceOp::kSum) return a + b;
  if (op == ReduceOp::kProduct) return a * b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Float>::quiet_NaN();
  const bool a_is_less = a < b || (a == b && std::signbit(a));
  return a_is_less == (op == ReduceOp::kMin) ? a : b;
}

// The value of an integer of the type; an unsigned one of 64 bits as the signed one with its order.
inline int64_t OrderOf(DataType type, uint64_t bits) {
  const uint64_t sign = MaskOf(type) / 2 + 1;
  if (type == DataType::kUint64) return static_cast<int64_t>(bits ^ sign);
  if (FindType(type)->kind == ElementKind::kUnsigned || (bits & sign) == 0) return static_cast<int64_t>(bits);
  return static_cast<int64_t>(bits | ~MaskOf(type));
}

inline uint64_t ReferenceInteger(ReduceOp op, DataType type, uint64_t a, uint64_t b) {
  switch (op) {
    case ReduceOp::kSum:
      return (a + b) & MaskOf(type);
    case ReduceOp::kMin:
      return OrderOf(type, a) < OrderOf(type, b) ? a : b;
    case ReduceOp::kMax:
      return OrderOf(type, a) < OrderOf(type, b) ? b : a;
    case ReduceOp::kProduct:
      return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b) & MaskOf(type);
    case ReduceOp::kBitAnd:
      return a & b;
    case ReduceOp::kBitOr:
      return a | b;
    case ReduceOp::kBitXor:
      return a ^ b;
    case ReduceOp::kLogicalAnd:
      return a != 0 && b != 0 ? 1 : 0;
    case ReduceOp::kLogicalOr:
      return a != 0 || b != 0 ? 1 : 0;
    case ReduceOp::kSaturatingSum: {
      const int64_t least = INT32_MIN, most = INT32_MAX, x = OrderOf(type, a), y = OrderOf(type, b);
      int64_t sum = std::clamp(x + y, least, most);
      if (x == most || y == most) sum = most;
      if (x == least || y == least) sum = least;
      return static_cast<uint64_t>(sum) & MaskOf(type);
    }
    case ReduceOp::kNone:
      break;
  }
  ADD_FAILURE() << "no operation";
  return 0;
}

// The wire form of the reduction of elements in the order given.
inline uint64_t ReferenceReduce(ReduceOp op, DataType type, std::span<const uint64_t> elements) {
  if (!IsFloatType(type)) {
    const bool logical = op == ReduceOp::kLogicalAnd || op == ReduceOp::kLogicalOr;
    uint64_t acc = logical ? uint64_t{elements[0] != 0} : elements[0];
    for (size_t i = 1; i < elements.size(); ++i) acc = ReferenceInteger(op, type, acc, elements[i]);
    return acc;
  }
  const Format& format = FormatOf(type);
  if (type == DataType::kFloat64) {
    double acc = format.Decode(elements[0]);
    for (size_t i = 1; i < elements.size(); ++i) acc = ReferenceFloat(op, acc, format.Decode(elements[i]));
    return format.Encode(acc);
  }
  auto acc = static_cast<float>(format.Decode(elements[0]));
  for (size_t i = 1; i < elements.size(); ++i) {
    acc = ReferenceFloat(op, acc, static_cast<float>(format.Decode(elements[i])));
  }
  return format.Encode(acc);
}

// True if the two wire forms are the same value; which NaN it is does not matter.
inline bool Same(DataType type, uint64_t a, uint64_t b) {
  if (a == b) return true;
  return IsFloatType(type) && FormatOf(type).IsNaN(a) && FormatOf(type).IsNaN(b);
}

// Elements in wire form, shift bytes behind the start of the vector.
inline std::vector<uint8_t> ToBytes(DataType type, const std::vector<uint64_t>& elements, size_t shift = 0) {
  std::vector<uint8_t> bytes(shift + elements.size() * ElementBytes(type));
  for (size_t i = 0; i < elements.size(); ++i) {
    std::memcpy(bytes.data() + shift + i * ElementBytes(type), &elements[i], ElementBytes(type));
  }
  return bytes;
}

inline std::vector<uint64_t> FromBytes(DataType type, const uint8_t* bytes, size_t count) {
  std::vector<uint64_t> elements(count);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(&elements[i], bytes + i * ElementBytes(type), ElementBytes(type));
  }
  return elements;
}

// Zeros, infinities, NaNs, subnormals, the largest, powers of two and their neighbours, of either sign.
inline std::vector<uint64_t> Specials(DataType type) {
  std::vector<uint64_t> specials;
  if (!IsFloatType(type)) {
    const uint64_t mask = MaskOf(type);
    const uint64_t top = mask / 2 + 1;
    // Zero, one, the largest, the least, half the bits (whose square just wraps), a pattern, and bytes apart.
    const uint64_t half = uint64_t{1} << 4 * ElementBytes(type);
    for (const uint64_t v : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, top - 1, top, top + 1, mask,
                             mask - 1, half - 1, half, half + 1, uint64_t{0xa5a5a5a5a5a5a5a5},
                             uint64_t{0x0100010001000100}, uint64_t{0x00ff00ff00ff00ff}})
      specials.push_back(v & mask);
    return specials;
  }
  const Format& format = FormatOf(type);
  const uint64_t ulp = 1;
  const uint64_t min_normal = uint64_t{1} << format.mantissa_bits;
  const uint64_t one = static_cast<uint64_t>(format.Bias()) << format.mantissa_bits;
  const uint64_t inf = format.Infinity();
  const uint64_t quiet = inf | min_normal >> 1;
  for (const uint64_t v :
       {uint64_t{0}, ulp, 2 * ulp, min_normal - ulp, min_normal, min_normal + ulp, one - ulp, one, one + ulp,
        one + min_normal * 10 + 3, inf - min_normal, inf - ulp, inf, inf + ulp, quiet}) {
    specials.push_back(v);
    specials.push_back(v | format.SignBit());
  }
  return specials;
}

}  // namespace epic
