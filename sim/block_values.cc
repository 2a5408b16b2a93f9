#include "sim/block_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "protocol/number_blocks.h"
#include "protocol/types.h"
#include "protocol/block_bound.h"

namespace epic::sim {
namespace {

// An integer from -8 to 7 times a power of two from 2^-5 to 2^4 is a normal number in each of the types.
uint32_t Encode(DataType type, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (type == DataType::kFloat32) return bits;
  if (type == DataType::kBFloat16) return bits >> 16;
  const uint32_t sign = bits >> 16 & 0x8000;
  if (value == 0) return sign;
  return sign | ((bits & 0x7fffffff) - (uint32_t{127 - 15} << 23)) >> 13;
}

}  // namespace

BlockValues::BlockValues(const ControlHeader& header, int ranks, Small small)
    : header_(header), ranks_(ranks), small_(std::move(small)) {}

float BlockValues::ValueOf(int rank, int64_t part, uint64_t element) const {
  const uint64_t block = element / kBlockElements + static_cast<uint64_t>(part) * 977;
  const auto exponent = static_cast<int>((block * 0x9e3779b97f4a7c15u) >> 60) % 10 - 5;
  return std::ldexp(static_cast<float>(small_(rank, part, element)) - 8, exponent);
}

void BlockValues::Fill(int rank, int64_t part, std::span<uint8_t> out) const {
  const uint32_t bytes = ElementBytes(header_.called);
  EPIC_CHECK(out.size() == CalledBytes(header_));
  for (size_t i = 0; i < out.size() / bytes; ++i) {
    const uint32_t element = Encode(header_.called, ValueOf(rank, part, i));
    std::memcpy(out.data() + i * bytes, &element, bytes);
  }
}

size_t BlockValues::CountWrong(int64_t part, int levels, std::span<const uint8_t> result) const {
  const uint32_t bytes = ElementBytes(header_.called);
  const size_t elements = result.size() / bytes;
  size_t wrong = 0;
  for (size_t first = 0; first < elements; first += kBlockElements) {
    const size_t count = std::min(kBlockElements, elements - first);
    BlockBound bound;
    std::vector<double> sums(count);
    for (int rank = 0; rank < ranks_; ++rank) {
      float largest = 0;
      for (size_t i = 0; i < count; ++i) {
        const float value = ValueOf(rank, part, first + i);
        sums[i] += value;
        largest = std::max(largest, std::abs(value));
      }
      bound.Add(largest);
    }
    for (size_t i = 0; i < count; ++i) {
      uint32_t element = 0;
      std::memcpy(&element, result.data() + (first + i) * bytes, bytes);
      const double got = NumberOf(header_.called, element);
      // A NaN is in no bound.
      wrong += std::abs(got - sums[i]) <= bound.Of(levels, false, header_.called, got) ? 0 : 1;
    }
  }
  return wrong;
}

}  // namespace epic::sim
