// Blocks of INT8 with a scale (blocks.h) as vectors of FP32, for the kernels of blocks.cc: compiled once per
// instruction set.
#if defined(EPIC_REDUCE_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EPIC_REDUCE_BLOCKS_INL_H_
#undef EPIC_REDUCE_BLOCKS_INL_H_
#else
#define EPIC_REDUCE_BLOCKS_INL_H_
#endif

#include <hwy/highway.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "reduce/blocks.h"
#include "reduce/wire-inl.h"

HWY_BEFORE_NAMESPACE();
namespace epic::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A power of two on every instruction set.
using BlockTag = hn::CappedTag<float, 16>;

inline constexpr size_t kScaleBytes = kBlockBytes - kBlockElements;
inline constexpr uint32_t kInfinityBits = 0x7f800000;
inline constexpr uint16_t kNaNScale = 0x7fc0;
inline constexpr float kLargestWhole = 127;

// step(d, e) for vectors of a block's elements, of which e is the first one's number, from front to back. If
// the last one is not whole, it begins with some that the one before it had.
template <class Step>
HWY_INLINE void ForElements(const Step& step) {
  const BlockTag d;
  const size_t lanes = hn::Lanes(d);
  size_t e = 0;
  for (; e + lanes <= kBlockElements; e += lanes) step(d, e);
  if (e < kBlockElements) step(d, kBlockElements - lanes);
}

// step(d, at) for vectors with a lane for each byte of a block, of which `at` is the first one's, from front
// to back. They are whole, and no element is in two of them. The first lanes are the scale's.
template <class Step>
HWY_INLINE void ForBytes(const Step& step) {
  const BlockTag d;
  for (size_t at = 0; at < kBlockBytes; at += hn::Lanes(d)) step(d, at);
}

// Whole numbers from `from` on, times the scale: 7 bits times 8 significant ones are exact.
template <class D>
HWY_INLINE hn::VFromD<D> Scaled(D d, const uint8_t* from, float scale) {
  const hn::RebindToSigned<D> i32;
  const auto whole = hn::PromoteTo(i32, LoadLanes(hn::Rebind<int8_t, D>(), from));
  return hn::Mul(hn::ConvertTo(d, whole), hn::Set(d, scale));
}

// The scale for finite numbers up to this magnitude, in its upper 16 bits; it is more than 0. What is below
// the least BF16 number, or the quotient has rounded to 0, is rounded up to that number.
HWY_INLINE uint32_t ScaleBitsFor(uint32_t largest_bits) {
  float largest;
  std::memcpy(&largest, &largest_bits, sizeof largest);
  const float quotient = largest / kLargestWhole;
  uint32_t bits;
  std::memcpy(&bits, &quotient, sizeof bits);
  bits = (bits + 0xffff) & 0xffff0000;
  return bits == 0 ? 0x10000 : bits;
}

// Vectors for MakeBlock: of elements that lie one behind the other in the wire form of a type.
template <class Wire>
struct ElementsOf {
  const uint8_t* from;
  template <class Step>
  HWY_INLINE void ForEach(const Step& step) const {
    ForElements(
        [&](auto d, size_t e) { step(d, Wire::FromWire(d, from + e * Wire::kBytes), kScaleBytes + e); });
  }
};

// In the first vectors of ForBytes, ones for the lanes that are elements.
alignas(64) inline constexpr auto kElementLanes = [] {
  std::array<uint8_t, 16 * sizeof(float)> ones{};
  for (size_t i = kScaleBytes * sizeof(float); i < ones.size(); ++i) ones[i] = 0xff;
  return ones;
}();

// And of the sum of two blocks, in which no byte of them is needed again once its sum has been given.
struct SumOfTwo {
  const uint8_t *a, *b;
  float scale_a = BlockScale(a), scale_b = BlockScale(b);
  template <class Step>
  HWY_INLINE void ForEach(const Step& step) const {
    ForBytes([&](auto d, size_t at) {
      auto sum = hn::Add(Scaled(d, a + at, scale_a), Scaled(d, b + at, scale_b));
      if (at < kScaleBytes) sum = hn::And(sum, LoadLanes(d, kElementLanes.data() + at * sizeof(float)));
      step(d, sum, at);
    });
  }
};

// Makes a block. vectors.ForEach(step) calls step(d, v, at) for vectors of FP32, with `at` where their bytes
// begin in the block. It is asked twice: a vector's bytes are written when it is given again, and the scale
// at last.
template <class Vectors>
HWY_INLINE void MakeBlock(uint8_t* out, const Vectors& vectors) {
  const hn::RebindToSigned<BlockTag> i32;
  // Of magnitudes, infinity and NaN included, bits are in the order of numbers.
  auto largest = hn::Zero(i32);
  vectors.ForEach([&](auto d, auto v, size_t /*at*/) {
    const hn::RebindToSigned<decltype(d)> bits;
    largest = hn::Max(largest, hn::And(hn::BitCast(bits, v), hn::Set(bits, 0x7fffffff)));
  });
  const auto largest_bits = static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(i32, largest)));
  const bool finite = largest_bits < kInfinityBits;
  if (largest_bits == 0 || !finite) {
    const uint16_t scale = finite ? 0 : kNaNScale;
    std::memset(out, 0, kBlockBytes);
    std::memcpy(out, &scale, sizeof scale);
    return;
  }
  const uint32_t scale_bits = ScaleBitsFor(largest_bits);
  float scale;
  std::memcpy(&scale, &scale_bits, sizeof scale);
  vectors.ForEach([&](auto d, auto v, size_t at) {
    using D = decltype(d);
    const hn::RebindToSigned<D> whole32;
    const hn::Rebind<int8_t, D> whole8;
    // Beside 3 * 2^22 the last bit of an FP32 number counts 1, so the addition rounds. NearestInt would look,
    // too, for what is beyond INT32.
    const auto units = hn::Set(d, 0x1.8p23f);
    const auto rounded = hn::Add(hn::Div(v, hn::Set(d, scale)), units);
    const auto whole = hn::Sub(hn::BitCast(whole32, rounded), hn::BitCast(whole32, units));
    StoreLanes(whole8, hn::DemoteTo(whole8, whole), out + at);
  });
  const auto upper = static_cast<uint16_t>(scale_bits >> 16);
  std::memcpy(out, &upper, sizeof upper);
}

}  // namespace epic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EPIC_REDUCE_BLOCKS_INL_H_
