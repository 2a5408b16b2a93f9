#include "reduce/reduce.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/reduce.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

#include "reduce/blocks.h"
#include "reduce/ops-inl.h"
#include "reduce/wire-inl.h"

// Compiled once per instruction set.
HWY_BEFORE_NAMESPACE();
namespace epic::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

// The truth of the first contribution of a logical operation.
struct TruthStep {
  template <class D>
  void operator()(D d, uint8_t* acc, const uint8_t* in) const {
    StoreLanes(d, Truth(LoadLanes(d, in)), acc);
  }
};

template <class Wire>
struct ScaleStep {
  typename Wire::Lane divisor;
  template <class D>
  void operator()(D d, uint8_t* out, const uint8_t* in) const {
    Wire::ToWire(d, hn::Div(Wire::FromWire(d, in), hn::Set(d, divisor)), out);
  }
};

// Of whole numbers of at most 16 bits in FP32, or 32 bits in FP64, and a reciprocal that is too large by one
// or two of its last bits: multiples of the divisor do not fall below their quotient, and others, which lie a
// divisor's part below the next one, do not reach that.
template <class Wire>
struct QuotientStep {
  typename Wire::Lane reciprocal;
  template <class D>
  void operator()(D d, uint8_t* out, const uint8_t* in) const {
    Wire::ToWire(d, hn::Mul(Wire::FromWire(d, in), hn::Set(d, reciprocal)), out);
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

// What is done with the operation once it is known: for every element, in the wire form that goes with it.

struct ToAccumulator {
  uint8_t* acc;
  const uint8_t* in;
  template <class Wire, class Op>
  void Run(size_t elements) const {
    using Lane = typename Wire::Lane;
    ForAll<Lane, sizeof(Lane), Wire::kBytes>(AccumulateStep<Wire, Op>(), acc, in, elements);
  }
};

struct OfPairs {
  uint8_t* out;
  const uint8_t* a;
  const uint8_t* b;
  template <class Wire, class Op>
  void Run(size_t elements) const {
    using Lane = typename Wire::Lane;
    constexpr size_t kBytes = Wire::kBytes;
    const hn::ScalableTag<Lane> d;
    const size_t lanes = hn::Lanes(d);
    const auto combine = [d](const uint8_t* left, const uint8_t* right, uint8_t* to) {
      const auto first = Op::First(Wire::FromWire(d, left));
      Wire::ToWire(d, Op::Combine(first, Wire::FromWire(d, right)), to);
    };
    size_t i = 0;
    for (; i + lanes <= elements; i += lanes) combine(a + i * kBytes, b + i * kBytes, out + i * kBytes);
    if (i == elements) return;
    uint8_t left[HWY_MAX_BYTES] = {};
    uint8_t right[HWY_MAX_BYTES] = {};
    std::memcpy(left, a + i * kBytes, (elements - i) * kBytes);
    std::memcpy(right, b + i * kBytes, (elements - i) * kBytes);
    combine(left, right, left);
    std::memcpy(out + i * kBytes, left, (elements - i) * kBytes);
  }
};

// The switches below have no default: what the tables of protocol/types.h have in addition does not compile
// before it is here.

template <class Wire, class Do>
void DoFloats(ReduceOp op, Do act, size_t elements) {
  switch (op) {
    case ReduceOp::kSum:
      return act.template Run<Wire, Sum>(elements);
    case ReduceOp::kMin:
      return act.template Run<Wire, Extremum<false>>(elements);
    case ReduceOp::kMax:
      return act.template Run<Wire, Extremum<true>>(elements);
    case ReduceOp::kProduct:
      return act.template Run<Wire, Product>(elements);
    case ReduceOp::kNone:
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
    case ReduceOp::kBitXor:
    case ReduceOp::kLogicalAnd:
    case ReduceOp::kLogicalOr:
    case ReduceOp::kSaturatingSum:
      break;
  }
}

// All but the order of elements is the same of signed and unsigned ones, and what goes bit by bit that of all
// widths.
template <typename T, class Do>
void DoIntegers(ReduceOp op, Do act, size_t elements) {
  using Bits = WireSame<hwy::MakeUnsigned<T>>;
  switch (op) {
    case ReduceOp::kSum:
      return act.template Run<Bits, Sum>(elements);
    case ReduceOp::kMin:
      return act.template Run<WireSame<T>, Extremum<false>>(elements);
    case ReduceOp::kMax:
      return act.template Run<WireSame<T>, Extremum<true>>(elements);
    case ReduceOp::kProduct:
      return act.template Run<Bits, Product>(elements);
    case ReduceOp::kBitAnd:
      return act.template Run<WireSame<uint8_t>, BitAnd>(elements * sizeof(T));
    case ReduceOp::kBitOr:
      return act.template Run<WireSame<uint8_t>, BitOr>(elements * sizeof(T));
    case ReduceOp::kBitXor:
      return act.template Run<WireSame<uint8_t>, BitXor>(elements * sizeof(T));
    case ReduceOp::kLogicalAnd:
      return act.template Run<Bits, LogicalAnd>(elements);
    case ReduceOp::kLogicalOr:
      return act.template Run<Bits, LogicalOr>(elements);
    case ReduceOp::kSaturatingSum:
      if constexpr (std::is_same_v<T, int32_t>) return act.template Run<WireSame<T>, SaturatingSum>(elements);
      break;
    case ReduceOp::kNone:
      break;
  }
}

template <class Do>
void DoAny(ReduceOp op, DataType type, Do act, size_t elements) {
  switch (type) {
    case DataType::kFloat32:
      return DoFloats<WireSame<float>>(op, act, elements);
    case DataType::kFloat16:
      return DoFloats<WireFloat16>(op, act, elements);
    case DataType::kBFloat16:
      return DoFloats<WireBFloat16>(op, act, elements);
    case DataType::kFloat64:
      return DoFloats<WireSame<double>>(op, act, elements);
    case DataType::kInt8:
      return DoIntegers<int8_t>(op, act, elements);
    case DataType::kUint8:
      return DoIntegers<uint8_t>(op, act, elements);
    case DataType::kInt16:
      return DoIntegers<int16_t>(op, act, elements);
    case DataType::kUint16:
      return DoIntegers<uint16_t>(op, act, elements);
    case DataType::kInt32:
      return DoIntegers<int32_t>(op, act, elements);
    case DataType::kUint32:
      return DoIntegers<uint32_t>(op, act, elements);
    case DataType::kInt64:
      return DoIntegers<int64_t>(op, act, elements);
    case DataType::kUint64:
      return DoIntegers<uint64_t>(op, act, elements);
    case DataType::kByte:
    case DataType::kBlock8:
    case DataType::kNone:
      break;
  }
}

void AccumulateAny(ReduceOp op, DataType type, uint8_t* acc, const uint8_t* in, size_t elements) {
  DoAny(op, type, ToAccumulator{acc, in}, elements);
}

void CombineAny(ReduceOp op, DataType type, uint8_t* out, const uint8_t* a, const uint8_t* b,
                size_t elements) {
  DoAny(op, type, OfPairs{out, a, b}, elements);
}

void Load16(DataType type, uint8_t* acc, const uint8_t* in, size_t elements) {
  if (type == DataType::kFloat16) {
    ForAll<float, 4, 2>(LoadStep<WireFloat16>(), acc, in, elements);
  } else {
    ForAll<float, 4, 2>(LoadStep<WireBFloat16>(), acc, in, elements);
  }
}

// Of elements of so many bytes.
void LoadTruth(size_t bytes, uint8_t* acc, const uint8_t* in, size_t elements) {
  if (bytes == 1) {
    ForAll<uint8_t, 1, 1>(TruthStep(), acc, in, elements);
  } else if (bytes == 2) {
    ForAll<uint16_t, 2, 2>(TruthStep(), acc, in, elements);
  } else if (bytes == 4) {
    ForAll<uint32_t, 4, 4>(TruthStep(), acc, in, elements);
  } else {
    ForAll<uint64_t, 8, 8>(TruthStep(), acc, in, elements);
  }
}

void Store16(DataType type, const uint8_t* acc, uint8_t* out, size_t elements) {
  if (type == DataType::kFloat16) {
    ForAll<float, 2, 4>(StoreStep<WireFloat16>(), out, acc, elements);
  } else {
    ForAll<float, 2, 4>(StoreStep<WireBFloat16>(), out, acc, elements);
  }
}

template <class Wire>
void ScaleBy(uint32_t divisor, uint8_t* data, size_t elements) {
  using Lane = typename Wire::Lane;
  ForAll<Lane, Wire::kBytes, Wire::kBytes>(ScaleStep<Wire>{static_cast<Lane>(divisor)}, data, data, elements);
}

template <class Wire>
void DivideBy(uint32_t divisor, uint8_t* data, size_t elements) {
  using Lane = typename Wire::Lane;
  const Lane up = std::nextafter(1 / static_cast<Lane>(divisor), Lane{2});
  ForAll<Lane, Wire::kBytes, Wire::kBytes>(QuotientStep<Wire>{up}, data, data, elements);
}

// No vectors have quotients of 64 bits. Division of C++ truncates toward zero, too.
template <typename T>
void DivideEach(uint32_t divisor, uint8_t* data, size_t elements) {
  for (size_t i = 0; i < elements; ++i) {
    T value;
    std::memcpy(&value, data + i * sizeof value, sizeof value);
    value /= static_cast<T>(divisor);
    std::memcpy(data + i * sizeof value, &value, sizeof value);
  }
}

void ScaleAny(DataType type, uint8_t* data, uint32_t divisor, size_t elements) {
  switch (type) {
    case DataType::kFloat32:
      return ScaleBy<WireSame<float>>(divisor, data, elements);
    case DataType::kFloat16:
      return ScaleBy<WireFloat16>(divisor, data, elements);
    case DataType::kBFloat16:
      return ScaleBy<WireBFloat16>(divisor, data, elements);
    case DataType::kFloat64:
      return ScaleBy<WireSame<double>>(divisor, data, elements);
    case DataType::kInt8:
      return DivideBy<WireInFloat<int8_t>>(divisor, data, elements);
    case DataType::kUint8:
      return DivideBy<WireInFloat<uint8_t>>(divisor, data, elements);
    case DataType::kInt16:
      return DivideBy<WireInFloat<int16_t>>(divisor, data, elements);
    case DataType::kUint16:
      return DivideBy<WireInFloat<uint16_t>>(divisor, data, elements);
    case DataType::kInt32:
      return DivideBy<WireInt32InDouble>(divisor, data, elements);
    case DataType::kUint32:
      return DivideBy<WireUint32InDouble>(divisor, data, elements);
    case DataType::kInt64:
      return DivideEach<int64_t>(divisor, data, elements);
    case DataType::kUint64:
      return DivideEach<uint64_t>(divisor, data, elements);
    case DataType::kByte:
    case DataType::kBlock8:
    case DataType::kNone:
      break;
  }
}

}  // namespace epic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace epic {

HWY_EXPORT(AccumulateAny);
HWY_EXPORT(CombineAny);
HWY_EXPORT(Load16);
HWY_EXPORT(LoadTruth);
HWY_EXPORT(Store16);
HWY_EXPORT(ScaleAny);

namespace {

constexpr uint32_t kMaxDivisor = 1 << 24;

void CheckSizes(ReduceOp op, DataType type, size_t accumulator, size_t wire) {
  EPIC_CHECK(CanReduce(op, type) && wire % ElementBytes(type) == 0 &&
             accumulator == AccumulatorBytes(op, type, wire));
}

// Those of 16 bits.
constexpr bool IsHalf(DataType type) { return type == DataType::kFloat16 || type == DataType::kBFloat16; }

constexpr bool IsLogical(ReduceOp op) { return op == ReduceOp::kLogicalAnd || op == ReduceOp::kLogicalOr; }

}  // namespace

size_t AccumulatorBytes(ReduceOp op, DataType type, size_t wire_bytes) {
  const size_t factor = AccumulatorFactor(type);
  return factor > 1 && CanReduce(op, type) ? factor * wire_bytes : wire_bytes;
}

void Load(ReduceOp op, DataType type, std::span<uint8_t> acc, std::span<const uint8_t> in) {
  CheckSizes(op, type, acc.size(), in.size());
  if (type == DataType::kBlock8) {
    LoadBlocks(acc, in);
  } else if (IsHalf(type)) {
    HWY_DYNAMIC_DISPATCH(Load16)(type, acc.data(), in.data(), in.size() / 2);
  } else if (IsLogical(op)) {
    const size_t bytes = ElementBytes(type);
    HWY_DYNAMIC_DISPATCH(LoadTruth)(bytes, acc.data(), in.data(), in.size() / bytes);
  } else if (!in.empty()) {
    std::memcpy(acc.data(), in.data(), in.size());
  }
}

void Accumulate(ReduceOp op, DataType type, std::span<uint8_t> acc, std::span<const uint8_t> in) {
  CheckSizes(op, type, acc.size(), in.size());
  if (type == DataType::kBlock8) return AccumulateBlocks(acc, in);
  HWY_DYNAMIC_DISPATCH(AccumulateAny)(op, type, acc.data(), in.data(), in.size() / ElementBytes(type));
}

void Store(ReduceOp op, DataType type, std::span<const uint8_t> acc, std::span<uint8_t> out) {
  CheckSizes(op, type, acc.size(), out.size());
  if (type == DataType::kBlock8) {
    StoreBlocks(acc, out);
  } else if (IsHalf(type)) {
    HWY_DYNAMIC_DISPATCH(Store16)(type, acc.data(), out.data(), out.size() / 2);
  } else if (!out.empty() && out.data() != acc.data()) {
    std::memcpy(out.data(), acc.data(), out.size());
  }
}

void Combine(ReduceOp op, DataType type, std::span<uint8_t> out, const uint8_t* a, const uint8_t* b) {
  EPIC_CHECK(CanReduce(op, type) && out.size() % ElementBytes(type) == 0);
  if (type == DataType::kBlock8) return CombineBlocks(out, a, b);
  HWY_DYNAMIC_DISPATCH(CombineAny)(op, type, out.data(), a, b, out.size() / ElementBytes(type));
}

void ScaleToAverage(DataType type, std::span<uint8_t> data, uint32_t divisor) {
  EPIC_CHECK(CanReduce(ReduceOp::kSum, type) && type != DataType::kBlock8 &&
             data.size() % ElementBytes(type) == 0);
  EPIC_CHECK(divisor >= 1 && divisor <= kMaxDivisor);
  HWY_DYNAMIC_DISPATCH(ScaleAny)(type, data.data(), divisor, data.size() / ElementBytes(type));
}

}  // namespace epic
#endif  // HWY_ONCE
