#include "incmanager/policies/modes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string_view>
#include <vector>

namespace epic::manager {
namespace {

// Row n - 1 is mode n: numbers are bits of a set.
static_assert(kModes.size() < 64);

// "I and III".
std::string NumeralsOf(Reliability reliability) {
  std::vector<std::string_view> numerals;
  for (const ModeInfo& row : kModes) {
    if (row.reliability == reliability) numerals.push_back(row.numeral);
  }
  return fmt::format("{}", fmt::join(numerals, " and "));
}

}  // namespace

void ModeSet::Add(Mode mode) {
  if (IsMode(mode)) bits_ |= uint64_t{1} << NumberOf(mode);
}

bool ModeSet::Contains(Mode mode) const { return IsMode(mode) && (bits_ >> NumberOf(mode) & 1) != 0; }

std::string CannotMix(Mode one, Mode other) {
  if (one == other || MayMix(one, other)) return "";
  for (const Mode mode : {one, other}) {
    if (!IsMode(mode)) return fmt::format("{} is no mode", NumberOf(mode));
  }
  const bool first_reflects = FindMode(one)->reliability == Reliability::kEndToEnd;
  const std::string_view reflects = NumeralOf(first_reflects ? one : other);
  const std::string_view hop_by_hop = NumeralOf(first_reflects ? other : one);
  return fmt::format(
      "modes {} and {} cannot share a tree: a switch of mode {} only reflects acknowledgements between "
      "hosts, "
      "so that it never acknowledges what its neighbour of mode {} sends; mix {} only, or {} only",
      reflects, hop_by_hop, reflects, hop_by_hop, NumeralsOf(Reliability::kPerHop),
      NumeralsOf(Reliability::kEndToEnd));
}

PaperBuffer BufferOfPaper(const BufferRequest& request) {
  const ModeInfo* const row = FindMode(request.mode);
  if (row == nullptr) return {0, "none"};
  const BufferFormula& formula = request.reproducible ? row->reproducible_buffer : row->buffer;
  const double bytes_per_us = request.rate_gbps * 1e9 / 8 * 1e-6;
  const double length = bytes_per_us * (formula.whole_path ? request.path_us : request.hop_us);
  const double edges = formula.per_edge ? request.children + 1.0 : 1.0;
  return {static_cast<uint64_t>(std::ceil(formula.windows * length * edges)), std::string(formula.text)};
}

}  // namespace epic::manager
