#include "reduce/quantise.h"

#include <cstring>

#include "base/check.h"
#include "protocol/types.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/quantise.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

#include "reduce/wire-inl.h"

// Compiled once per instruction set.
HWY_BEFORE_NAMESPACE();
namespace epic::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// In FP64, which holds an INT32, and the product of two FP32 numbers.
template <class D>
auto AtLimit(D d, hn::VFromD<D> whole) {
  return hn::Or(hn::Ge(whole, hn::Set(d, INT32_MAX)), hn::Le(whole, hn::Set(d, INT32_MIN)));
}

struct QuantiseStep {
  double scale;
  template <class D>
  size_t operator()(D d, uint8_t* out, const uint8_t* in) const {
    const hn::Rebind<float, D> f32;
    const hn::Rebind<int32_t, D> i32;
    const auto whole = hn::Round(hn::Mul(hn::PromoteTo(d, LoadLanes(f32, in)), hn::Set(d, scale)));
    const auto within = hn::Max(hn::Min(whole, hn::Set(d, INT32_MAX)), hn::Set(d, INT32_MIN));
    StoreLanes(i32, hn::DemoteTo(i32, within), out);
    return hn::CountTrue(d, AtLimit(d, whole));
  }
};

struct DequantiseStep {
  double divisor;
  template <class D>
  size_t operator()(D d, uint8_t* out, const uint8_t* in) const {
    const hn::Rebind<float, D> f32;
    const auto whole = hn::PromoteTo(d, LoadLanes(hn::Rebind<int32_t, D>(), in));
    StoreLanes(f32, hn::DemoteTo(f32, hn::Div(whole, hn::Set(d, divisor))), out);
    return hn::CountTrue(d, AtLimit(d, whole));
  }
};

// The sum of what step returns, from front to back. A last, partial vector is worked on in copies that are
// padded with zeros, which are at no limit.
template <class Step>
size_t SumOverAll(const Step& step, uint8_t* out, const uint8_t* in, size_t elements) {
  constexpr size_t kBytes = 4;
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  size_t sum = 0, i = 0;
  for (; i + lanes <= elements; i += lanes) sum += step(d, out + i * kBytes, in + i * kBytes);
  if (i == elements) return sum;
  uint8_t last_out[HWY_MAX_BYTES] = {};
  uint8_t last_in[HWY_MAX_BYTES] = {};
  std::memcpy(last_in, in + i * kBytes, (elements - i) * kBytes);
  sum += step(d, last_out, last_in);
  std::memcpy(out + i * kBytes, last_out, (elements - i) * kBytes);
  return sum;
}

size_t QuantiseAll(float scale, uint8_t* out, const uint8_t* in, size_t elements) {
  return SumOverAll(QuantiseStep{.scale = scale}, out, in, elements);
}

size_t DequantiseAll(double divisor, uint8_t* out, const uint8_t* in, size_t elements) {
  return SumOverAll(DequantiseStep{.divisor = divisor}, out, in, elements);
}

// How many elements from the first on are finite, in whole vectors.
size_t FiniteVectors(const uint8_t* in, size_t elements) {
  const hn::ScalableTag<uint32_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto exponent = hn::Set(d, 0x7f800000);
  size_t i = 0;
  for (; i + lanes <= elements; i += lanes) {
    if (!hn::AllFalse(d, hn::Eq(hn::And(LoadLanes(d, in + i * 4), exponent), exponent))) break;
  }
  return i;
}

}  // namespace epic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace epic {

HWY_EXPORT(QuantiseAll);
HWY_EXPORT(DequantiseAll);
HWY_EXPORT(FiniteVectors);

size_t Quantise(float scale, std::span<uint8_t> out, const uint8_t* in) {
  EPIC_CHECK(IsScale(scale) && out.size() % 4 == 0);
  return HWY_DYNAMIC_DISPATCH(QuantiseAll)(scale, out.data(), in, out.size() / 4);
}

size_t Dequantise(double divisor, std::span<uint8_t> out, const uint8_t* in) {
  EPIC_CHECK(divisor > 0 && out.size() % 4 == 0);
  return HWY_DYNAMIC_DISPATCH(DequantiseAll)(divisor, out.data(), in, out.size() / 4);
}

std::optional<size_t> FirstNotFinite(std::span<const uint8_t> data) {
  EPIC_CHECK(data.size() % 4 == 0);
  constexpr uint32_t kExponent = 0x7f800000;
  const size_t elements = data.size() / 4;
  for (size_t i = HWY_DYNAMIC_DISPATCH(FiniteVectors)(data.data(), elements); i < elements; ++i) {
    uint32_t bits;
    std::memcpy(&bits, data.data() + i * 4, 4);
    if ((bits & kExponent) == kExponent) return i;
  }
  return std::nullopt;
}

}  // namespace epic
#endif  // HWY_ONCE
