#include "check/replay.h"

#include <algorithm>
#include <bit>

namespace epic::check {

Told Run(Model& model, const std::vector<Action>& steps) {
  Told told;
  std::vector<Word> state = model.Initial();
  std::vector<Action> enabled;
  for (const Action step : steps) {
    model.Enabled(state, /*reduced=*/false, &enabled);
    if (std::ranges::find(enabled, step) == enabled.end()) break;
    told.steps.push_back(model.Describe(state, step));
    ++told.possible;
    if (const Breach* breach = model.Apply(state, step)) {
      if (model.Judges(breach->invariant)) told.breach = *breach;
      break;
    }
  }
  told.done = model.Done(state);
  return told;
}

std::vector<Action> Minimise(Model& model, std::vector<Action> steps) {
  const auto broken = [](const Told& told) {
    return told.breach ? std::optional(told.breach->invariant) : std::nullopt;
  };
  const auto wanted = broken(Run(model, steps));
  for (size_t length = std::bit_floor(std::max<size_t>(steps.size(), 1)); length > 0;) {
    bool shorter = false;
    for (size_t at = 0; at + length <= steps.size();) {
      std::vector<Action> without = steps;
      const auto from = without.begin() + static_cast<ptrdiff_t>(at);
      without.erase(from, from + static_cast<ptrdiff_t>(length));
      const Told told = Run(model, without);
      if (broken(told) != wanted) {
        ++at;
        continue;
      }
      without.resize(told.possible);
      steps = std::move(without);
      shorter = true;
    }
    // Single steps once more while that helps.
    if (length > 1 || !shorter) length /= 2;
  }
  return steps;
}

}  // namespace epic::check
