// The operations on vectors of lanes (docs/PROTOCOL.md, section 8), for the kernels of reduce.cc: compiled
// once per instruction set.
#if defined(EPIC_REDUCE_OPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EPIC_REDUCE_OPS_INL_H_
#undef EPIC_REDUCE_OPS_INL_H_
#else
#define EPIC_REDUCE_OPS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace epic::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What an operation makes of its first contribution: itself, but for the logical ones.
struct TakesAny {
  template <class V>
  static V First(V v) {
    return v;
  }
};

struct Sum : TakesAny {
  template <class V>
  static V Combine(V a, V b) {
    return hn::Add(a, b);
  }
};

// Min and Max of the instruction sets differ for zeros and NaN. Equal values have equal bits but for zeros;
// the sum of a NaN and anything is a NaN.
template <bool kMax>
struct Extremum : TakesAny {
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

// Of integers the low half of the product, which signed and unsigned ones have in common. There are no
// instructions for bytes: those at even places of 16 bits are multiplied there, the others above them.
struct Product : TakesAny {
  template <class V>
  static V Combine(V a, V b) {
    using T = hn::TFromV<V>;
#if HWY_TARGET == HWY_SCALAR
    const hn::DFromV<V> d;
    if constexpr (hwy::IsFloat<T>()) {
      return hn::Mul(a, b);
    } else {
      return hn::Set(d, static_cast<T>(uint64_t{hn::GetLane(a)} * uint64_t{hn::GetLane(b)}));
    }
#else
    if constexpr (sizeof(T) == 1) {
      const hn::DFromV<V> d;
      const hn::Repartition<uint16_t, decltype(d)> d16;
      const auto a16 = hn::BitCast(d16, a);
      const auto b16 = hn::BitCast(d16, b);
      const auto even = hn::And(hn::Mul(a16, b16), hn::Set(d16, 0xff));
      const auto odd = hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16));
      return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<8>(odd)));
    } else {
      return hn::Mul(a, b);
    }
#endif
  }
};

struct BitAnd : TakesAny {
  template <class V>
  static V Combine(V a, V b) {
    return hn::And(a, b);
  }
};

struct BitOr : TakesAny {
  template <class V>
  static V Combine(V a, V b) {
    return hn::Or(a, b);
  }
};

struct BitXor : TakesAny {
  template <class V>
  static V Combine(V a, V b) {
    return hn::Xor(a, b);
  }
};

// Of INT32. What has come to a limit stays there, whatever is added, so that a sum that is at none is exact
// in any order.
struct SaturatingSum : TakesAny {
  template <class V>
  static V Combine(V a, V b) {
    const hn::DFromV<V> d;
    const auto least = hn::Set(d, INT32_MIN), most = hn::Set(d, INT32_MAX);
    const auto sum = hn::Add(a, b);
    // It has overflown if its sign is that of neither.
    const auto sign = hn::And(hn::Xor(a, sum), hn::Xor(b, sum));
    const auto limit = hn::Xor(hn::ShiftRight<31>(a), most);
    auto out = hn::IfThenElse(hn::Lt(sign, hn::Zero(d)), limit, sum);
    out = hn::IfThenElse(hn::Or(hn::Eq(a, most), hn::Eq(b, most)), most, out);
    return hn::IfThenElse(hn::Or(hn::Eq(a, least), hn::Eq(b, least)), least, out);
  }
};

// 1 where an element is not zero.
template <class V>
V Truth(V v) {
  const hn::DFromV<V> d;
  return hn::IfThenZeroElse(hn::Eq(v, hn::Zero(d)), hn::Set(d, 1));
}

struct TakesTruth {
  template <class V>
  static V First(V v) {
    return Truth(v);
  }
};

// Of accumulators that hold 0 and 1 only.
struct LogicalAnd : TakesTruth {
  template <class V>
  static V Combine(V a, V b) {
    return hn::And(a, Truth(b));
  }
};

struct LogicalOr : TakesTruth {
  template <class V>
  static V Combine(V a, V b) {
    return hn::Or(a, Truth(b));
  }
};

}  // namespace epic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EPIC_REDUCE_OPS_INL_H_
