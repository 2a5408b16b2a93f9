#include "bench/pattern.h"

#include <bit>

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

uint64_t Hash(uint64_t key, uint64_t element) { return Mix(key + element * 0x9e3779b97f4a7c15); }

// An FP32 holds integers up to 2^24 exactly: each rank gets its share of the bits.
int FloatBits(int ranks) { return 24 - std::bit_width(static_cast<unsigned>(ranks)); }

uint32_t IntElement(uint64_t key, uint64_t element) {
  return static_cast<uint32_t>(Hash(key, element) >> 32);
}

// In [-2^(bits-1), 2^(bits-1)).
int32_t FloatElement(uint64_t key, uint64_t element, int bits) {
  return static_cast<int32_t>(Hash(key, element) >> (64 - bits)) - (1 << (bits - 1));
}

}  // namespace

void FillInput(std::span<int32_t> data, int rank, uint32_t run) {
  const uint64_t key = RunKey(rank, run);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int32_t>(IntElement(key, i));
}

void FillInput(std::span<float> data, int rank, int ranks, uint32_t run) {
  const uint64_t key = RunKey(rank, run);
  const int bits = FloatBits(ranks);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(FloatElement(key, i, bits));
}

uint64_t CountWrong(std::span<const int32_t> data, int ranks, uint32_t run) {
  uint64_t wrong = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    uint32_t sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += IntElement(RunKey(rank, run), i);
    wrong += sum != static_cast<uint32_t>(data[i]);
  }
  return wrong;
}

uint64_t CountWrong(std::span<const float> data, int ranks, uint32_t run) {
  const int bits = FloatBits(ranks);
  uint64_t wrong = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    int32_t sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += FloatElement(RunKey(rank, run), i, bits);
    wrong += std::bit_cast<uint32_t>(static_cast<float>(sum)) != std::bit_cast<uint32_t>(data[i]);
  }
  return wrong;
}

}  // namespace epic::perf
