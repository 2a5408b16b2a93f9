// The ways to realise a group that tests go through: one mode, or two by turns.
#pragma once

#include <vector>

#include "sim/world.h"

namespace epic::sim {

// Modes by level: the switches of the root's level, the third and so on, and those between.
struct Realisation {
  const char* name;
  engine::Mode even;
  engine::Mode odd;
};

inline ModeSpec ModesFor(const Realisation& realisation, const TreeSpec& tree) {
  std::vector<engine::Mode> modes;
  for (const int parent : tree.switch_parent) {
    const bool odd = parent >= 0 && modes[static_cast<size_t>(parent)] == realisation.even;
    modes.push_back(odd ? realisation.odd : realisation.even);
  }
  return modes;
}

inline constexpr Realisation kRealisations[] = {
    {"I", engine::Mode::kTerminated, engine::Mode::kTerminated},
    {"II", engine::Mode::kTranslated, engine::Mode::kTranslated},
    {"III", engine::Mode::kAugmented, engine::Mode::kAugmented},
    {"I_above_III", engine::Mode::kTerminated, engine::Mode::kAugmented},
    {"III_above_I", engine::Mode::kAugmented, engine::Mode::kTerminated}};

}  // namespace epic::sim
