#include "bench/pattern.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace epic::perf {
namespace {

// SplitMix64's finaliser.
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint64_t RunKey(int rank, uint32_t run) {
  return Mix((static_cast<uint64_t>(run) << 32 | static_cast<uint32_t>(rank)) + 0x9e3779b97f4a7c15);
}

// An FP type holds integers up to 2^significand exactly: each rank gets its share of the bits.
int ValueBits(Datatype type, int ranks) {
  const int share = std::bit_width(static_cast<unsigned>(ranks));
  switch (type) {
    case Datatype::kFloat32:
      return 24 - share;
    case Datatype::kFloat16:
      return std::max(1, 11 - share);
    case Datatype::kBFloat16:
      return std::max(1, 8 - share);
    case Datatype::kInt32:
      return 32;
    case Datatype::kByte:
      break;
  }
  return 8;
}

// In [-2^(bits-1), 2^(bits-1)).
int64_t Value(uint64_t key, uint64_t element, int bits) {
  const uint64_t hash = Mix(key + element * 0x9e3779b97f4a7c15);
  return static_cast<int64_t>(hash >> (64 - bits)) - (int64_t{1} << (bits - 1));
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

uint32_t ToWire(Datatype type, float value) {
  if (type == Datatype::kFloat16) return ToFloat16(value);
  return type == Datatype::kBFloat16 ? ToBFloat16(value) : std::bit_cast<uint32_t>(value);
}

// The element in wire form. `divisor` is the number of ranks for an average, else 1.
uint32_t Encode(Datatype type, int64_t value, int divisor) {
  if (type == Datatype::kByte) return static_cast<uint8_t>(value);
  if (type == Datatype::kInt32) return static_cast<uint32_t>(static_cast<int32_t>(value) / divisor);
  return ToWire(type, static_cast<float>(value) / static_cast<float>(divisor));
}

int64_t Combine(RedOp op, int64_t a, int64_t b) {
  if (op == RedOp::kMin) return std::min(a, b);
  return op == RedOp::kMax ? std::max(a, b) : a + b;
}

bool Same(const uint8_t* data, uint32_t expected, uint32_t bytes) {
  uint32_t got = 0;
  std::memcpy(&got, data, bytes);
  return got == expected;
}

}  // namespace

void FillInput(const Inputs& inputs, int rank, uint64_t first, std::span<uint8_t> data) {
  const uint32_t bytes = ElementBytes(inputs.type);
  const uint64_t key = RunKey(rank, inputs.run);
  const int bits = ValueBits(inputs.type, inputs.ranks);
  for (size_t i = 0; i < data.size() / bytes; ++i) {
    const uint32_t element = Encode(inputs.type, Value(key, first + i, bits), 1);
    std::memcpy(&data[i * bytes], &element, bytes);
  }
}

uint64_t CountWrong(const Inputs& inputs, RedOp op, uint64_t first, std::span<const uint8_t> data) {
  const uint32_t bytes = ElementBytes(inputs.type);
  const int bits = ValueBits(inputs.type, inputs.ranks);
  const int divisor = op == RedOp::kAvg ? inputs.ranks : 1;
  std::vector<uint64_t> keys;
  for (int rank = 0; rank < inputs.ranks; ++rank) keys.push_back(RunKey(rank, inputs.run));
  uint64_t wrong = 0;
  for (size_t i = 0; i < data.size() / bytes; ++i) {
    int64_t value = Value(keys[0], first + i, bits);
    for (size_t rank = 1; rank < keys.size(); ++rank)
      value = Combine(op, value, Value(keys[rank], first + i, bits));
    wrong += Same(&data[i * bytes], Encode(inputs.type, value, divisor), bytes) ? 0 : 1;
  }
  return wrong;
}

uint64_t CountWrongCopies(const Inputs& inputs, int rank, uint64_t first, std::span<const uint8_t> data) {
  const uint32_t bytes = ElementBytes(inputs.type);
  const uint64_t key = RunKey(rank, inputs.run);
  const int bits = ValueBits(inputs.type, inputs.ranks);
  uint64_t wrong = 0;
  for (size_t i = 0; i < data.size() / bytes; ++i) {
    wrong += Same(&data[i * bytes], Encode(inputs.type, Value(key, first + i, bits), 1), bytes) ? 0 : 1;
  }
  return wrong;
}

}  // namespace epic::perf
