#include "bench/pattern.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "bench/pattern_parts.h"

namespace epic::perf {
namespace {

// SplitMix64's finaliser.
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

ElementKind KindOf(Datatype type) { return FindType(static_cast<DataType>(type))->kind; }

bool IsFloat(Datatype type) { return KindOf(type) == ElementKind::kFloat; }

// An FP type holds integers up to 2^significand exactly: each rank gets its share of the bits.
int ValueBits(Datatype type, int ranks) {
  const int share = std::bit_width(static_cast<unsigned>(ranks));
  switch (type) {
    case Datatype::kFloat64:
      return 53 - share;
    case Datatype::kFloat32:
      return 24 - share;
    case Datatype::kFloat16:
      return std::max(1, 11 - share);
    default:
      return std::max(1, 8 - share);
  }
}

// In [-2^(bits-1), 2^(bits-1)).
double SmallInteger(uint64_t hash, int bits) {
  return static_cast<double>(static_cast<int64_t>(hash >> (64 - bits)) - (int64_t{1} << (bits - 1)));
}

// 1, 2 or a half, of either sign. Of at most 14 ranks another magnitude than 1, so that FP16 has all partial
// products.
double SmallPower(uint64_t hash, int rank, uint64_t element, int ranks) {
  constexpr int kMost = 14;
  const auto turns = static_cast<uint64_t>((ranks + kMost - 1) / kMost);
  const bool plain = (element + static_cast<uint64_t>(rank)) % turns != 0;
  const int exponent = plain ? 0 : static_cast<int>(hash >> 8 & 3) % 3 - 1;
  return std::ldexp((hash & 1) != 0 ? -1.0 : 1.0, exponent);
}

// The upper 16 bits, rounded to nearest, ties to even. Not for NaN.
uint32_t ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

// Rounded to nearest, ties to even. For 0 and magnitudes from 2^-14 to 65504, the only ones here.
uint32_t ToFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude == 0) return sign;
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return sign | ((rounded - (112u << 23)) >> 13);
}

}  // namespace

uint64_t RunKey(int rank, uint32_t run) {
  return Mix((static_cast<uint64_t>(run) << 32 | static_cast<uint32_t>(rank)) + 0x9e3779b97f4a7c15);
}

uint64_t Hash(uint64_t key, uint64_t element) { return Mix(key + element * 0x9e3779b97f4a7c15); }

uint64_t ToWire(Datatype type, double value, int divisor) {
  if (type == Datatype::kFloat64) return std::bit_cast<uint64_t>(value / divisor);
  const float divided = static_cast<float>(value) / static_cast<float>(divisor);
  if (type == Datatype::kFloat16) return ToFloat16(divided);
  return type == Datatype::kBFloat16 ? ToBFloat16(divided) : std::bit_cast<uint32_t>(divided);
}

namespace {

// An FP32 number of a group with a scale, of the integer that stands for it there.
uint64_t Unscaled(double whole, double divisor) {
  return std::bit_cast<uint32_t>(static_cast<float>(whole / divisor));
}

bool IsScaled(const Inputs& inputs) { return inputs.scale != 0 && inputs.type == Datatype::kFloat32; }

// A rank's FP element.
double FloatOf(const Inputs& inputs, int rank, uint64_t key, uint64_t element) {
  const uint64_t hash = Hash(key, element);
  if (inputs.op == RedOp::kProduct) return SmallPower(hash, rank, element, inputs.ranks);
  return SmallInteger(hash, ValueBits(inputs.type, inputs.ranks));
}

// Its integer element; what is above the type's bits does not count.
uint64_t IntegerOf(const Inputs& inputs, uint64_t key, uint64_t element) {
  const uint64_t hash = Hash(key, element);
  const bool logical = inputs.op == RedOp::kLogicalAnd || inputs.op == RedOp::kLogicalOr;
  // Of the first byte, which every type has.
  return logical && (hash & 0x80) != 0 ? 0 : hash;
}

uint64_t ElementOf(const Inputs& inputs, int rank, uint64_t key, uint64_t element) {
  if (IsScaled(inputs)) return Unscaled(FloatOf(inputs, rank, key, element), inputs.scale);
  return IsFloat(inputs.type) ? ToWire(inputs.type, FloatOf(inputs, rank, key, element), 1)
                              : IntegerOf(inputs, key, element);
}

double Combine(RedOp op, double a, double b) {
  if (op == RedOp::kMin) return std::min(a, b);
  if (op == RedOp::kMax) return std::max(a, b);
  return op == RedOp::kProduct ? a * b : a + b;
}

// In the type T of the elements, and as it wraps.
template <typename T>
T Combine(RedOp op, T a, T b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
    case RedOp::kMin:
      return std::min(a, b);
    case RedOp::kMax:
      return std::max(a, b);
    case RedOp::kProduct:
      return static_cast<T>(x * y);
    case RedOp::kBitAnd:
      return static_cast<T>(x & y);
    case RedOp::kBitOr:
      return static_cast<T>(x | y);
    case RedOp::kBitXor:
      return static_cast<T>(x ^ y);
    case RedOp::kLogicalAnd:
      return a != 0 && b != 0;
    case RedOp::kLogicalOr:
      return a != 0 || b != 0;
    case RedOp::kSum:
    case RedOp::kAvg:
      break;
  }
  return static_cast<T>(x + y);
}

template <typename T>
uint64_t ReducedInteger(const Inputs& inputs, const std::vector<uint64_t>& keys, uint64_t element) {
  auto value = static_cast<T>(IntegerOf(inputs, keys[0], element));
  for (size_t rank = 1; rank < keys.size(); ++rank)
    value = Combine(inputs.op, value, static_cast<T>(IntegerOf(inputs, keys[rank], element)));
  if (inputs.op == RedOp::kAvg)
    value = static_cast<T>(value / static_cast<std::common_type_t<T, int>>(inputs.ranks));
  if (keys.size() == 1 && (inputs.op == RedOp::kLogicalAnd || inputs.op == RedOp::kLogicalOr))
    value = static_cast<T>(value != 0);
  return static_cast<uint64_t>(value);
}

// The wire form of the reduction.
uint64_t ReducedOf(const Inputs& inputs, const std::vector<uint64_t>& keys, uint64_t element) {
  switch (inputs.type) {
    case Datatype::kInt8:
      return ReducedInteger<int8_t>(inputs, keys, element);
    case Datatype::kInt16:
      return ReducedInteger<int16_t>(inputs, keys, element);
    case Datatype::kInt32:
      return ReducedInteger<int32_t>(inputs, keys, element);
    case Datatype::kInt64:
      return ReducedInteger<int64_t>(inputs, keys, element);
    case Datatype::kByte:
    case Datatype::kUint8:
      return ReducedInteger<uint8_t>(inputs, keys, element);
    case Datatype::kUint16:
      return ReducedInteger<uint16_t>(inputs, keys, element);
    case Datatype::kUint32:
      return ReducedInteger<uint32_t>(inputs, keys, element);
    case Datatype::kUint64:
      return ReducedInteger<uint64_t>(inputs, keys, element);
    case Datatype::kFloat64:
    case Datatype::kFloat32:
    case Datatype::kFloat16:
    case Datatype::kBFloat16:
      break;
  }
  double value = FloatOf(inputs, 0, keys[0], element);
  for (size_t rank = 1; rank < keys.size(); ++rank)
    value = Combine(inputs.op, value, FloatOf(inputs, static_cast<int>(rank), keys[rank], element));
  const int divisor = inputs.op == RedOp::kAvg ? inputs.ranks : 1;
  if (IsScaled(inputs)) return Unscaled(value, double{inputs.scale} * divisor);
  return ToWire(inputs.type, value, divisor);
}

// How many elements of these, in their wire forms, are other ones than element(i), whose upper bits do not
// count.
template <typename Wire, typename Element>
uint64_t CountOthers(std::span<const uint8_t> data, const Element& element) {
  uint64_t others = 0;
  for (size_t i = 0; i < data.size() / sizeof(Wire); ++i) {
    Wire got;
    std::memcpy(&got, &data[i * sizeof(Wire)], sizeof(Wire));
    others += got != static_cast<Wire>(element(i)) ? 1 : 0;
  }
  return others;
}

template <typename Element>
uint64_t CountOthers(uint32_t bytes, std::span<const uint8_t> data, const Element& element) {
  switch (bytes) {
    case 1:
      return CountOthers<uint8_t>(data, element);
    case 2:
      return CountOthers<uint16_t>(data, element);
    case 4:
      return CountOthers<uint32_t>(data, element);
    default:
      return CountOthers<uint64_t>(data, element);
  }
}

}  // namespace

void FillInput(const Inputs& inputs, int rank, uint64_t first, std::span<uint8_t> data) {
  const uint32_t bytes = ElementBytes(inputs.type);
  const uint64_t key = RunKey(rank, inputs.run);
  for (size_t i = 0; i < data.size() / bytes; ++i) {
    const uint64_t element = ElementOf(inputs, rank, key, first + i);
    std::memcpy(&data[i * bytes], &element, bytes);
  }
}

uint64_t CountWrong(const Inputs& inputs, uint64_t first, std::span<const uint8_t> data) {
  std::vector<uint64_t> keys;
  for (int rank = 0; rank < inputs.ranks; ++rank) keys.push_back(RunKey(rank, inputs.run));
  return CountOthers(ElementBytes(inputs.type), data,
                     [&](size_t i) { return ReducedOf(inputs, keys, first + i); });
}

uint64_t CountWrongCopies(const Inputs& inputs, int rank, uint64_t first, std::span<const uint8_t> data) {
  const uint64_t key = RunKey(rank, inputs.run);
  return CountOthers(ElementBytes(inputs.type), data,
                     [&](size_t i) { return ElementOf(inputs, rank, key, first + i); });
}

uint64_t CountTouched(std::span<const uint8_t> data, uint8_t untouched) {
  return static_cast<uint64_t>(std::ranges::count_if(data, [=](uint8_t byte) { return byte != untouched; }));
}

}  // namespace epic::perf
