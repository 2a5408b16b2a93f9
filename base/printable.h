// What others have written, where people read it: in a log, among events, at a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace epic {

// The most that one line says.
inline constexpr size_t kMaxLineBytes = 1024;

// The first `most` bytes of a text, or a few less, and "..." if there are more: whole UTF-8 characters, else no
// message with it could be parsed.
inline std::string Shortened(std::string_view text, size_t most = 256) {
  if (text.size() <= most) return std::string(text);
  size_t end = most;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

// The length of the UTF-8 character that a text begins with, or 0 if it begins with none (RFC 3629).
inline size_t Utf8Length(std::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const uint8_t first = byte(0);
  const size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than it need be, half of a pair of UTF-16, or beyond Unicode.
  const bool wrong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
                     (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90);
  return wrong ? 0 : length;
}

// One line of at most `most` bytes (and "..."): what is no character, begins another line, or has a terminal do
// or turn round something, becomes "?".
inline std::string Printable(std::string_view from, size_t most = kMaxLineBytes) {
  const std::string text = Shortened(from, most);
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const size_t length = Utf8Length(rest);
    const std::string_view character = rest.substr(0, length);
    const bool control = (length == 1 && (rest[0] < 0x20 || rest[0] == 0x7f)) ||
                         (character >= "\u0080" && character <= "\u009f" && length == 2) ||
                         (character >= "\u2028" && character <= "\u202e" && length == 3) ||
                         (character >= "\u2066" && character <= "\u2069" && length == 3);
    if (length == 0 || control) {
      out += '?';
    } else {
      out += character;
    }
    at += length == 0 ? 1 : length;
  }
  return out;
}

}  // namespace epic
