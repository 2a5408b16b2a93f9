// Whether calls end: from any quiet state, when nothing goes wrong any more.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "check/model.h"

namespace epic::check {

// Runs the schedule that a network without faults keeps to, from states in which nothing is under way: every
// host that can make a call does, and the control plane ends what has failed, or, if there is neither, time
// passes until a timer is due; then all that is under way is delivered, channel by channel in turn, each in
// its order; and so on. Remembers from where it has ended.
class FairRuns {
 public:
  explicit FairRuns(Model& model) : model_(model) {}

  struct Finding {
    // Nothing: the calls end. kFairEnd: they do not within kMostPasses times that time passes, or what comes
    // to be under way never ends; kGivenBack: they do, and a block is not given back. Others: a step broke
    // them.
    std::optional<Breach> breach;
    bool is_hang() const {
      return breach &&
             (breach->invariant == Invariant::kFairEnd || breach->invariant == Invariant::kGivenBack);
    }
    std::vector<Action> steps;  // from the quiet state to there
  };
  Finding Check(std::span<const Word> quiet);
  // From where it has ended; told apart by fingerprints, under all symmetries.
  size_t states() const { return ends_.size(); }

  static constexpr int kMostPasses = 20'000;
  static constexpr int kMostRounds = 10'000;  // of deliveries between two passes of time

 private:
  bool Make(std::vector<Word>& state, Action action);
  static bool ByHand(Action action);
  bool MakeCalls(std::vector<Word>& state);
  void NoEnd(const std::vector<Word>& state, const char* how);
  bool Settle(std::vector<Word>& state);

  Model& model_;
  Finding finding_;
  // Fingerprints of quiet states from which the calls have ended, or from where nothing is judged.
  absl::flat_hash_set<uint64_t> ends_;
  std::vector<Action> actions_;
};

}  // namespace epic::check
