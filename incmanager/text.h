// What others have written, as the manager passes it on and keeps it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdint>
#include <string>

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

// "1 switch", "2 switches".
inline std::string Counted(uint64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

// 1 to 64 printable characters without spaces: names appear in logs and tables.
inline bool IsName(const std::string& name) {
  constexpr size_t kMaxNameBytes = 64;
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace epic::manager
