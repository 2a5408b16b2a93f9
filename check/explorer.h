// Visits every state that a model can reach and judges each: invariants in every step; calls that have not
// ended can end without further faults, from every state; and from every quiet one they do end, if nothing
// goes wrong any more (check/liveness.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
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
  uint64_t states = 0;  // distinct
  uint64_t expanded = 0;
  uint64_t transitions = 0;
  int64_t depth = 0;  // breadth first: of the layer that is expanded; in the end the diameter
  size_t bytes = 0;
  std::vector<uint64_t> layers;  // breadth first: states at each depth, of those depths that are known whole
};

struct Report {
  Verdict verdict = Verdict::kRight;
  std::optional<Breach> breach;  // why it is violated or hung
  std::vector<Action> path;      // from the initial state to the violation or the state that hangs
  std::vector<Action> after;     // of a schedule that does not end, what follows the path at first
  Progress progress;
  // In which the calls have ended and nothing is under way: fingerprints, those that are symmetric once, and
  // without what faults have happened.
  std::set<uint64_t> final_states;
  // Of the probability that a state was taken for another (check/seen.h).
  double omission_bound = 0;
  Model::Sizes sizes;
};

struct ExploreOptions {
  bool reduced = true;    // partial-order reduction (Model::Enabled)
  bool symmetric = true;  // (check/symmetry.h)
  // The newest state first: finds deep violations soon, but no shortest path and no diameter.
  bool depth_first = false;
  Limits limits;
  // Asked now and then; false stops the exploration.
  std::function<bool(const Progress&)> on_progress;
};

Report Explore(Model& model, const ExploreOptions& options);

}  // namespace epic::check
