// How many bytes of a switch's memory the parts of a group's context take: for the engine, which lays them
// out, and for the manager, which plans with them. Which parts a mode has, the engine's table of modes says
// (incengine/modes/table.cc), and incmanager/policies/memory.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/modes.h"

namespace epic {

// What the bytes depend on; the names are those of GroupConfig in proto/switch.proto.
struct ContextShape {
  Mode mode = Mode::kUnspecified;
  bool reproducible = false;
  uint32_t accumulator_mtus = 2;
  uint32_t path_mtu = 0;         // bytes
  uint32_t message_packets = 0;  // M
  uint32_t window_messages = 0;  // W
  uint32_t slots = 0;            // N
  uint32_t children = 0;
  bool has_parent = false;
};

// The memory is given out in pieces of so many bytes, and each part begins with one.
inline constexpr size_t kArenaPiece = 64;

constexpr size_t RoundUpToArena(size_t bytes) {
  return (bytes + kArenaPiece - 1) / kArenaPiece * kArenaPiece;
}

// Of a slot, without its payload.
inline constexpr size_t kSlotBytes = 24;

// The payload of a slot on its way up: the sum, and in a reproducible group a contribution per child. None if
// it lies in a pool.
constexpr size_t SlotPayloadBytes(const ContextShape& shape) {
  if (IsInPool(shape.mode)) return 0;
  const size_t contributions = shape.reproducible ? shape.children : 0;
  return (shape.accumulator_mtus + contributions) * shape.path_mtu;
}

// The slots of a pipe: behind them are their payloads.
constexpr size_t SlotsBytes(size_t slots) { return RoundUpToArena(slots * kSlotBytes); }

constexpr size_t PipeBytes(size_t slots, size_t payload_bytes) {
  return SlotsBytes(slots) + RoundUpToArena(slots * payload_bytes);
}

constexpr size_t UpPipeBytes(const ContextShape& shape) {
  return PipeBytes(shape.slots, SlotPayloadBytes(shape));
}

// Of a group whose payloads lie in a pool: two rings of slots, and a buffer of its own for a sum that comes
// back.
constexpr size_t PooledBytes(const ContextShape& shape) {
  return 2 * SlotsBytes(shape.slots) + RoundUpToArena(shape.path_mtu);
}

// A ring of messages that come by one endpoint: one message more than the window is being received, and one
// is lost where the ring wraps.
constexpr size_t ReceivedRingBytes(const ContextShape& shape) {
  const size_t message = RoundUpToArena(size_t{shape.message_packets} * shape.path_mtu);
  return (size_t{shape.window_messages} + 2) * message;
}

// The ring of sums: the one that is being built may take more than its bytes, and what is lost at the end of
// the ring may be as much.
constexpr size_t SumsRingBytes(const ContextShape& shape) {
  const size_t message = RoundUpToArena(size_t{shape.message_packets} * shape.path_mtu);
  return (size_t{shape.window_messages} + size_t{2} * shape.accumulator_mtus) * message;
}

// All rings of a context that ends connections.
constexpr size_t RingsBytes(const ContextShape& shape) {
  const size_t endpoints = size_t{shape.children} + (shape.has_parent ? 1 : 0);
  return endpoints * ReceivedRingBytes(shape) + SumsRingBytes(shape);
}

}  // namespace epic
