// What others have written, as the manager passes it on and keeps it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/counted.h"
#include "base/printable.h"
#include "protocol/bounds.h"

namespace epic::manager {

// "4.2 s", "13 min", "5 h": of what took, or is over for, so many milliseconds.
inline std::string Duration(int64_t ms) {
  constexpr int64_t kMinute = 60'000;
  if (ms < 2 * kMinute) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
  if (ms < 120 * kMinute) return fmt::format("{} min", ms / kMinute);
  return fmt::format("{} h", ms / (60 * kMinute));
}

// What a rank or a daemon says of itself, and others are told, has at most so many bytes.
inline constexpr size_t kMaxSaidBytes = 256;
// So many has a line of what has happened.
inline constexpr size_t kMaxEventBytes = 500;

// 1 to kMaxNameBytes printable characters without spaces: names appear in logs and tables.
inline bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

// What IsName asks, for refusals.
inline constexpr const char* kNameInWords = "1 to 64 printable characters without spaces";
static_assert(kMaxNameBytes == 64);

}  // namespace epic::manager
