#include "reduce/reduce.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/reduce.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

// Compiled once per instruction set.
HWY_BEFORE_NAMESPACE();
namespace epic::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Memory is addressed as bytes because packets are not aligned. Plain scalar code has neither unaligned
// access nor vectors of bytes as long as one element.
template <class D>
hn::VFromD<D> LoadLanes(D d, const uint8_t* from) {
#if HWY_TARGET == HWY_SCALAR
  hn::TFromD<D> value;
  std::memcpy(&value, from, sizeof value);
  return hn::Set(d, value);
#else
  return hn::BitCast(d, hn::LoadU(hn::Repartition<uint8_t, D>(), from));
#endif
}

template <class D>
void StoreLanes(D /*d*/, hn::VFromD<D> v, uint8_t* to) {
#if HWY_TARGET == HWY_SCALAR
  const auto value = hn::GetLane(v);
  std::memcpy(to, &value, sizeof value);
#else
  const hn::Repartition<uint8_t, D> bytes;
  hn::StoreU(hn::BitCast(bytes, v), bytes, to);
#endif
}

// A wire format: Lane is the element of the accumulator, kBytes the size of an element on the wire; FromWire
// and ToWire convert one vector.
template <typename T>
struct Wire32 {
  using Lane = T;
  static constexpr size_t kBytes = 4;
  template <class D>
  static hn::VFromD<D> FromWire(D d, const uint8_t* from) {
    return LoadLanes(d, from);
  }
  template <class D>
  static void ToWire(D d, hn::VFromD<D> v, uint8_t* to) {
    StoreLanes(d, v, to);
  }
};

struct WireBFloat16 {
  using Lane = float;
  static constexpr size_t kBytes = 2;
  template <class D>
  static hn::VFromD<D> FromWire(D d, const uint8_t* from) {
    const hn::RebindToUnsigned<D> u32;
    const hn::Rebind<uint16_t, D> u16;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(u32, LoadLanes(u16, from))));
  }
  template <class D>
  static void ToWire(D /*d*/, hn::VFromD<D> v, uint8_t* to) {
    const hn::RebindToUnsigned<D> u32;
    const hn::Rebind<uint16_t, D> u16;
    const auto bits = hn::BitCast(u32, v);
    // To nearest, ties to even; a carry out of the mantissa is right, up to infinity. A NaN would lose what
    // makes it one, or carry: it gets the quiet bit instead.
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(u32, 0x7fff)), odd));
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(u32, 0x40));
    const auto ordered = hn::RebindMask(u32, hn::Eq(v, v));
    StoreLanes(u16, hn::TruncateTo(u16, hn::IfThenElse(ordered, rounded, quiet)), to);
  }
};

// The conversions of x86's F16C are right; Highway's emulation of them truncates, so other instruction sets
// use the arithmetic below.
#if (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL) && \
    !defined(HWY_DISABLE_F16C)
struct WireFloat16 {
  using Lane = float;
  static constexpr size_t kBytes = 2;
  template <class D>
  static hn::VFromD<D> FromWire(D d, const uint8_t* from) {
    return hn::PromoteTo(d, LoadLanes(hn::Rebind<hwy::float16_t, D>(), from));
  }
  template <class D>
  static void ToWire(D /*d*/, hn::VFromD<D> v, uint8_t* to) {
    const hn::Rebind<hwy::float16_t, D> f16;
    StoreLanes(f16, hn::DemoteTo(f16, v), to);
  }
};
#else
struct WireFloat16 {
  using Lane = float;
  static constexpr size_t kBytes = 2;
  // The bits of FP32 numbers: 2^-14, the smallest normal number of FP16; 2^16, the first beyond its range.
  static constexpr uint32_t kMinNormal = (127 - 14) << 23;
  static constexpr uint32_t kTooLarge = (127 + 16) << 23;

  template <class D>
  static hn::VFromD<D> FromWire(D d, const uint8_t* from) {
    const hn::RebindToUnsigned<D> u32;
    const auto half = hn::PromoteTo(u32, LoadLanes(hn::Rebind<uint16_t, D>(), from));
    const auto magnitude = hn::And(half, hn::Set(u32, 0x7fff));
    const auto shifted = hn::ShiftLeft<13>(magnitude);
    const auto normal = hn::Add(shifted, hn::Set(u32, (127 - 15) << 23));
    // Infinity and NaN keep the largest exponent; a NaN becomes quiet, as F16C makes it.
    const auto special = hn::Or(shifted, hn::Set(u32, 0xff << 23));
    const auto quiet = hn::Or(special, hn::Set(u32, 1 << 22));
    // Subnormal: the mantissa put behind an implicit one of 2^-14, which is then taken away, exactly.
    const auto one = hn::Set(u32, kMinNormal);
    const auto tiny = hn::BitCast(u32, hn::Sub(hn::BitCast(d, hn::Add(shifted, one)), hn::BitCast(d, one)));
    auto bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(u32, 0x400)), tiny, normal);
    bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u32, 0x7bff)), special, bits);
    bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u32, 0x7c00)), quiet, bits);
    return hn::BitCast(d, hn::Or(bits, hn::ShiftLeft<16>(hn::And(half, hn::Set(u32, 0x8000)))));
  }

  template <class D>
  static void ToWire(D d, hn::VFromD<D> v, uint8_t* to) {
    const hn::RebindToUnsigned<D> u32;
    const hn::Rebind<uint16_t, D> u16;
    const auto bits = hn::BitCast(u32, v);
    const auto magnitude = hn::And(bits, hn::Set(u32, 0x7fffffff));
    // Normal: the exponent's bias changes, and rounding to even may carry, up to infinity.
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(u32, 1));
    const auto rebias = hn::Set(u32, 0xfffu - (static_cast<uint32_t>(127 - 15) << 23));
    const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, rebias), odd));
    // Subnormal: beside 0.5 the last bit of an FP32 number counts 2^-24, as that of a subnormal FP16 number
    // does; so the addition rounds.
    const auto half = hn::Set(u32, 126 << 23);
    const auto sum = hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, half));
    const auto tiny = hn::Sub(hn::BitCast(u32, sum), half);
    const auto nan =
        hn::Or(hn::And(hn::ShiftRight<13>(magnitude), hn::Set(u32, 0x3ff)), hn::Set(u32, 0x7e00));
    auto out = hn::IfThenElse(hn::Lt(magnitude, hn::Set(u32, kMinNormal)), tiny, normal);
    out = hn::IfThenElse(hn::Lt(magnitude, hn::Set(u32, kTooLarge)), out, hn::Set(u32, 0x7c00));
    out = hn::IfThenElse(hn::RebindMask(u32, hn::Eq(v, v)), out, nan);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 0x8000));
    StoreLanes(u16, hn::TruncateTo(u16, hn::Or(out, sign)), to);
  }
};
#endif

struct Sum {
  template <class V>
  static V Combine(V a, V b) {
    return hn::Add(a, b);
  }
};

// Min and Max of the instruction sets differ for zeros and NaN. Equal values have equal bits but for zeros;
// the sum of a NaN and anything is a NaN.
template <bool kMax>
struct Extremum {
  template <class V>
  static V Combine(V a, V b) {
    const auto chosen = kMax ? hn::Max(a, b) : hn::Min(a, b);
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      const auto zero = kMax ? hn::And(a, b) : hn::Or(a, b);
      const auto ordered = hn::And(hn::Eq(a, a), hn::Eq(b, b));
      return hn::IfThenElse(ordered, hn::IfThenElse(hn::Eq(a, b), zero, chosen), hn::Add(a, b));
    } else {
      return chosen;
    }
  }
};

// What is done to one vector, at the accumulator and at its wire form.

template <class Wire>
struct LoadStep {
  template <class D>
  void operator()(D d, uint8_t* acc, const uint8_t* in) const {
    StoreLanes(d, Wire::FromWire(d, in), acc);
  }
};

template <class Wire, class Op>
struct AccumulateStep {
  template <class D>
  void operator()(D d, uint8_t* acc, const uint8_t* in) const {
    StoreLanes(d, Op::Combine(LoadLanes(d, acc), Wire::FromWire(d, in)), acc);
  }
};

template <class Wire>
struct StoreStep {
  template <class D>
  void operator()(D d, uint8_t* out, const uint8_t* acc) const {
    Wire::ToWire(d, LoadLanes(d, acc), out);
  }
};

template <class Wire>
struct ScaleStep {
  float divisor;
  template <class D>
  void operator()(D d, uint8_t* out, const uint8_t* in) const {
    Wire::ToWire(d, hn::Div(Wire::FromWire(d, in), hn::Set(d, divisor)), out);
  }
};

// Runs step from front to back. A last, partial vector is worked on in padded copies, so that the same
// instructions compute every element.
template <typename Lane, size_t kToBytes, size_t kFromBytes, class Step>
void ForAll(Step step, uint8_t* to, const uint8_t* from, size_t elements) {
  const hn::ScalableTag<Lane> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= elements; i += lanes) step(d, to + i * kToBytes, from + i * kFromBytes);
  if (i == elements) return;
  uint8_t last_to[HWY_MAX_BYTES] = {};
  uint8_t last_from[HWY_MAX_BYTES] = {};
  std::memcpy(last_to, to + i * kToBytes, (elements - i) * kToBytes);
  std::memcpy(last_from, from + i * kFromBytes, (elements - i) * kFromBytes);
  step(d, last_to, last_from);
  std::memcpy(to + i * kToBytes, last_to, (elements - i) * kToBytes);
}

template <class Wire>
void AccumulateWire(ReduceOp op, uint8_t* acc, const uint8_t* in, size_t elements) {
  using Lane = typename Wire::Lane;
  if (op == ReduceOp::kSum) {
    ForAll<Lane, 4, Wire::kBytes>(AccumulateStep<Wire, Sum>(), acc, in, elements);
  } else if (op == ReduceOp::kMin) {
    ForAll<Lane, 4, Wire::kBytes>(AccumulateStep<Wire, Extremum<false>>(), acc, in, elements);
  } else {
    ForAll<Lane, 4, Wire::kBytes>(AccumulateStep<Wire, Extremum<true>>(), acc, in, elements);
  }
}

void AccumulateAny(ReduceOp op, DataType type, uint8_t* acc, const uint8_t* in, size_t elements) {
  switch (type) {
    case DataType::kFloat32:
      return AccumulateWire<Wire32<float>>(op, acc, in, elements);
    case DataType::kInt32:
      return AccumulateWire<Wire32<int32_t>>(op, acc, in, elements);
    case DataType::kFloat16:
      return AccumulateWire<WireFloat16>(op, acc, in, elements);
    default:
      return AccumulateWire<WireBFloat16>(op, acc, in, elements);
  }
}

void Load16(DataType type, uint8_t* acc, const uint8_t* in, size_t elements) {
  if (type == DataType::kFloat16) {
    ForAll<float, 4, 2>(LoadStep<WireFloat16>(), acc, in, elements);
  } else {
    ForAll<float, 4, 2>(LoadStep<WireBFloat16>(), acc, in, elements);
  }
}

void Store16(DataType type, const uint8_t* acc, uint8_t* out, size_t elements) {
  if (type == DataType::kFloat16) {
    ForAll<float, 2, 4>(StoreStep<WireFloat16>(), out, acc, elements);
  } else {
    ForAll<float, 2, 4>(StoreStep<WireBFloat16>(), out, acc, elements);
  }
}

void ScaleFloats(DataType type, uint8_t* data, float divisor, size_t elements) {
  if (type == DataType::kFloat32) {
    ForAll<float, 4, 4>(ScaleStep<Wire32<float>>{divisor}, data, data, elements);
  } else if (type == DataType::kFloat16) {
    ForAll<float, 2, 2>(ScaleStep<WireFloat16>{divisor}, data, data, elements);
  } else {
    ForAll<float, 2, 2>(ScaleStep<WireBFloat16>{divisor}, data, data, elements);
  }
}

}  // namespace epic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"

namespace epic {

HWY_EXPORT(AccumulateAny);
HWY_EXPORT(Load16);
HWY_EXPORT(Store16);
HWY_EXPORT(ScaleFloats);

namespace {

constexpr uint32_t kMaxDivisor = 1 << 24;

void CheckSizes(ReduceOp op, DataType type, size_t accumulator, size_t wire) {
  EPIC_CHECK(CanReduce(op, type) && wire % ElementBytes(type) == 0 &&
             accumulator == AccumulatorBytes(op, type, wire));
}

}  // namespace

bool CanReduce(ReduceOp op, DataType type) {
  const bool known_op = op == ReduceOp::kSum || op == ReduceOp::kMin || op == ReduceOp::kMax;
  return known_op && (type == DataType::kFloat32 || type == DataType::kInt32 || type == DataType::kFloat16 ||
                      type == DataType::kBFloat16);
}

size_t AccumulatorBytes(ReduceOp op, DataType type, size_t wire_bytes) {
  return CanReduce(op, type) && ElementBytes(type) == 2 ? 2 * wire_bytes : wire_bytes;
}

void Load(ReduceOp op, DataType type, std::span<uint8_t> acc, std::span<const uint8_t> in) {
  CheckSizes(op, type, acc.size(), in.size());
  if (ElementBytes(type) == 2) {
    HWY_DYNAMIC_DISPATCH(Load16)(type, acc.data(), in.data(), in.size() / 2);
  } else if (!in.empty()) {
    std::memcpy(acc.data(), in.data(), in.size());
  }
}

void Accumulate(ReduceOp op, DataType type, std::span<uint8_t> acc, std::span<const uint8_t> in) {
  CheckSizes(op, type, acc.size(), in.size());
  HWY_DYNAMIC_DISPATCH(AccumulateAny)(op, type, acc.data(), in.data(), in.size() / ElementBytes(type));
}

void Store(ReduceOp op, DataType type, std::span<const uint8_t> acc, std::span<uint8_t> out) {
  CheckSizes(op, type, acc.size(), out.size());
  if (ElementBytes(type) == 2) {
    HWY_DYNAMIC_DISPATCH(Store16)(type, acc.data(), out.data(), out.size() / 2);
  } else if (!out.empty() && out.data() != acc.data()) {
    std::memcpy(out.data(), acc.data(), out.size());
  }
}

void Merge(std::span<uint8_t> acc, std::span<const uint8_t> in) {
  EPIC_CHECK(acc.size() == in.size());
  size_t at = 0;
  for (uint64_t a, b; at + sizeof a <= in.size(); at += sizeof a) {
    std::memcpy(&a, acc.data() + at, sizeof a);
    std::memcpy(&b, in.data() + at, sizeof b);
    a |= b;
    std::memcpy(acc.data() + at, &a, sizeof a);
  }
  for (; at < in.size(); ++at) acc[at] |= in[at];
}

void ScaleToAverage(DataType type, std::span<uint8_t> data, uint32_t divisor) {
  EPIC_CHECK(CanReduce(ReduceOp::kSum, type) && data.size() % ElementBytes(type) == 0);
  EPIC_CHECK(divisor >= 1 && divisor <= kMaxDivisor);
  if (type != DataType::kInt32) {
    HWY_DYNAMIC_DISPATCH(ScaleFloats)
    (type, data.data(), static_cast<float>(divisor), data.size() / ElementBytes(type));
    return;
  }
  for (size_t at = 0; at < data.size(); at += sizeof(int32_t)) {
    int32_t value;
    std::memcpy(&value, data.data() + at, sizeof value);
    value /= static_cast<int32_t>(divisor);
    std::memcpy(data.data() + at, &value, sizeof value);
  }
}

}  // namespace epic
#endif  // HWY_ONCE
