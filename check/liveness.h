// Whether calls end: from any quiet state, when nothing goes wrong any more.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "check/model.h"

namespace epic::check {

// Runs the schedule that a network without faults keeps to, from states in which every host has called and
// nothing is under way: time passes until a timer is due; then all that is under way is delivered, channel by
// channel in turn, each in its order; and so on. Remembers from where it has ended.
class FairRuns {
 public:
  explicit FairRuns(Model& model) : model_(model) {}

  struct Finding {
    std::string wrong;      // empty: the calls end
    bool violated = false;  // a step broke an invariant; else the calls do not end within kMostPasses times
                            // that time passes, or what comes to be under way never ends
    std::vector<Action> steps;  // from the quiet state to there
  };
  Finding Check(std::span<const Word> quiet);
  // From where it has ended; told apart by fingerprints, under all symmetries.
  size_t states() const { return ends_.size(); }

  static constexpr int kMostPasses = 20'000;
  static constexpr int kMostRounds = 10'000;  // of deliveries between two passes of time

 private:
  bool Make(std::vector<Word>& state, Action action);
  bool Settle(std::vector<Word>& state);

  Model& model_;
  Finding finding_;
  absl::flat_hash_set<uint64_t> ends_;  // fingerprints of quiet states from which the calls have ended
  std::vector<Action> actions_;
};

}  // namespace epic::check
