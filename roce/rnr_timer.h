// Timer codes of RNR NAKs and of the transport timeout.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace epic::roce {

// How long an RNR NAK with this timer code (low five bits) asks to wait: InfiniBand specification 1.4, table
// 45.
Nanos RnrTimerNanos(uint8_t code);

// 4.096 us * 2^exponent for exponents 1 to 31; kNever for 0, as verbs has it.
constexpr Nanos TimeoutNanos(uint8_t exponent) {
  return exponent == 0 ? kNever : Nanos{4096} << (exponent & 31);
}

}  // namespace epic::roce
