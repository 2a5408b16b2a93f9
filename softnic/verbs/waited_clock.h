// How long those who look at an adapter's network have waited for processors: the application's threads and the adapter's own.
// What they waited before they were seen twice in turn is not known. Without a clock.
#pragma once

#include <algorithm>
#include <array>
#include <thread>

#include "base/types.h"

namespace epic::softnic {

class WaitedClock {
 public:
  enum class Looker : uint8_t { kHelper, kApplication };

  // Whether the kernel is to be asked again, which takes some 10 us: time-outs are longer, where it matters.
  bool IsDue(Nanos now) const { return now - at_ >= kEvery; }

  // The thread has waited for so long since it began. Two that wait at the same time are none that waits for longer.
  void Note(Nanos now, Looker looker, std::thread::id thread, Nanos waited) {
    Seen& seen = seen_[static_cast<size_t>(looker)];
    if (seen.thread == thread) waited_ += std::clamp<Nanos>(waited - seen.waited, 0, now - at_);
    seen = {thread, waited};
    at_ = now;
  }

  Nanos waited() const { return waited_; }

 private:
  static constexpr Nanos kEvery = 100 * kMillisecond;
  struct Seen {
    std::thread::id thread;
    Nanos waited = 0;
  };

  std::array<Seen, 2> seen_;  // by Looker, the last one
  Nanos waited_ = 0;
  Nanos at_ = 0;  // when somebody was seen last
};

}  // namespace epic::softnic
