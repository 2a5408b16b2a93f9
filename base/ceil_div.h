#pragma once

#include <cstdint>

namespace epic {

// a / b rounded up; b is not 0. No sum that could overflow.
constexpr uint64_t CeilDiv(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace epic
