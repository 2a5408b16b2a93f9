// Visits every state that a model can reach, breadth first, and judges each: invariants in every step, an end
// that can be reached from every state, and no state in which nothing can happen before the calls have ended.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "check/model.h"

namespace epic::check {

enum class Verdict : uint8_t {
  kRight,
  kViolated,   // an invariant
  kHung,       // a state from which the calls cannot end
  kUnbounded,  // stopped at a limit before all was seen
  kStopped,    // by the caller
};
const char* Name(Verdict verdict);

struct Limits {
  uint64_t states = UINT32_MAX - 1;
  size_t bytes = size_t{20} << 30;  // of all tables, about
};

struct Progress {
  uint64_t states = 0;   // distinct
  uint64_t expanded = 0;
  uint64_t transitions = 0;
  int64_t depth = 0;
  size_t bytes = 0;
};

struct Report {
  Verdict verdict = Verdict::kRight;
  std::string violation;
  std::vector<Action> path;  // from the initial state: a shortest one, to the violation or the state that hangs
  Progress progress;
  uint64_t final_states = 0;       // the calls have ended and nothing is under way
  uint64_t final_fingerprint = 0;  // of the set of them
  double omission_bound = 0;
  Model::Sizes sizes;
};

struct ExploreOptions {
  bool reduced = true;  // partial-order reduction (Model::Enabled)
  Limits limits;
  // Asked now and then; false stops the exploration.
  std::function<bool(const Progress&)> on_progress;
};

Report Explore(Model& model, const ExploreOptions& options);

}  // namespace epic::check
