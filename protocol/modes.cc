#include "protocol/modes.h"

#include "base/number.h"

namespace epic {
namespace {

constexpr bool EveryRowIsInItsPlace() {
  for (size_t i = 0; i < kModes.size(); ++i) {
    if (NumberOf(kModes[i].mode) != static_cast<int>(i) + 1) return false;
    if (kModes[i].numeral.empty() || kModes[i].name.empty()) return false;
    if (kModes[i].reliability == Reliability::kUnspecified) return false;
    for (const BufferFormula& buffer : {kModes[i].buffer, kModes[i].reproducible_buffer}) {
      if (buffer.windows == 0 || buffer.text.empty()) return false;
      // The text and the factors that are reckoned with say the same.
      if (buffer.per_edge != (buffer.text.find("(D+1)") != buffer.text.npos)) return false;
      if (buffer.whole_path != (buffer.text.find("(H-1)") != buffer.text.npos)) return false;
    }
  }
  return true;
}
static_assert(EveryRowIsInItsPlace(), "row n - 1 is mode n, with its names, its reliability and its buffers");
static_assert(IsMode(kDefaultMode));

constexpr char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool SameLetters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, Lower, Lower);
}

}  // namespace

std::optional<Mode> ModeOfNumber(int64_t number) {
  if (number < 1 || number > static_cast<int64_t>(kModes.size())) return std::nullopt;
  const ModeInfo& row = kModes[static_cast<size_t>(number) - 1];
  return row.hidden ? std::nullopt : std::optional(row.mode);
}

std::optional<Mode> AnyModeNamed(std::string_view text) {
  int number = 0;
  const bool is_number = ReadNumber(text, &number);
  for (const ModeInfo& row : kModes) {
    const bool named = is_number ? NumberOf(row.mode) == number
                                 : SameLetters(text, row.numeral) || SameLetters(text, row.name);
    if (named) return row.mode;
  }
  return std::nullopt;
}

std::optional<Mode> ModeNamed(std::string_view text) {
  const auto mode = AnyModeNamed(text);
  return mode && FindMode(*mode)->hidden ? std::nullopt : mode;
}

std::string ModeChoice() {
  std::string out;
  for (const ModeInfo& row : kModes) {
    if (row.hidden) continue;
    if (!out.empty()) out += ", ";
    out += std::to_string(NumberOf(row.mode));
    out.append(" (").append(row.numeral).append(", ").append(row.name).append(")");
  }
  return out;
}

std::string ModeToNumber(std::string& text) {
  const auto mode = ModeNamed(text);
  if (!mode) return "'" + text + "' is not a mode: " + ModeChoice();
  text = std::to_string(NumberOf(*mode));
  return {};
}

std::string OwnMemoryModeToNumber(std::string& text) {
  const auto mode = ModeNamed(text);
  if (mode && IsInPool(*mode))
    return "'" + text + "' is a mode that needs a pool, which there is none of here";
  return ModeToNumber(text);
}

}  // namespace epic
