// What a collective is, as hosts and switches name it to each other in control packets (docs/PROTOCOL.md):
// collectives, types of elements and operations. Types and operations are rows of a table, from which all who
// name, size, combine or refuse them take what they need.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace epic {

enum class Collective : uint8_t {
  kAllReduce = 1,
  kReduce = 2,
  kBroadcast = 3,
  kBarrier = 4,
  kReduceScatter = 5,
  kAllGather = 6,
};

// The numbers are those of the wire; none is ever given to another.
enum class DataType : uint8_t {
  kNone = 0,  // of a barrier
  kFloat32 = 1,
  kInt32 = 2,
  kFloat16 = 3,   // IEEE 754 binary16
  kBFloat16 = 4,  // the upper half of a binary32
  kByte = 5,      // copies only: Broadcast and AllGather
  kFloat64 = 6,
  kInt64 = 7,
  kUint64 = 8,
  kUint32 = 9,
  kInt8 = 10,
  kUint8 = 11,
  kInt16 = 12,
  kUint16 = 13,
  kBlock8 = 14,  // a block of INT8 with a scale (protocol/number_blocks.h); no program names it
};

// The numbers are those of the wire; none is ever given to another.
enum class ReduceOp : uint8_t {
  kNone = 0,  // of a barrier and of copies
  kSum = 1,
  kMin = 2,
  kMax = 3,
  kProduct = 4,
  kBitAnd = 5,
  kBitOr = 6,
  kBitXor = 7,
  kLogicalAnd = 8,
  kLogicalOr = 9,
  kSaturatingSum = 10,  // a sum that stays at the limit that it has come to, of INT32
};

// What the elements of a type are. It decides which operations they have (docs/PROTOCOL.md, section 8).
enum class ElementKind : uint8_t { kBytes, kFloat, kSigned, kUnsigned, kBlocks };

struct TypeInfo {
  DataType type = DataType::kNone;
  std::string_view name;  // in a switch's capability, on command lines and in errors
  uint32_t bytes = 0;     // of one element on the wire
  ElementKind kind{};
};

// Row n - 1 is type n.
inline constexpr std::array kDataTypes = {
    TypeInfo{DataType::kFloat32, "float32", 4, ElementKind::kFloat},
    TypeInfo{DataType::kInt32, "int32", 4, ElementKind::kSigned},
    TypeInfo{DataType::kFloat16, "float16", 2, ElementKind::kFloat},
    TypeInfo{DataType::kBFloat16, "bfloat16", 2, ElementKind::kFloat},
    TypeInfo{DataType::kByte, "byte", 1, ElementKind::kBytes},
    TypeInfo{DataType::kFloat64, "float64", 8, ElementKind::kFloat},
    TypeInfo{DataType::kInt64, "int64", 8, ElementKind::kSigned},
    TypeInfo{DataType::kUint64, "uint64", 8, ElementKind::kUnsigned},
    TypeInfo{DataType::kUint32, "uint32", 4, ElementKind::kUnsigned},
    TypeInfo{DataType::kInt8, "int8", 1, ElementKind::kSigned},
    TypeInfo{DataType::kUint8, "uint8", 1, ElementKind::kUnsigned},
    TypeInfo{DataType::kInt16, "int16", 2, ElementKind::kSigned},
    TypeInfo{DataType::kUint16, "uint16", 2, ElementKind::kUnsigned},
    TypeInfo{DataType::kBlock8, "block8", 64, ElementKind::kBlocks},
};

// Those that programs call with: the first rows. The others are what the library makes of them.
inline constexpr std::span<const TypeInfo> kCallerTypes(kDataTypes.data(), 13);

struct OpInfo {
  ReduceOp op = ReduceOp::kNone;
  std::string_view name;            // as a type's
  bool integers_only = false;       // floating-point types do not have it
  DataType only = DataType::kNone;  // the one type that has it; kNone: all of its kinds have
};

// Row n - 1 is operation n.
inline constexpr std::array kReduceOps = {
    OpInfo{ReduceOp::kSum, "sum"},
    OpInfo{ReduceOp::kMin, "min"},
    OpInfo{ReduceOp::kMax, "max"},
    OpInfo{ReduceOp::kProduct, "product"},
    OpInfo{ReduceOp::kBitAnd, "band", true},
    OpInfo{ReduceOp::kBitOr, "bor", true},
    OpInfo{ReduceOp::kBitXor, "bxor", true},
    OpInfo{ReduceOp::kLogicalAnd, "land", true},
    OpInfo{ReduceOp::kLogicalOr, "lor", true},
    OpInfo{ReduceOp::kSaturatingSum, "saturating_sum", true, DataType::kInt32},
};

// Its row; null for kNone and what is no type, as of a later version.
constexpr const TypeInfo* FindType(DataType type) {
  const size_t row = static_cast<size_t>(type) - 1;
  return row < kDataTypes.size() ? &kDataTypes[row] : nullptr;
}

// How many times the bytes that it has on the wire an element takes while it is combined: FP16 and BF16 are
// combined in FP32, and so is each number of a block, which has a byte there.
inline constexpr uint32_t kMostAccumulatorFactor = 4;
constexpr uint32_t AccumulatorFactor(DataType type) {
  if (type == DataType::kFloat16 || type == DataType::kBFloat16) return 2;
  return type == DataType::kBlock8 ? kMostAccumulatorFactor : 1;
}
constexpr bool IsAccumulatorFactor(uint32_t factor) { return factor == 1 || factor == 2 || factor == 4; }

// Its row; null for kNone and what is no operation.
constexpr const OpInfo* FindOp(ReduceOp op) {
  const size_t row = static_cast<size_t>(op) - 1;
  return row < kReduceOps.size() ? &kReduceOps[row] : nullptr;
}

// Numbers that have no row here, as of a later version.
constexpr bool IsLater(DataType type) { return type != DataType::kNone && FindType(type) == nullptr; }
constexpr bool IsLater(ReduceOp op) { return op != ReduceOp::kNone && FindOp(op) == nullptr; }

// "float32"; "none" for kNone and "unknown" for what is no type.
constexpr std::string_view NameOf(DataType type) {
  const TypeInfo* const row = FindType(type);
  return row != nullptr ? row->name : type == DataType::kNone ? "none" : "unknown";
}

// "sum"; "none" for kNone and "unknown" for what is no operation.
constexpr std::string_view NameOf(ReduceOp op) {
  const OpInfo* const row = FindOp(op);
  return row != nullptr ? row->name : op == ReduceOp::kNone ? "none" : "unknown";
}

// Empty if no type has that name.
constexpr std::optional<DataType> TypeNamed(std::string_view name) {
  const auto row = std::ranges::find(kDataTypes, name, &TypeInfo::name);
  return row == kDataTypes.end() ? std::nullopt : std::optional(row->type);
}

// Empty if no operation has that name.
constexpr std::optional<ReduceOp> OpNamed(std::string_view name) {
  const auto row = std::ranges::find(kReduceOps, name, &OpInfo::name);
  return row == kReduceOps.end() ? std::nullopt : std::optional(row->op);
}

// Bytes of one element; 0 for kNone and unknown values.
constexpr uint32_t ElementBytes(DataType type) {
  const TypeInfo* const row = FindType(type);
  return row == nullptr ? 0 : row->bytes;
}

// The same, and 1 of what is no type: an element of a later one has at least so many.
constexpr uint32_t LeastElementBytes(DataType type) { return std::max(ElementBytes(type), 1u); }

// Does the type have the operation? All integers have all but the saturating sum, which INT32 alone has; FP
// types have all but these and the bitwise and the logical ones; blocks have the sum alone, bytes none. False
// for kNone and unknown values.
constexpr bool CanReduce(ReduceOp op, DataType type) {
  const TypeInfo* const of = FindType(type);
  const OpInfo* const by = FindOp(op);
  if (of == nullptr || by == nullptr || of->kind == ElementKind::kBytes) return false;
  if (by->only != DataType::kNone && by->only != type) return false;
  if (of->kind == ElementKind::kBlocks) return op == ReduceOp::kSum;
  return of->kind != ElementKind::kFloat || !by->integers_only;
}

// What FP32 is multiplied by in a group that sums it as whole numbers (docs/PROTOCOL.md, section 8): within
// these bounds no INT32 divided by it leaves the normal numbers of FP32. False of a NaN.
inline constexpr float kLeastScale = 1e-20f, kLargestScale = 1e20f;
constexpr bool IsScale(float scale) { return scale >= kLeastScale && scale <= kLargestScale; }

// Ranks may run ahead of one another by at most this many invocations of a group: a host opens invocation k
// only when its own invocation k - kMaxOpenInvocations has completed.
inline constexpr int64_t kMaxOpenInvocations = 16;

// Largest data of one invocation, all parts together: 1 GiB. At 256 bytes per packet that is a quarter of the
// PSN space.
inline constexpr uint64_t kMaxBytes = 1ull << 30;

// The largest inline limit that a group may have: two such control messages, one to send and one to receive,
// fill 64 KiB.
inline constexpr uint32_t kMaxInlineBytes = 32 * 1024 - 64;

}  // namespace epic
