// How long to wait before the next attempt at something that has failed. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace epic::internal {

class Backoff {
 public:
  static constexpr std::chrono::milliseconds kFirst{100}, kMost{2000};

  // Twice as long each time, up to kMost.
  std::chrono::milliseconds Next() { return std::exchange(next_, std::min(2 * next_, kMost)); }
  // An attempt has succeeded.
  void Reset() { next_ = kFirst; }

 private:
  std::chrono::milliseconds next_ = kFirst;
};

}  // namespace epic::internal
