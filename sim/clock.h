// The clock of a virtual-time world counts picoseconds, of which a byte takes a whole number at every rate
// that Ethernet has: 8000 at 1 Gbit/s, 40 at 200 Gbit/s. Cores are told whole nanoseconds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/types.h"

namespace epic::sim {

// A point in time or a duration. The clock ends after 106 days.
using Picos = int64_t;

inline constexpr Picos kPicosPerNano = 1'000;
inline constexpr Picos kPicosPerSecond = kPicosPerNano * kSecond;
inline constexpr Picos kEndOfTime = INT64_MAX;

// Cut, not rounded: a core is never told of a time before it has come.
constexpr Nanos WholeNanos(Picos time) { return time / kPicosPerNano; }
// Of what lies beyond the end of the clock, kNever too: the end.
constexpr Picos ToPicos(Nanos time) {
  return time > kEndOfTime / kPicosPerNano ? kEndOfTime : time * kPicosPerNano;
}

// When one direction of a link is free. While packets follow each other without a pause what their times have
// of a picosecond adds up: n packets take n times the exact time of one, cut once.
class LinkClock {
 public:
  // A packet of so many bytes, at most a mebibyte, begins to leave now, or when those before it have left.
  // Returns when it has.
  Picos Take(Picos now, int64_t bytes, int64_t bits_per_second) {
    if (free_at_ < now) {
      free_at_ = now;
      rest_ = 0;
    }
    const int64_t work = bytes * 8 * kPicosPerSecond + rest_;
    free_at_ += work / bits_per_second;
    rest_ = work % bits_per_second;
    return free_at_;
  }
  Picos free_at() const { return free_at_; }

 private:
  Picos free_at_ = 0;
  int64_t rest_ = 0;  // behind free_at_, in parts of a picosecond of which bits_per_second are one
};

}  // namespace epic::sim
