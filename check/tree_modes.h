// What the checker takes for true of a tree by the rows of its switches' modes (protocol/modes.h).
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "check/system.h"
#include "protocol/modes.h"

namespace epic::check {

// The rows of the switches' modes, by switch.
inline std::vector<ModeInfo> ModesOf(const System& system) {
  std::vector<ModeInfo> rows;
  for (int s = 0; s < system.switches(); ++s) {
    const ModeInfo* const row = FindMode(system.config().mode.At(static_cast<size_t>(s)));
    rows.push_back(row != nullptr ? *row : ModeInfo{});
  }
  return rows;
}

// States that differ in nothing but the places of children are the same.
inline bool ChildrenAreAlike(std::span<const ModeInfo> modes) {
  return std::ranges::all_of(modes, &ModeInfo::children_alike);
}

// What is acknowledged to a rank has been acknowledged by whoever receives it.
inline bool AcknowledgesEndToEnd(std::span<const ModeInfo> modes) {
  return std::ranges::all_of(modes,
                             [](const ModeInfo& mode) { return mode.reliability == Reliability::kEndToEnd; });
}

}  // namespace epic::check
