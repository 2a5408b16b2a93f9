// How many bytes of a switch's memory a group's context takes, and where its parts lie: for the engine, which
// lays them out, and for the manager, which plans with them. Which parts a mode has, protocol/modes.h says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

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

// A ring of messages that are read of one child's memory: a window, and what is lost where the ring wraps.
constexpr size_t ReadRingBytes(const ContextShape& shape) {
  const size_t message = RoundUpToArena(size_t{shape.message_packets} * shape.path_mtu);
  return (size_t{shape.window_messages} + 1) * message;
}

// All rings of a context that ends connections.
constexpr size_t RingsBytes(const ContextShape& shape) {
  const size_t endpoints = size_t{shape.children} + (shape.has_parent ? 1 : 0);
  return endpoints * ReceivedRingBytes(shape) + SumsRingBytes(shape);
}

// Of a group whose payloads lie in a pool: a buffer of its own, for a sum that comes back.
constexpr size_t OwnBufferBytes(uint32_t path_mtu) { return path_mtu; }

// N slots in a group's region, from `at` on, and behind them the payload of each.
struct Pipe {
  size_t at = 0;
  size_t payloads_at = 0;
  size_t payload_bytes = 0;  // of one slot
};

// A group's region: how long it is, its pipes, and where that is which only the mode's own state lays out.
class ContextMemory {
 public:
  static constexpr size_t kMostPipes = 2;

  constexpr size_t bytes() const { return bytes_; }
  // Of a memory that stays, not of one that is just being asked for.
  constexpr std::span<const Pipe> pipes() const& { return std::span(pipes_).first(count_); }
  constexpr std::span<const Pipe> pipes() const&& = delete;
  constexpr size_t own_at() const { return own_at_; }

  // Behind all that is there.
  constexpr void AddPipe(size_t slots, size_t payload_bytes) {
    pipes_[count_++] = {
        .at = bytes_, .payloads_at = bytes_ + SlotsBytes(slots), .payload_bytes = payload_bytes};
    bytes_ += PipeBytes(slots, payload_bytes);
  }
  constexpr void AddOwn(size_t bytes) {
    own_at_ = bytes_;
    bytes_ += RoundUpToArena(bytes);
  }

 private:
  size_t bytes_ = 0;
  size_t own_at_ = 0;
  size_t count_ = 0;
  std::array<Pipe, kMostPipes> pipes_{};
};

// The one formula. Without parts and bytes if there is no such mode.
constexpr ContextMemory MemoryOf(const ContextShape& shape) {
  ContextMemory memory;
  const ModeInfo* const mode = FindMode(shape.mode);
  switch (mode == nullptr ? ContextParts::kNone : mode->parts) {
    case ContextParts::kNone:
      break;
    case ContextParts::kRings:
      memory.AddOwn(RingsBytes(shape));
      break;
    case ContextParts::kRingsAndReads:
      memory.AddOwn(RingsBytes(shape) + shape.children * ReadRingBytes(shape));
      break;
    case ContextParts::kUpPipe:
      memory.AddPipe(shape.slots, SlotPayloadBytes(shape));
      break;
    case ContextParts::kUpAndDownPipe:
      memory.AddPipe(shape.slots, SlotPayloadBytes(shape));
      memory.AddPipe(shape.slots, shape.path_mtu);
      break;
    case ContextParts::kSlotsAndBuffer:
      memory.AddPipe(shape.slots, 0);
      memory.AddPipe(shape.slots, 0);
      memory.AddOwn(OwnBufferBytes(shape.path_mtu));
      break;
  }
  return memory;
}

}  // namespace epic
