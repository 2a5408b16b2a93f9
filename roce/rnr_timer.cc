#include "roce/rnr_timer.h"

#include <array>

namespace epic::roce {

Nanos RnrTimerNanos(uint8_t code) {
  static constexpr std::array<int64_t, 32> kMicroseconds = {
      655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
      480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
      20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};
  return kMicroseconds[code & 31] * kMicrosecond;
}

}  // namespace epic::roce
