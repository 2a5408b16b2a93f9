#include "check/liveness.h"

#include <algorithm>

namespace epic::check {

// False if it breaks an invariant.
bool FairRuns::Make(std::vector<Word>& state, Action action) {
  finding_.steps.push_back(action);
  finding_.wrong = model_.Apply(state, action);
  finding_.violated = !finding_.wrong.empty();
  return !finding_.violated;
}

// Delivers until nothing is under way.
bool FairRuns::Settle(std::vector<Word>& state) {
  for (int round = 0; round < kMostRounds; ++round) {
    if (model_.Quiet(state)) return true;
    // One packet of each channel that has some at the start of the round.
    model_.Enabled(state, /*reduced=*/false, &actions_);
    for (const Action action : actions_) {
      if (action.kind == ActionKind::kDeliver && !Make(state, action)) return false;
    }
  }
  finding_.wrong = "packets cause packets without end";
  return false;
}

FairRuns::Finding FairRuns::Check(std::span<const Word> quiet) {
  finding_ = {};
  std::vector<Word> state(quiet.begin(), quiet.end());
  std::vector<uint64_t> passed;
  while (!model_.Ended(state)) {
    const uint64_t fingerprint = model_.Fingerprint(state, true);
    if (ends_.contains(fingerprint)) break;
    passed.push_back(fingerprint);
    model_.Enabled(state, /*reduced=*/false, &actions_);
    if (std::ranges::find(actions_, Action{ActionKind::kTime, 0}) == actions_.end()) {
      finding_.wrong = "no timer is set, but calls have not ended";
    } else if (passed.size() > kMostPasses) {
      finding_.wrong = "the calls do not end, though nothing goes wrong any more";
    } else if (Make(state, {ActionKind::kTime, 0}) && Settle(state)) {
      continue;
    }
    return finding_;
  }
  ends_.insert(passed.begin(), passed.end());
  return {};
}

}  // namespace epic::check
