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

#include "base/types.h"

namespace epic {

class WaitTrials {
 public:
  enum class Way : uint8_t { kSleep, kPoll };

  // How to wait for the call of this number.
  Way WayOf(int64_t call) const {
    const size_t trial = TrialOf(call);
    return trial < kTrials.size() ? kTrials[trial] : better_;
  }

  // The wait for a call took so long, in the way that WayOf says.
  void Ended(int64_t call, Nanos wait) {
    const size_t trial = TrialOf(call);
    if (trial >= kTrials.size()) return;
    if (trial == 0) tried_ = 0;
    if (trial != tried_) return;  // one was not waited for: nothing is learnt this time
    waits_[trial] = wait;
    if (++tried_ == kTrials.size()) Decide();
  }

 private:
  // Of so many calls these are trials, so that the worse way costs little. Several of a way after each other:
  // NIC and switches need some calls to see how ranks wait. In an order that favours neither where calls of
  // two sizes alternate.
  static constexpr int64_t kPeriod = 256, kFirst = 16;
  static constexpr std::array kTrials = {
      Way::kPoll,  Way::kPoll,  Way::kPoll,  Way::kPoll,  Way::kSleep, Way::kSleep, Way::kSleep, Way::kSleep,
      Way::kSleep, Way::kSleep, Way::kSleep, Way::kSleep, Way::kPoll,  Way::kPoll,  Way::kPoll,  Way::kPoll};

  static size_t TrialOf(int64_t call) { return static_cast<size_t>((call - kFirst) & (kPeriod - 1)); }

  void Decide() { better_ = Median(Way::kPoll) < Median(Way::kSleep) ? Way::kPoll : Way::kSleep; }
  Nanos Median(Way way) const {
    std::array<Nanos, kTrials.size() / 2> waits;
    size_t count = 0;
    for (size_t i = 0; i < kTrials.size(); ++i) {
      if (kTrials[i] == way) waits[count++] = waits_[i];
    }
    std::ranges::sort(waits);
    return waits[(waits.size() - 1) / 2];
  }

  Way better_ = Way::kPoll;
  size_t tried_ = 0;  // trials of this period, if none was left out
  std::array<Nanos, kTrials.size()> waits_{};
};

}  // namespace epic
