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

// Those that may share a tree with a mode, itself included: "I and III".
std::string MatesOf(Mode mode) {
  std::vector<std::string_view> numerals;
  for (const ModeInfo& row : kModes) {
    if (!row.hidden && MayMix(mode, row.mode)) numerals.push_back(row.numeral);
  }
  return fmt::format("{}", fmt::join(numerals, " and "));
}

const BufferFormula& FormulaOf(const ModeInfo& mode, const BufferRequest& request) {
  return request.reproducible ? mode.reproducible_buffer : mode.buffer;
}

double EdgesOf(const BufferFormula& formula, const BufferRequest& request) {
  return formula.per_edge ? request.children + 1.0 : 1.0;
}

double LengthOf(const BufferFormula& formula, const BufferRequest& request) {
  return formula.whole_path ? request.path_us : request.hop_us;
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
  if (IsInPool(one) != IsInPool(other)) {
    return fmt::format("modes {} and {} cannot share a tree: one switch sums for a group in mode {}",
                       NumeralOf(one), NumeralOf(other), NumeralOf(ModeInPool()));
  }
  if (FindMode(one)->reliability == FindMode(other)->reliability) {
    const Mode bears = FindMode(one)->bears_hosts ? one : other;
    return fmt::format(
        "modes {} and {} cannot share a tree: a switch of mode {} speaks to hosts under other hosts' "
        "addresses, and all switches of a group do so or none; mix {} only, or {} only",
        NumeralOf(one), NumeralOf(other), NumeralOf(bears), MatesOf(one), MatesOf(other));
  }
  const bool first_reflects = FindMode(one)->reliability == Reliability::kEndToEnd;
  const Mode reflecting = first_reflects ? one : other, per_hop = first_reflects ? other : one;
  const std::string_view reflects = NumeralOf(reflecting);
  const std::string_view hop_by_hop = NumeralOf(per_hop);
  return fmt::format(
      "modes {} and {} cannot share a tree: a switch of mode {} only reflects acknowledgements between "
      "hosts, "
      "so that it never acknowledges what its neighbour of mode {} sends; mix {} only, or {} only",
      reflects, hop_by_hop, reflects, hop_by_hop, MatesOf(per_hop), MatesOf(reflecting));
}

bool MayHaveBlocks(Mode mode) {
  const ModeInfo* const row = FindMode(mode);
  return row != nullptr && !row->ends_connections;
}

PaperBuffer BufferOfPaper(const BufferRequest& request) {
  const ModeInfo* const row = FindMode(request.mode);
  if (row == nullptr) return {0, "none"};
  const BufferFormula& formula = FormulaOf(*row, request);
  const double bytes_per_us = request.rate_gbps * 1e9 / 8 * 1e-6;
  const double length = bytes_per_us * LengthOf(formula, request);
  return {static_cast<uint64_t>(std::ceil(formula.windows * length * EdgesOf(formula, request))),
          std::string(formula.text)};
}

uint64_t RateOfBuffer(const BufferRequest& request, uint64_t bytes) {
  const ModeInfo* const row = FindMode(request.mode);
  if (row == nullptr) return UINT64_MAX;
  const BufferFormula& formula = FormulaOf(*row, request);
  const double us = formula.windows * LengthOf(formula, request) * EdgesOf(formula, request);
  if (us <= 0) return UINT64_MAX;
  constexpr double kKbps = 8e3;  // of a byte in each microsecond
  const double kbps = static_cast<double>(bytes) * kKbps / us;
  return kbps >= 0x1p63 ? UINT64_MAX : static_cast<uint64_t>(kbps);
}

}  // namespace epic::manager
