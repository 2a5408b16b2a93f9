// How long somebody who waits polls before sleeping. Waking a sleeper takes some 20 to 50 us, a look about
// one; but a look that finds nothing takes the core away from whoever could end the wait, and nobody polls
// for what comes in a second.
//
// So the length follows the pauses between what comes: one that polling for the limit could have bridged
// doubles it, up to the limit, a longer one halves it. The table is in
// docs/HOST-INTERNALS.md, "Polling and sleeping".
// Whoever polls yields the core between looks.
//
// Without a clock; a copy is a snapshot.
#pragma once

#include <algorithm>

#include "base/types.h"

namespace epic {

class Spin {
 public:
  // limit: the longest time to poll without anything having come; 0: never.
  explicit Spin(Nanos limit) : limit_(limit), length_(limit) {}

  // A wait begins: what it waits for may come from now on.
  void Begin(Nanos now) { since_ = now; }

  // After a look, or a sleep; `came`: it found something. True: look again. False: sleep.
  bool KeepPolling(Nanos now, bool came) {
    if (came) {
      Adapt(now - since_);
      since_ = now;
    }
    return now - since_ < length_;
  }

  Nanos length() const { return length_; }

 private:
  // Shorter pauses are within a burst: they do not say whether it is worth while to poll for the next one.
  static constexpr Nanos kShortPause = 5 * kMicrosecond;
  // Kept also after the longest pauses: a few looks, from which the length can double again.
  static constexpr Nanos kMinLength = 2 * kMicrosecond;

  void Adapt(Nanos pause) {
    if (pause < kShortPause) return;
    const Nanos wanted = pause <= limit_ ? 2 * length_ : length_ / 2;
    length_ = std::clamp(wanted, std::min(kMinLength, limit_), limit_);
  }

  Nanos limit_;
  Nanos length_;
  Nanos since_ = 0;  // the wait's beginning, or the last that came
};

}  // namespace epic
