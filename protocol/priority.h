// The priority of a call in a pool that groups share (docs/PROTOCOL-MODE-V.md, section 2): in 65,536ths, as
// it stands in the control packet.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace epic {

using Priority = uint32_t;

inline constexpr Priority kLeastPriority = 1;              // 2^-16
inline constexpr Priority kMostPriority = 65'535u << 16;   // 65,535
inline constexpr Priority kDefaultPriority = 1u << 16;     // 1: of who says none

// Is it a number that a priority can be made of? Not if it is negative, infinite or no number.
inline bool IsPriority(double value) { return std::isfinite(value) && value >= 0; }

// The nearest that there is, of a value that IsPriority.
inline Priority PriorityOf(double value) {
  constexpr double kOne = kDefaultPriority;
  return static_cast<Priority>(
      std::lround(std::clamp(value * kOne, double{kLeastPriority}, double{kMostPriority})));
}

// As people say it.
constexpr double ValueOf(Priority priority) { return static_cast<double>(priority) / kDefaultPriority; }

// What a control packet says: 0 is the default's, and what is beyond the most, or the limit if it is not 0,
// counts as that.
constexpr Priority SaidPriority(uint32_t said, Priority limit) {
  const Priority most = limit == 0 ? kMostPriority : std::min(limit, kMostPriority);
  return std::min(said == 0 ? kDefaultPriority : said, most);
}

}  // namespace epic
