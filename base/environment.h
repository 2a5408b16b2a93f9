// Variables of the environment as a user writes them: one reading for every library that has some, and the
// same words for what is wrong with one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/number.h"

namespace epic {

// The value of an environment variable, null if it is not set. Whoever reads the process's environment brings
// it; tests bring their own.
using GetEnv = std::function<const char*(const char*)>;

// Reads variables. Each function leaves *value as it is where its variable is not set or is wrong; the first
// that is wrong is kept, and those that follow are read all the same.
class Environment {
 public:
  // What a variable is that is set to nothing.
  enum class Empty : uint8_t { kIsAValue, kIsUnset };
  static constexpr std::chrono::seconds kLongestTime{1'000'000'000};  // 31 years: a clock can be moved by it

  Environment(GetEnv get_env, Empty empty) : get_env_(std::move(get_env)), empty_(empty) {}

  // The variable's value, null if it is not set; the environment's own.
  const char* Get(const char* name) const;

  void Text(const char* name, std::string* value) const;
  // A number, by ReadNumber, of at least `least`. what: what is said of another text, "is not a number".
  template <typename Value>
  void Number(const char* name, std::type_identity_t<Value> least, std::string_view what, Value* value) {
    const char* const text = Get(name);
    Value read{};
    if (text == nullptr) return;
    if (!ReadNumber(text, &read) || read < least) return Refuse(name, text, what);
    *value = read;
  }
  // A time in seconds, as strtod reads it, above 0 and up to kLongestTime; the least is a millisecond.
  void Seconds(const char* name, std::chrono::milliseconds* value);
  // Which of these words it is, by index; nothing if it is not set or wrong.
  std::optional<size_t> Choice(const char* name, std::span<const std::string_view> words);
  // Two words, of which the second is true.
  void Switch(const char* name, std::string_view no, std::string_view yes, bool* value);

  // For what the caller reads by itself: `what` is wrong with this variable's value, `text`.
  void Refuse(std::string_view name, std::string_view text, std::string_view what);

  // "EPIC_TIMEOUT=soon is not a time in seconds above 0 and up to 1000000000": of the first that was wrong;
  // empty if none was.
  const std::string& wrong() const { return wrong_; }

 private:
  GetEnv get_env_;
  Empty empty_;
  std::string wrong_;
};

}  // namespace epic
