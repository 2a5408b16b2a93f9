#include "check/liveness.h"

#include <fmt/format.h>

namespace epic::check {

// Delivers until nothing is under way.
bool FairRuns::Settle(std::vector<Word>& state, std::string* violation) {
  for (int round = 0; round < kMostRounds; ++round) {
    if (model_.Quiet(state)) return true;
    model_.Enabled(state, /*reduced=*/false, &actions_);
    // One packet of each channel that has some at the start of the round.
    const std::vector<Action> due = actions_;
    for (const Action action : due) {
      if (action.kind != ActionKind::kDeliver) continue;
      *violation = model_.Apply(state, action);
      if (!violation->empty()) return false;
    }
  }
  *violation = "packets cause packets without end";
  return false;
}

std::string FairRuns::Check(std::span<const Word> quiet) {
  std::vector<Word> state(quiet.begin(), quiet.end());
  std::vector<uint64_t> passed;
  std::string violation;
  while (!model_.Done(state)) {
    const uint64_t fingerprint = model_.Fingerprint(state, true);
    if (ends_.contains(fingerprint)) break;
    passed.push_back(fingerprint);
    if (passed.size() > kMostPasses) return "the calls do not end, though nothing goes wrong any more";
    model_.Enabled(state, /*reduced=*/false, &actions_);
    bool passes = false;
    for (const Action action : actions_) passes = passes || action.kind == ActionKind::kTime;
    if (!passes) return "no timer is set, but calls have not ended";
    violation = model_.Apply(state, {ActionKind::kTime, 0});
    if (!violation.empty() || !Settle(state, &violation)) return violation;
  }
  ends_.insert(passed.begin(), passed.end());
  return {};
}

}  // namespace epic::check
