// Numbers of things in words for people.
#pragma once

#include <cstdint>
#include <string>

namespace epic {

// "1 switch", "2 switches"; without `many` that is `one` with an s: "1 port", "0 ports".
inline std::string Counted(uint64_t count, const std::string& one, const std::string& many = "") {
  return std::to_string(count) + " " + (count == 1 ? one : many.empty() ? one + "s" : many);
}

}  // namespace epic
