// The ways to realise a group that tests go through: one mode, or two by turns.
#pragma once

#include <string>
#include <vector>

#include "sim/world.h"

namespace epic::sim {

// Modes by level: the switches of the root's level, the third and so on, and those between.
struct Realisation {
  std::string name;
  Mode even;
  Mode odd;
};

inline ModeSpec ModesFor(const Realisation& realisation, const TreeSpec& tree) {
  std::vector<Mode> modes;
  for (const int parent : tree.switch_parent) {
    const bool odd = parent >= 0 && modes[static_cast<size_t>(parent)] == realisation.even;
    modes.push_back(odd ? realisation.odd : realisation.even);
  }
  return modes;
}

// Each mode by itself, then each above each other that it mixes with: "II", "I_above_III".
inline std::vector<Realisation> Realisations() {
  std::vector<Realisation> all;
  for (const ModeInfo& row : kModesOfOwnMemory) all.push_back({std::string(row.numeral), row.mode, row.mode});
  for (const ModeInfo& above : kModesOfOwnMemory) {
    for (const ModeInfo& below : kModesOfOwnMemory) {
      if (above.mode == below.mode || !MayMix(above.mode, below.mode)) continue;
      all.push_back(
          {std::string(above.numeral) + "_above_" + std::string(below.numeral), above.mode, below.mode});
    }
  }
  return all;
}

// A group in each mode, for four hosts: on the same and on other ones, with two ranks on one host.
// The mode whose switches read hosts, by itself, and above and below each that it mixes with.
inline std::vector<Realisation> RealisationsThatReadHosts() {
  const ModeInfo& reads = *FindMode(ModeThatReadsHosts());
  std::vector<Realisation> all = {{std::string(reads.numeral), reads.mode, reads.mode}};
  for (const ModeInfo& other : kModesOfOwnMemory) {
    if (!MayMix(reads.mode, other.mode)) continue;
    all.push_back(
        {std::string(reads.numeral) + "_above_" + std::string(other.numeral), reads.mode, other.mode});
    all.push_back(
        {std::string(other.numeral) + "_above_" + std::string(reads.numeral), other.mode, reads.mode});
  }
  return all;
}

inline std::vector<GroupSpec> GroupsOfEachMode() {
  const std::vector<std::vector<int>> places = {{3, 1, 1, 0}, {2, 0, 2}, {2, 3}};
  std::vector<GroupSpec> groups;
  for (const Mode mode : ModesOfOwnMemory())
    groups.push_back({.mode = mode, .rank_host = places[groups.size() % 3]});
  return groups;
}

}  // namespace epic::sim
