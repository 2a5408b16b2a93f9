// Times that callers name: any number of milliseconds, up to "for ever".
#pragma once

#include <chrono>
#include <cstdint>

#include "base/types.h"

namespace epic::internal {

using Clock = std::chrono::steady_clock;

// As cores count it.
inline Nanos SinceStart(Clock::time_point now) {
  return std::chrono::nanoseconds(now.time_since_epoch()).count();
}

// now + timeout; what lies beyond the clock is time_point::max(), which never comes.
inline Clock::time_point DeadlineAfter(Clock::time_point now, std::chrono::milliseconds timeout) {
  const auto left = std::chrono::floor<std::chrono::milliseconds>(Clock::time_point::max() - now);
  return timeout < left ? now + timeout : Clock::time_point::max();
}

// For a field of 32 bits, whose largest value stands for ever.
inline uint32_t WireMilliseconds(std::chrono::milliseconds timeout) {
  return timeout.count() < UINT32_MAX ? static_cast<uint32_t>(timeout.count()) : UINT32_MAX;
}

}  // namespace epic::internal
