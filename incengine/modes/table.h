// What the engine needs of each mode: a row beside that of protocol/modes.h. A new mode has its row in
// table.cc (docs/ADDING-A-MODE.md).
#pragma once

#include <array>
#include <span>

#include "incengine/modes/mode.h"

namespace epic::engine {

struct ModeRow {
  Mode mode = Mode::kUnspecified;
  const ModeLogic& (*logic)() = nullptr;
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

// New slots in all pipes of the group's region.
void MakeSlots(const GroupConfig& config, std::span<uint8_t> region);

}  // namespace epic::engine
