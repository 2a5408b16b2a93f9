// How a switch has answered the installation of a context: typed, so that nobody reads its words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace epic::manager {

// What a context that finds no room would take of a switch's memory, and what there is. Bytes.
struct Shortage {
  uint64_t needed = 0;
  uint64_t left = 0;
  uint64_t all = 0;
};

struct InstallAnswer {
  Status status{};           // OK: it is installed; RESOURCE_EXHAUSTED: no memory; UNAVAILABLE: no answer
  uint64_t arena_bytes = 0;  // after OK: what it takes
  std::optional<Shortage> shortage{};  // of RESOURCE_EXHAUSTED; none from a switch of an earlier version
  std::string silent{};                // of UNAVAILABLE: the status in few words, empty if there are no fewer
};

}  // namespace epic::manager
