// What the engine needs of each mode: a row beside that of protocol/modes.h. A new mode has its row in
// table.cc (docs/ADDING-A-MODE.md).
#pragma once

#include <array>
#include <span>

#include "incengine/modes/mode.h"

namespace epic::engine {

// N slots in a group's region of the arena, from `at` on, and behind them the payload of each.
struct Pipe {
  size_t at = 0;
  size_t payload_bytes = 0;  // of one slot
  // Where the payloads begin.
  size_t payloads(const GroupConfig& config) const;
};

// A group's region of the arena: how long it is, and its pipes. Slots are made there when the group is
// installed; what else a mode keeps there is known to its own state.
class Memory {
 public:
  static constexpr size_t kMostPipes = 2;
  // Without pipes.
  explicit Memory(size_t bytes) : bytes_(bytes) {}
  // With pipes one behind the other, of so many payload bytes for each slot.
  // Behind them lie so many bytes more, which the mode's own state knows.
  Memory(const GroupConfig& config, std::span<const size_t> payload_bytes, size_t behind = 0);

  size_t bytes() const { return bytes_; }
  // Of a memory that stays, not of one that is just being asked for.
  std::span<const Pipe> pipes() const& { return std::span(pipes_).first(count_); }
  std::span<const Pipe> pipes() const&& = delete;

 private:
  size_t bytes_ = 0;
  size_t count_ = 0;
  std::array<Pipe, kMostPipes> pipes_{};
};

struct ModeRow {
  Mode mode = Mode::kUnspecified;
  const ModeLogic& (*logic)() = nullptr;
  Memory (*memory)(const GroupConfig& config) = nullptr;
  // What a context has at its beginning beside what all have; null: nothing. address and pool, null if there
  // is none, are this switch's.
  void (*add_state)(Context& ctx, Ipv4 address, const Pool* pool) = nullptr;
};

// Row n - 1 is mode n.
extern const std::array<ModeRow, kModes.size()> kModeRows;

// Null for what is no mode.
inline const ModeRow* FindRow(Mode mode) {
  const size_t at = static_cast<size_t>(mode) - 1;
  return at < kModeRows.size() ? &kModeRows[at] : nullptr;
}

// The row of a group, whose mode there is.
const ModeRow& RowOf(const GroupConfig& config);

// Of a group whose mode there is.
Memory MemoryOf(const GroupConfig& config);

// New slots in all pipes of the group's region.
void MakeSlots(const GroupConfig& config, std::span<uint8_t> region);

// Arena bytes that the group takes.
inline size_t ArenaBytes(const GroupConfig& config) { return MemoryOf(config).bytes(); }

}  // namespace epic::engine
