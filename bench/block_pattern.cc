#include "bench/block_pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "bench/pattern_parts.h"
#include "protocol/block_bound.h"
#include "protocol/number_blocks.h"

namespace epic::perf {
namespace {

// Box and Muller's, of the two halves of a hash.
float Gaussian(uint64_t hash) {
  const float u = (static_cast<float>(hash >> 40) + 1) * 0x1p-24f;
  const float v = static_cast<float>(hash >> 8 & 0xffffff) * 0x1p-24f;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi_v<float> * v);
}

// In the type, and what that is.
uint32_t WireOf(Datatype type, float value) { return static_cast<uint32_t>(ToWire(type, value, 1)); }

double ValueOf(Datatype type, uint32_t wire) { return NumberOf(static_cast<DataType>(type), wire); }

uint32_t ElementAt(const Inputs& inputs, uint64_t key, uint64_t element) {
  float value = Gaussian(Hash(key, element));
  // The conversion to FP16 has none that are below its normal numbers.
  if (inputs.type == Datatype::kFloat16 && std::abs(value) < 0x1p-14f) value = 0;
  return WireOf(inputs.type, value);
}

}  // namespace

double Accuracy::Sqnr() const { return 10 * std::log10(signal / noise); }

void FillBlocksInput(const Inputs& inputs, int rank, uint64_t first, std::span<uint8_t> data) {
  const uint32_t bytes = ElementBytes(inputs.type);
  const uint64_t key = RunKey(rank, inputs.run);
  for (size_t i = 0; i < data.size() / bytes; ++i) {
    const uint32_t element = ElementAt(inputs, key, first + i);
    std::memcpy(&data[i * bytes], &element, bytes);
  }
}

uint64_t CountBeyondBound(const Inputs& inputs, int levels, uint64_t first, std::span<const uint8_t> data,
                          Accuracy* accuracy) {
  const uint32_t bytes = ElementBytes(inputs.type);
  const uint64_t elements = data.size() / bytes;
  const bool average = inputs.op == RedOp::kAvg;
  uint64_t wrong = 0;
  for (uint64_t at = 0; at < elements; at += kBlockElements) {
    const uint64_t count = std::min<uint64_t>(kBlockElements, elements - at);
    std::vector<double> sums(count);
    BlockBound bound;
    for (int rank = 0; rank < inputs.ranks; ++rank) {
      const uint64_t key = RunKey(rank, inputs.run);
      double largest = 0;
      for (uint64_t i = 0; i < count; ++i) {
        const double value = ValueOf(inputs.type, ElementAt(inputs, key, first + at + i));
        sums[i] += value;
        largest = std::max(largest, std::abs(value));
      }
      bound.Add(static_cast<float>(largest));
    }
    for (uint64_t i = 0; i < count; ++i) {
      uint32_t wire = 0;
      std::memcpy(&wire, &data[(at + i) * bytes], bytes);
      const double exact = average ? sums[i] / inputs.ranks : sums[i], got = ValueOf(inputs.type, wire);
      const double error = std::abs(got - exact);
      const double share = error / bound.Of(levels, average, static_cast<DataType>(inputs.type), got);
      // A NaN is within no bound.
      wrong += share <= 1 ? 0 : 1;
      accuracy->signal += exact * exact;
      accuracy->noise += error * error;
      accuracy->worst = std::max(accuracy->worst, share);
    }
  }
  return wrong;
}

}  // namespace epic::perf
