// A reference of the kernels of blocks, one element at a time, and the kernels with operands at any address.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "reduce/blocks.h"
#include "reduce/reduce_testing.h"

namespace epic {

using Block = std::array<uint8_t, kBlockBytes>;
using Floats = std::vector<float>;

// --- A reference by other arithmetic: products and sums in FP64, where all that is compared is exact.

// The least BF16 number that is not below largest / 127 in FP32, and not 0.
inline uint16_t ReferenceScale(float largest) {
  const uint64_t quotient = kFp32.Encode(double{largest} / 127);
  uint64_t bits = quotient >> 16;
  while (kBf16.Decode(bits) < kFp32.Decode(quotient)) ++bits;
  return static_cast<uint16_t>(std::max<uint64_t>(bits, 1));
}

inline int8_t ReferenceWhole(float x, double scale) {
  const double magnitude = std::fabs(double{x});
  double whole = std::floor(magnitude / scale);
  while ((whole + 1) * scale <= magnitude) ++whole;
  while (whole * scale > magnitude) --whole;
  const double twice = (2 * whole + 1) * scale;
  if (2 * magnitude > twice || (2 * magnitude == twice && std::fmod(whole, 2) != 0)) ++whole;
  return static_cast<int8_t>(x < 0 ? -whole : whole);
}

// Of at most 62 numbers.
inline Block ReferenceBlock(std::span<const float> x) {
  Block block{};
  float largest = 0;
  bool finite = true;
  for (const float v : x) {
    finite = finite && std::isfinite(v);
    largest = std::max(largest, std::fabs(v));
  }
  const uint16_t scale = !finite ? 0x7fc0 : largest == 0 ? 0 : ReferenceScale(largest);
  std::memcpy(block.data(), &scale, 2);
  for (size_t i = 0; finite && scale != 0 && i < x.size(); ++i)
    block[2 + i] = static_cast<uint8_t>(ReferenceWhole(x[i], kBf16.Decode(scale)));
  return block;
}

inline Floats ReferenceElements(const uint8_t* block) {
  uint16_t scale;
  std::memcpy(&scale, block, 2);
  Floats elements;
  for (size_t i = 2; i < kBlockBytes; ++i)
    elements.push_back(static_cast<float>(static_cast<int8_t>(block[i]) * kBf16.Decode(scale)));
  return elements;
}

inline std::vector<uint8_t> ReferenceBlocks(const Floats& x) {
  std::vector<uint8_t> blocks;
  for (size_t i = 0; i < x.size(); i += kBlockElements) {
    const Block block = ReferenceBlock(std::span(x).subspan(i, std::min(kBlockElements, x.size() - i)));
    blocks.insert(blocks.end(), block.begin(), block.end());
  }
  return blocks;
}

inline Floats ReferenceFloats(const std::vector<uint8_t>& blocks) {
  Floats elements;
  for (size_t at = 0; at < blocks.size(); at += kBlockBytes) {
    const Floats block = ReferenceElements(blocks.data() + at);
    elements.insert(elements.end(), block.begin(), block.end());
  }
  return elements;
}

// --- The kernels, with operands `shift` bytes behind the start of a vector; nothing is written behind
// results.

inline std::vector<uint8_t> Shifted(const std::vector<uint8_t>& bytes, size_t shift) {
  std::vector<uint8_t> shifted(shift + bytes.size());
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + static_cast<ptrdiff_t>(shift));
  return shifted;
}

// What kernel has written into the room for so many bytes.
inline std::vector<uint8_t> Made(size_t bytes, size_t shift,
                                 const std::function<void(std::span<uint8_t>)>& kernel) {
  constexpr uint8_t kGuardByte = 0xa5;
  constexpr size_t kBehind = 8;  // an element of any type
  std::vector<uint8_t> out(shift + bytes + kBehind, kGuardByte);
  kernel(std::span(out).subspan(shift, bytes));
  const auto begin = out.begin() + static_cast<ptrdiff_t>(shift), end = out.end() - kBehind;
  const auto is_guard = [](uint8_t b) { return b == kGuardByte; };
  EXPECT_TRUE(std::all_of(out.begin(), begin, is_guard));
  EXPECT_TRUE(std::all_of(end, out.end(), is_guard));
  return {begin, end};
}

inline std::vector<uint8_t> WireOf(DataType type, const Floats& x) {
  std::vector<uint64_t> elements;
  for (const float v : x) elements.push_back(FormatOf(type).Encode(v));
  return ToBytes(type, elements);
}

inline Floats FloatsOf(DataType type, const std::vector<uint8_t>& wire) {
  Floats x;
  for (const uint64_t bits : FromBytes(type, wire.data(), wire.size() / ElementBytes(type)))
    x.push_back(static_cast<float>(FormatOf(type).Decode(bits)));
  return x;
}

inline std::vector<uint8_t> Quantised(DataType type, const std::vector<uint8_t>& wire, size_t shift = 0) {
  const size_t blocks = BlocksOf(wire.size() / ElementBytes(type));
  const auto in = Shifted(wire, shift);
  return Made(blocks * kBlockBytes, shift + 1,
              [&](std::span<uint8_t> out) { QuantiseBlocks(type, out, std::span(in).subspan(shift)); });
}

inline std::vector<uint8_t> Dequantised(DataType type, const std::vector<uint8_t>& blocks, size_t elements,
                                        size_t shift = 0) {
  const auto in = Shifted(blocks, shift + 1);
  return Made(elements * ElementBytes(type), shift,
              [&](std::span<uint8_t> out) { DequantiseBlocks(type, out, std::span(in).subspan(shift + 1)); });
}

// The sum of contributions, beside the accumulator and in its place.
inline std::vector<uint8_t> SumOf(const std::vector<std::vector<uint8_t>>& contributions, size_t shift = 0) {
  const size_t bytes = contributions[0].size();
  std::vector<uint8_t> beside;
  auto acc = Made(bytes / kBlockBytes * kBlockAccumulatorBytes, shift, [&](std::span<uint8_t> room) {
    for (size_t c = 0; c < contributions.size(); ++c) {
      const auto in = Shifted(contributions[c], shift + c);
      if (c == 0) {
        LoadBlocks(room, std::span(in).subspan(shift + c));
      } else {
        AccumulateBlocks(room, std::span(in).subspan(shift + c));
      }
    }
    beside = Made(bytes, shift + 1, [&](std::span<uint8_t> out) { StoreBlocks(room, out); });
    StoreBlocks(room, room.first(bytes));
  });
  acc.resize(bytes);
  EXPECT_EQ(acc, beside);
  return beside;
}

// FP32, in the order given, each block rounded once.
inline std::vector<uint8_t> ReferenceSum(const std::vector<std::vector<uint8_t>>& contributions) {
  Floats sum = ReferenceFloats(contributions[0]);
  for (size_t c = 1; c < contributions.size(); ++c) {
    const Floats next = ReferenceFloats(contributions[c]);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += next[i];
  }
  return ReferenceBlocks(sum);
}

}  // namespace epic
