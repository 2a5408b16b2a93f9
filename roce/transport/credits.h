// End-to-end credits: how many receives an acknowledgement says that the responder has (InfiniBand
// Architecture Specification 1.4, section 9.7.7.2 and the table of encoded credits there).
#pragma once

#include <cstddef>
#include <cstdint>

namespace epic::roce {

inline constexpr uint8_t kNoCreditCount = 31;  // "invalid": the responder does not count

// Receives that a credit code below kNoCreditCount stands for: 0, 1, 2, 3, 4, 6, 8, 12, ... 32768.
constexpr int64_t CreditsOf(uint8_t code) {
  if (code < 2) return code;
  return (code & 1) != 0 ? int64_t{3} << (code / 2 - 1) : int64_t{1} << (code / 2);
}

// The largest code that promises no more than so many receives.
constexpr uint8_t CreditCodeFor(size_t receives) {
  uint8_t code = 0;
  while (code + 1 < kNoCreditCount &&
         CreditsOf(static_cast<uint8_t>(code + 1)) <= static_cast<int64_t>(receives)) {
    ++code;
  }
  return code;
}

}  // namespace epic::roce
