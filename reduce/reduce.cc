#include "reduce/reduce.h"

#include <cstring>
#include <type_traits>

#include "base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/reduce.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

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

template <class Wire, class Op>
void AccumulateBy(uint8_t* acc, const uint8_t* in, size_t elements) {
  using Lane = typename Wire::Lane;
  ForAll<Lane, sizeof(Lane), Wire::kBytes>(AccumulateStep<Wire, Op>(), acc, in, elements);
}

// The switches below have no default: what the tables of protocol/types.h have in addition does not compile
// before it is here.

template <class Wire>
void AccumulateFloats(ReduceOp op, uint8_t* acc, const uint8_t* in, size_t elements) {
  switch (op) {
    case ReduceOp::kSum:
      return AccumulateBy<Wire, Sum>(acc, in, elements);
    case ReduceOp::kMin:
      return AccumulateBy<Wire, Extremum<false>>(acc, in, elements);
    case ReduceOp::kMax:
      return AccumulateBy<Wire, Extremum<true>>(acc, in, elements);
    case ReduceOp::kProduct:
      return AccumulateBy<Wire, Product>(acc, in, elements);
    case ReduceOp::kNone:
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
    case ReduceOp::kBitXor:
    case ReduceOp::kLogicalAnd:
    case ReduceOp::kLogicalOr:
      break;
  }
}

// All but the order of elements is the same of signed and unsigned ones, and what goes bit by bit that of all
// widths.
template <typename T>
void AccumulateIntegers(ReduceOp op, uint8_t* acc, const uint8_t* in, size_t elements) {
  using Bits = WireSame<hwy::MakeUnsigned<T>>;
  switch (op) {
    case ReduceOp::kSum:
      return AccumulateBy<Bits, Sum>(acc, in, elements);
    case ReduceOp::kMin:
      return AccumulateBy<WireSame<T>, Extremum<false>>(acc, in, elements);
    case ReduceOp::kMax:
      return AccumulateBy<WireSame<T>, Extremum<true>>(acc, in, elements);
    case ReduceOp::kProduct:
      return AccumulateBy<Bits, Product>(acc, in, elements);
    case ReduceOp::kBitAnd:
      return AccumulateBy<WireSame<uint8_t>, BitAnd>(acc, in, elements * sizeof(T));
    case ReduceOp::kBitOr:
      return AccumulateBy<WireSame<uint8_t>, BitOr>(acc, in, elements * sizeof(T));
    case ReduceOp::kBitXor:
      return AccumulateBy<WireSame<uint8_t>, BitXor>(acc, in, elements * sizeof(T));
    case ReduceOp::kLogicalAnd:
      return AccumulateBy<Bits, LogicalAnd>(acc, in, elements);
    case ReduceOp::kLogicalOr:
      return AccumulateBy<Bits, LogicalOr>(acc, in, elements);
    case ReduceOp::kNone:
      break;
  }
}

void AccumulateAny(ReduceOp op, DataType type, uint8_t* acc, const uint8_t* in, size_t elements) {
  switch (type) {
    case DataType::kFloat32:
      return AccumulateFloats<WireSame<float>>(op, acc, in, elements);
    case DataType::kFloat16:
      return AccumulateFloats<WireFloat16>(op, acc, in, elements);
    case DataType::kBFloat16:
      return AccumulateFloats<WireBFloat16>(op, acc, in, elements);
    case DataType::kFloat64:
      return AccumulateFloats<WireSame<double>>(op, acc, in, elements);
    case DataType::kInt8:
      return AccumulateIntegers<int8_t>(op, acc, in, elements);
    case DataType::kUint8:
      return AccumulateIntegers<uint8_t>(op, acc, in, elements);
    case DataType::kInt16:
      return AccumulateIntegers<int16_t>(op, acc, in, elements);
    case DataType::kUint16:
      return AccumulateIntegers<uint16_t>(op, acc, in, elements);
    case DataType::kInt32:
      return AccumulateIntegers<int32_t>(op, acc, in, elements);
    case DataType::kUint32:
      return AccumulateIntegers<uint32_t>(op, acc, in, elements);
    case DataType::kInt64:
      return AccumulateIntegers<int64_t>(op, acc, in, elements);
    case DataType::kUint64:
      return AccumulateIntegers<uint64_t>(op, acc, in, elements);
    case DataType::kByte:
    case DataType::kNone:
      break;
  }
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

void ScaleFloats(DataType type, uint8_t* data, uint32_t divisor, size_t elements) {
  if (type == DataType::kFloat32) return ScaleBy<WireSame<float>>(divisor, data, elements);
  if (type == DataType::kFloat16) return ScaleBy<WireFloat16>(divisor, data, elements);
  if (type == DataType::kBFloat16) return ScaleBy<WireBFloat16>(divisor, data, elements);
  ScaleBy<WireSame<double>>(divisor, data, elements);
}

}  // namespace epic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace epic {

HWY_EXPORT(AccumulateAny);
HWY_EXPORT(Load16);
HWY_EXPORT(LoadTruth);
HWY_EXPORT(Store16);
HWY_EXPORT(ScaleFloats);

namespace {

constexpr uint32_t kMaxDivisor = 1 << 24;

void CheckSizes(ReduceOp op, DataType type, size_t accumulator, size_t wire) {
  EPIC_CHECK(CanReduce(op, type) && wire % ElementBytes(type) == 0 &&
             accumulator == AccumulatorBytes(op, type, wire));
}

// FP16 and BF16 are combined in FP32.
constexpr bool IsWidened(DataType type) { return type == DataType::kFloat16 || type == DataType::kBFloat16; }

constexpr bool IsLogical(ReduceOp op) { return op == ReduceOp::kLogicalAnd || op == ReduceOp::kLogicalOr; }

// Division of C++: truncated toward zero.
template <typename T>
void DivideIntegers(std::span<uint8_t> data, uint32_t divisor) {
  using Signed = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  using Wide = std::conditional_t<std::is_signed_v<T>, Signed, std::make_unsigned_t<Signed>>;
  for (size_t at = 0; at < data.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, data.data() + at, sizeof value);
    value = static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(divisor));
    std::memcpy(data.data() + at, &value, sizeof value);
  }
}

}  // namespace

size_t AccumulatorBytes(ReduceOp op, DataType type, size_t wire_bytes) {
  return IsWidened(type) && CanReduce(op, type) ? 2 * wire_bytes : wire_bytes;
}

void Load(ReduceOp op, DataType type, std::span<uint8_t> acc, std::span<const uint8_t> in) {
  CheckSizes(op, type, acc.size(), in.size());
  if (IsWidened(type)) {
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
  HWY_DYNAMIC_DISPATCH(AccumulateAny)(op, type, acc.data(), in.data(), in.size() / ElementBytes(type));
}

void Store(ReduceOp op, DataType type, std::span<const uint8_t> acc, std::span<uint8_t> out) {
  CheckSizes(op, type, acc.size(), out.size());
  if (IsWidened(type)) {
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
  switch (type) {
    case DataType::kFloat32:
    case DataType::kFloat16:
    case DataType::kBFloat16:
    case DataType::kFloat64:
      return HWY_DYNAMIC_DISPATCH(ScaleFloats)(type, data.data(), divisor, data.size() / ElementBytes(type));
    case DataType::kInt8:
      return DivideIntegers<int8_t>(data, divisor);
    case DataType::kUint8:
      return DivideIntegers<uint8_t>(data, divisor);
    case DataType::kInt16:
      return DivideIntegers<int16_t>(data, divisor);
    case DataType::kUint16:
      return DivideIntegers<uint16_t>(data, divisor);
    case DataType::kInt32:
      return DivideIntegers<int32_t>(data, divisor);
    case DataType::kUint32:
      return DivideIntegers<uint32_t>(data, divisor);
    case DataType::kInt64:
      return DivideIntegers<int64_t>(data, divisor);
    case DataType::kUint64:
      return DivideIntegers<uint64_t>(data, divisor);
    case DataType::kByte:
    case DataType::kNone:
      break;
  }
}

}  // namespace epic
#endif  // HWY_ONCE
