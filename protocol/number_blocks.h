// Calls of floating-point numbers that travel as blocks of INT8 with a scale (docs/PROTOCOL.md, section 8):
// what the control header says of them. What is in a block, and how it is made, has reduce/blocks.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ceil_div.h"
#include "protocol/control.h"
#include "protocol/types.h"

namespace epic {

inline constexpr size_t kBlockBytes = 64;
inline constexpr size_t kBlockElements = 62;

// How many blocks hold so many elements; the last one may be short.
constexpr uint64_t BlocksOf(uint64_t elements) { return CeilDiv(elements, uint64_t{kBlockElements}); }

// Does a call's data travel so?
constexpr bool IsInBlocks(const ControlHeader& header) { return header.type == DataType::kBlock8; }

// Has the type numbers that become blocks?
constexpr bool MayBeInBlocks(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBFloat16;
}

// A ReduceScatter in blocks has at most so many parts, since each has a block at least: as many as a message
// between hosts holds, and half of a rank's memory for a call by the network.
inline constexpr uint32_t kMostBlockParts = kMaxInlineBytes / kBlockBytes;

// The header of a call in blocks, made of that of the call as a program has it: a SUM of a type that
// MayBeInBlocks, with elements. Each part begins with a block of its own.
constexpr ControlHeader InBlocks(ControlHeader call) {
  call.called = call.type;
  call.type = DataType::kBlock8;
  call.last = static_cast<uint8_t>((call.count - 1) % kBlockElements + 1);
  call.count = BlocksOf(call.count);
  return call;
}

// Elements of the caller's that a part has, of a call or a slice of one: in blocks only the last slice ends
// with one that may be short.
constexpr uint64_t CalledElements(const ControlHeader& header) {
  if (header.count == 0 || !IsInBlocks(header)) return header.count;
  const uint64_t last = SlicesLeft(header) == 0 ? header.last : kBlockElements;
  return (header.count - 1) * kBlockElements + last;
}

// Bytes where its caller has them of what an element is on the wire, but for a last one that is short.
constexpr uint64_t CalledElementBytes(const ControlHeader& header) {
  return IsInBlocks(header) ? kBlockElements * ElementBytes(header.called) : ElementBytes(header.type);
}

// Bytes of a part where its caller has it.
constexpr uint64_t CalledBytes(const ControlHeader& header) {
  return CalledElements(header) * ElementBytes(IsInBlocks(header) ? header.called : header.type);
}

}  // namespace epic
