#include "incmanager/cli/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "protocol/modes.h"

namespace epic::manager {

std::string Table(const std::vector<std::vector<std::string>>& rows, const std::string& indent) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    out += indent;
    for (size_t i = 0; i + 1 < row.size(); ++i) out += fmt::format("{:<{}}  ", row[i], widths[i]);
    out += row.back() + "\n";
  }
  return out;
}

std::string ModeName(proto::Mode number) {
  const auto mode = ModeOfNumber(number);
  if (!mode) return "-";
  const ModeInfo& row = *FindMode(*mode);
  return fmt::format("{} ({})", row.numeral, row.name);
}

std::string Ip(uint32_t raw) {
  return fmt::format("{}.{}.{}.{}", raw >> 24, raw >> 16 & 255, raw >> 8 & 255, raw & 255);
}

std::string MacText(const std::string& bytes) {
  std::vector<std::string> parts;
  for (const char byte : bytes) parts.push_back(fmt::format("{:02x}", static_cast<uint8_t>(byte)));
  return fmt::format("{}", fmt::join(parts, ":"));
}

}  // namespace epic::manager
