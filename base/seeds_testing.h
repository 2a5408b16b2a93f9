// Which seeds a random test runs: EPIC_SEED=n that one alone, EPIC_SEEDS=n that many from 1 on, EPIC_SEEDS=/n
// the nth part of those that it has, but not below eight, since they choose configurations, too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace epic {

struct TestSeeds {
  uint64_t first = 1;
  uint64_t count = 0;
};

// `count` from 1 on, unless the environment says otherwise.
inline TestSeeds SeedsToRun(uint64_t count) {
  if (const char* one = std::getenv("EPIC_SEED")) return {std::strtoull(one, nullptr, 10), 1};
  const char* const many = std::getenv("EPIC_SEEDS");
  if (many == nullptr) return {1, count};
  if (many[0] != '/') return {1, std::strtoull(many, nullptr, 10)};
  const uint64_t part = std::strtoull(many + 1, nullptr, 10);
  constexpr uint64_t kLeast = 8;
  return {1, part == 0 ? count : std::max(count / part, std::min(count, kLeast))};
}

}  // namespace epic
