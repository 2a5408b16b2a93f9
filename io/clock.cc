#include "io/clock.h"

#include <ctime>

namespace epic::io {

Nanos MonotonicNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Nanos>(now.tv_sec) * kSecond + now.tv_nsec;
}

}  // namespace epic::io
