// Which seeds a random test runs: EPIC_SEED=n that one alone, EPIC_SEEDS=n that many from 1 on.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace epic::sim {

struct TestSeeds {
  uint64_t first = 1;
  uint64_t count = 0;
};

// `count` from 1 on, unless the environment says otherwise.
inline TestSeeds SeedsToRun(uint64_t count) {
  if (const char* one = std::getenv("EPIC_SEED")) return {std::strtoull(one, nullptr, 10), 1};
  if (const char* many = std::getenv("EPIC_SEEDS")) return {1, std::strtoull(many, nullptr, 10)};
  return {1, count};
}

}  // namespace epic::sim
