#include "base/environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

namespace epic {

const char* Environment::Get(const char* name) const {
  const char* const text = get_env_(name);
  const bool unset = text == nullptr || (empty_ == Empty::kIsUnset && *text == '\0');
  return unset ? nullptr : text;
}

void Environment::Text(const char* name, std::string* value) const {
  if (const char* const text = Get(name)) *value = text;
}

void Environment::Seconds(const char* name, std::chrono::milliseconds* value) {
  const char* const text = Get(name);
  if (text == nullptr) return;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  const auto longest = static_cast<double>(kLongestTime.count());
  if (end == text || *end != '\0' || !(seconds > 0 && seconds <= longest))
    return Refuse(name, text, fmt::format("is not a time in seconds above 0 and up to {:.0f}", longest));
  *value = std::chrono::milliseconds(std::max<int64_t>(1, static_cast<int64_t>(seconds * 1000)));
}

std::optional<size_t> Environment::Choice(const char* name, std::span<const std::string_view> words) {
  const char* const text = Get(name);
  if (text == nullptr) return std::nullopt;
  const auto at = std::ranges::find(words, std::string_view(text));
  if (at != words.end()) return static_cast<size_t>(at - words.begin());
  Refuse(name, text, fmt::format("is none of {}", fmt::join(words, ", ")));
  return std::nullopt;
}

void Environment::Switch(const char* name, std::string_view no, std::string_view yes, bool* value) {
  const char* const text = Get(name);
  if (text == nullptr) return;
  if (text != yes && text != no) return Refuse(name, text, fmt::format("is neither {} nor {}", no, yes));
  *value = text == yes;
}

void Environment::Refuse(std::string_view name, std::string_view text, std::string_view what) {
  if (wrong_.empty()) wrong_ = fmt::format("{}={} {}", name, text, what);
}

}  // namespace epic
