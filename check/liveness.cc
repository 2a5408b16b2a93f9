#include "check/liveness.h"

#include <algorithm>

namespace epic::check {

// False if it breaks an invariant, or cannot be made whole.
bool FairRuns::Make(std::vector<Word>& state, Action action) {
  finding_.steps.push_back(action);
  const Breach* breach = model_.Apply(state, action);
  if (breach != nullptr && model_.Judges(breach->invariant)) finding_.breach = *breach;
  return breach == nullptr;
}

void FairRuns::NoEnd(const std::vector<Word>& state, const char* how) {
  const Invariant invariant = model_.CallsEnded(state) ? Invariant::kGivenBack : Invariant::kFairEnd;
  if (!model_.Judges(invariant)) return;
  finding_.breach = {invariant, how + model_.Standing(state)};
}

// Neither a packet nor time makes it happen.
bool FairRuns::ByHand(Action action) {
  return action.kind == ActionKind::kStart || action.kind == ActionKind::kFail;
}

// Delivers until nothing is under way.
bool FairRuns::Settle(std::vector<Word>& state) {
  for (int round = 0; round < kMostRounds; ++round) {
    if (model_.Quiet(state)) return true;
    // One packet of each channel that has some at the start of the round.
    model_.Enabled(state, /*reduced=*/false, &actions_);
    for (const Action action : actions_) {
      if (action.kind == ActionKind::kDeliver && action.place == 0 && !Make(state, action)) return false;
    }
  }
  NoEnd(state, "packets cause packets without end: ");
  return false;
}

// Every host that can, of its calls the next; and the control plane, with nodes of a group that has failed.
// False if that breaks an invariant.
bool FairRuns::MakeCalls(std::vector<Word>& state) {
  return std::ranges::all_of(actions_, [&](Action action) { return !ByHand(action) || Make(state, action); });
}

FairRuns::Finding FairRuns::Check(std::span<const Word> quiet) {
  finding_ = {};
  constexpr Action kTimePasses{ActionKind::kTime};
  std::vector<Word> state(quiet.begin(), quiet.end());
  std::vector<uint64_t> passed;
  while (!model_.Ended(state)) {
    const uint64_t fingerprint = model_.Fingerprint(state, true);
    if (ends_.contains(fingerprint)) break;
    passed.push_back(fingerprint);
    model_.Enabled(state, /*reduced=*/false, &actions_);
    const bool calls = std::ranges::any_of(actions_, ByHand);
    if (!calls && std::ranges::find(actions_, kTimePasses) == actions_.end()) {
      NoEnd(state, model_.CallsEnded(state) ? "no timer is set, but a block is not given back: "
                                            : "no timer is set, but calls have not ended: ");
    } else if (passed.size() > kMostPasses) {
      NoEnd(state, "the calls do not end, though nothing goes wrong any more: ");
    } else if ((calls ? MakeCalls(state) : Make(state, kTimePasses)) && Settle(state)) {
      continue;
    }
    if (finding_.breach) return finding_;
    break;  // there is more, but nothing to judge it by
  }
  ends_.insert(passed.begin(), passed.end());
  return {};
}

}  // namespace epic::check
