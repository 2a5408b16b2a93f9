// The wire forms of elements and vectors of them, for the kernels of reduce.cc: compiled once per instruction
// set.
#if defined(EPIC_REDUCE_WIRE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EPIC_REDUCE_WIRE_INL_H_
#undef EPIC_REDUCE_WIRE_INL_H_
#else
#define EPIC_REDUCE_WIRE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

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
// and ToWire convert one vector. Of most types the accumulator is in wire form.
template <typename T>
struct WireSame {
  using Lane = T;
  static constexpr size_t kBytes = sizeof(T);
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

// Integers as floating-point numbers that hold each of them, for their averages; on the way back what is
// behind the point is cut off. Of 8 and 16 bits:
template <typename T>
struct WireInFloat {
  using Lane = float;
  static constexpr size_t kBytes = sizeof(T);
  template <class D>
  static hn::VFromD<D> FromWire(D d, const uint8_t* from) {
    const hn::RebindToSigned<D> i32;
    return hn::ConvertTo(d, hn::PromoteTo(i32, LoadLanes(hn::Rebind<T, D>(), from)));
  }
  template <class D>
  static void ToWire(D /*d*/, hn::VFromD<D> v, uint8_t* to) {
    const hn::RebindToSigned<D> i32;
    const hn::Rebind<T, D> whole;
    StoreLanes(whole, hn::DemoteTo(whole, hn::ConvertTo(i32, v)), to);
  }
};

struct WireInt32InDouble {
  using Lane = double;
  static constexpr size_t kBytes = 4;
  template <class D>
  static hn::VFromD<D> FromWire(D d, const uint8_t* from) {
    return hn::PromoteTo(d, LoadLanes(hn::Rebind<int32_t, D>(), from));
  }
  template <class D>
  static void ToWire(D /*d*/, hn::VFromD<D> v, uint8_t* to) {
    const hn::Rebind<int32_t, D> i32;
    // Plain scalar code takes what is less than 1 above the largest magnitude for too large.
    StoreLanes(i32, hn::DemoteTo(i32, hn::Trunc(v)), to);
  }
};

// Beside 2^52 the last bit of an FP64 number counts 1, so an integer lies in its low bits.
struct WireUint32InDouble {
  using Lane = double;
  static constexpr size_t kBytes = 4;
  static constexpr double kUnits = 0x1p52;
  template <class D>
  static hn::VFromD<D> FromWire(D d, const uint8_t* from) {
    const hn::RebindToUnsigned<D> u64;
    const auto low = hn::PromoteTo(u64, LoadLanes(hn::Rebind<uint32_t, D>(), from));
    const auto units = hn::Set(d, kUnits);
    return hn::Sub(hn::BitCast(d, hn::Or(low, hn::BitCast(u64, units))), units);
  }
  template <class D>
  static void ToWire(D d, hn::VFromD<D> v, uint8_t* to) {
    const hn::RebindToUnsigned<D> u64;
    const hn::Rebind<uint32_t, D> u32;
    const auto whole = hn::Add(hn::Trunc(v), hn::Set(d, kUnits));
    StoreLanes(u32, hn::TruncateTo(u32, hn::BitCast(u64, whole)), to);
  }
};

}  // namespace epic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EPIC_REDUCE_WIRE_INL_H_
