// Runs in processes of their own: many at a time, and none that aborts takes the program with it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "sim/trial.h"

namespace epic::sim {

// Runs `body` in a child process and returns what it returned, 0 to 255; nothing if it aborted or was killed.
std::optional<int> InChild(const std::function<int()>& body);

struct SeedRange {
  uint64_t from = 1;
  uint64_t to = 1;  // included
  int jobs = 1;     // processes
};

struct RangeResult {
  std::optional<uint64_t> violation;  // the first seen seed whose run was not right, or aborted
  Counts counts;                      // of the runs that were right
};

// Runs a scenario of one seed.
using Runner = std::function<Outcome(const Scenario&)>;

// Runs the scenario with each seed until one is not right. `progress` is called after each run.
RangeResult RunSeeds(const Scenario& scenario, const SeedRange& range, const Runner& run,
                     const std::function<void(const Counts&)>& progress);

}  // namespace epic::sim
