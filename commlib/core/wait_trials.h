// Whether a waiting thread had better poll or sleep: what was shorter when both were tried. The table is in
// docs/HOST-INTERNALS.md, "Polling and sleeping".
//
// A rank cannot know it otherwise: on a processor of its own polling is shorter by the waking, but where
// ranks and switches share processors, those that poll may keep from running whoever could end their wait.
// That depends on what all ranks do, not on one. So all ranks of a group try the same for the same calls,
// which they know by number.
//
// Without a clock; a copy is a snapshot.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"

namespace epic {

class WaitTrials {
 public:
  enum class Way : uint8_t { kSleep, kPoll };

  // How to wait for the call of this number.
  Way WayOf(int64_t call) const {
    const Trial trial = TrialOf(call);
    return trial.at < trial.trials.size() ? trial.trials[trial.at] : better_;
  }

  // The wait for a call took so long, in the way that WayOf says.
  void Ended(int64_t call, Nanos wait) {
    const auto [trials, at] = TrialOf(call);
    if (at >= trials.size()) return;
    const int64_t begin = call - static_cast<int64_t>(at);
    if (at == 0) {
      tried_ = 0;
      began_ = begin;
    }
    if (at != tried_ || begin != began_) return;  // one was not waited for: nothing is learnt this time
    waits_[at] = wait;
    if (++tried_ == trials.size()) Decide(trials, begin == 0 ? kDoubt : 1);
  }

 private:
  // Of so many calls the later ones are trials, so that the worse way costs little. Several of a way after
  // each other: NIC and switches need some calls to see how ranks wait. In an order that favours neither
  // where calls of two sizes alternate.
  static constexpr int64_t kPeriod = 256, kLater = 32;
  static constexpr std::array kLaterTrials = {
      Way::kPoll,  Way::kPoll,  Way::kPoll,  Way::kPoll,  Way::kSleep, Way::kSleep, Way::kSleep, Way::kSleep,
      Way::kSleep, Way::kSleep, Way::kSleep, Way::kSleep, Way::kPoll,  Way::kPoll,  Way::kPoll,  Way::kPoll};
  // A group's first calls, so that the others of a short program need not be in the worse way. The first two
  // are long in any way, and are the two that the lower median of four leaves out. As few say little, polling
  // has to be so many times as short there: who sleeps in vain until the later trials takes twice as long at
  // most, and who polls in vain, or beside others who do, much longer.
  static constexpr Nanos kDoubt = 2;
  static constexpr std::array kFirstTrials = {Way::kSleep, Way::kSleep, Way::kPoll,  Way::kPoll,
                                              Way::kPoll,  Way::kPoll,  Way::kSleep, Way::kSleep};
  static_assert(kFirstTrials.size() <= kLater);

  // Where a call stands in trials; behind their end if it is none.
  struct Trial {
    std::span<const Way> trials;
    size_t at;
  };
  static Trial TrialOf(int64_t call) {
    if (static_cast<size_t>(call) < kFirstTrials.size()) return {kFirstTrials, static_cast<size_t>(call)};
    return {kLaterTrials, static_cast<size_t>((call - kLater) & (kPeriod - 1))};
  }

  void Decide(std::span<const Way> trials, Nanos doubt) {
    better_ = Median(trials, Way::kPoll) < Median(trials, Way::kSleep) / doubt ? Way::kPoll : Way::kSleep;
  }
  // The lower one; half of all trials are of a way.
  Nanos Median(std::span<const Way> trials, Way way) const {
    std::array<Nanos, kLaterTrials.size() / 2> waits;
    waits.fill(kNever);
    size_t count = 0;
    for (size_t i = 0; i < trials.size(); ++i) {
      if (trials[i] == way) waits[count++] = waits_[i];
    }
    std::ranges::sort(waits);
    return waits[(count - 1) / 2];
  }

  // Before anything is known: a sleeper is late by its waking, and one that polls where it must not by what a
  // scheduler's turn takes, which is a hundred times as much.
  Way better_ = Way::kSleep;
  size_t tried_ = 0;   // trials since began_, if none was left out
  int64_t began_ = 0;  // the call that was the first trial
  std::array<Nanos, kLaterTrials.size()> waits_{};
};

}  // namespace epic
