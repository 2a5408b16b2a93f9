// The bounds of a number on a command line. CLI11's own check says "not in range 1 to 256", and not of what.
#pragma once

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>

namespace epic {

// A check of an option whose number is from `least` to `most`, both included. `meaning` is what the number
// counts, and its unit if the option's name has none: "300 is not from 1 to 256 (calls outstanding at a
// time)".
template <typename T>
CLI::Validator InRange(T least, T most, const std::string& meaning) {
  const CLI::Range range(least, most);
  std::ostringstream refusal;
  refusal << " is not from " << least << " to " << most << " (" << meaning << ")";
  return {[range, refused = refusal.str()](std::string& text) {
            return range(text).empty() ? std::string() : text + refused;
          },
          range.get_description()};
}

}  // namespace epic
