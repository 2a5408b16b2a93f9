// Counters of one kind as a table of names and members. All else follows from it: sums, what is told of them,
// and what docs/COUNTERS.md must have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace epic {

// A member of a struct of counters, and its name for people and the manager.
template <typename Counters>
struct CounterRow {
  std::string_view name;
  uint64_t Counters::*member;
};

// Whether the table has every counter of the struct once. rest: bytes of the struct that are no rows.
template <typename Counters, size_t kRows>
constexpr bool HasEach(const std::array<CounterRow<Counters>, kRows>& table, size_t rest = 0) {
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (table[i].member == table[j].member || table[i].name == table[j].name) return false;
    }
  }
  return sizeof(Counters) == kRows * sizeof(uint64_t) + rest;
}

// Adds the counters of the table, and no other member, to *sum.
template <typename Counters>
void AddCounters(std::type_identity_t<std::span<const CounterRow<Counters>>> table, const Counters& more,
                 Counters* sum) {
  for (const CounterRow<Counters>& row : table) sum->*row.member += more.*row.member;
}

}  // namespace epic
