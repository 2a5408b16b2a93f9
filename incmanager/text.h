// What others have written, as the manager passes it on and keeps it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/counted.h"
#include "protocol/bounds.h"

namespace epic::manager {

// What hosts say about themselves is told to all others and kept: not more than a line of it, and whole UTF-8
// characters, else no message with it could be parsed. Of what is longer the first `most` bytes, or a few
// less, and "...".
inline std::string Shortened(const std::string& text, size_t most = 256) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

// "4.2 s", "13 min", "5 h": of what took, or is over for, so many milliseconds.
inline std::string Duration(int64_t ms) {
  constexpr int64_t kMinute = 60'000;
  if (ms < 2 * kMinute) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
  if (ms < 120 * kMinute) return fmt::format("{} min", ms / kMinute);
  return fmt::format("{} h", ms / (60 * kMinute));
}

// 1 to kMaxNameBytes printable characters without spaces: names appear in logs and tables.
inline bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace epic::manager
