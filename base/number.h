// Numbers in texts.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace epic {

// The whole of `text` as a number, by std::from_chars: decimal, with no space, no + and no 0x, a minus only
// where the type has signs. False, and *value is what it was, if `text` is none or the type cannot hold it.
// Behind absl::SimpleAtoi, which takes spaces around it and a plus, each caller would have to look for these.
template <typename Number>
bool ReadNumber(std::string_view text, Number* value) {
  Number read{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  *value = read;
  return true;
}

}  // namespace epic
