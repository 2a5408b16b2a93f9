#include "check/estimate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

namespace epic::check {
namespace {

constexpr int64_t kMostSteps = 10'000;
// How much deeper than a run without faults the states reach that repair something: fitted to the tables of
// docs/PROOF.md.
constexpr double kStretch = 1.3;

double Sum(std::span<const uint64_t> layers) {
  return static_cast<double>(std::accumulate(layers.begin(), layers.end(), uint64_t{0}));
}

}  // namespace

int64_t StepsOfARun(Model& model) {
  std::vector<Word> state = model.Initial();
  std::vector<Action> actions;
  int64_t steps = 0;
  for (; steps < kMostSteps; ++steps) {
    model.Enabled(state, /*reduced=*/true, &actions);
    std::erase_if(actions, [](Action action) { return IsFault(action.kind); });
    if (actions.empty() || (model.Done(state) && model.Quiet(state))) break;
    // Time passes when nothing else can happen.
    const auto first = std::ranges::find_if(actions, [](Action a) { return a.kind != ActionKind::kTime; });
    if (model.Apply(state, first == actions.end() ? actions.front() : *first) != nullptr) break;
  }
  return steps;
}

double EstimatedStates(std::span<const uint64_t> layers, int64_t run_steps) {
  if (layers.size() < 2) return 0;
  const double known = Sum(layers);
  const auto widest = static_cast<size_t>(std::ranges::max_element(layers) - layers.begin());
  const auto steps = static_cast<double>(run_steps);
  const double end = kStretch * steps;
  // Behind the widest of all layers as many states as before it. A call's control message alone has a widest
  // layer, too, earlier in the run.
  const bool falls = widest + 3 < layers.size();
  if (falls && (static_cast<double>(widest) > steps / 2 || static_cast<double>(layers.size()) > end))
    return std::max(known, 2 * Sum(layers.first(widest + 1)));
  const auto depth = static_cast<double>(std::max<size_t>(widest, 1));
  const double whole = std::max(end, 2 * depth + 2);
  const double logarithm = std::log(static_cast<double>(std::max<uint64_t>(layers[widest], 2)));
  const double curvature = logarithm / (depth * (whole - depth));
  return std::max(known, std::exp(curvature * whole * whole / 4) * std::sqrt(std::numbers::pi / curvature));
}

}  // namespace epic::check
