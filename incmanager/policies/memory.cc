#include "incmanager/policies/memory.h"

#include <fmt/format.h>

#include <array>

namespace epic::manager {
namespace {

struct Unit {
  const char* name;
  double bytes;
};
constexpr std::array kUnits = {Unit{"MiB", 1 << 20}, Unit{"KiB", 1 << 10}};

std::string In(const Unit& unit, uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / unit.bytes);
}

}  // namespace

uint64_t ContextBytes(const ContextShape& shape) {
  switch (shape.mode) {
    case Mode::kTerminated:
      return RingsBytes(shape);
    case Mode::kTranslated:
    case Mode::kSpliced:
      return UpPipeBytes(shape);
    case Mode::kAugmented:
      return UpPipeBytes(shape) + PipeBytes(shape.slots, shape.path_mtu);
    case Mode::kPooled:
      return PooledBytes(shape);
    default:
      return 0;
  }
}

std::string MemoryWords(const std::string& switch_name, uint64_t needed, uint64_t free, uint64_t all) {
  for (const Unit& unit : kUnits) {
    if (static_cast<double>(all) < unit.bytes || In(unit, needed) == In(unit, free)) continue;
    return fmt::format("{} has {} of {} {} free, {} needed", switch_name, In(unit, free), In(unit, all),
                       unit.name, In(unit, needed));
  }
  return fmt::format("{} has {} of {} bytes free, {} needed", switch_name, free, all, needed);
}

std::string BytesWords(uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (static_cast<double>(bytes) >= unit.bytes) return fmt::format("{} {}", In(unit, bytes), unit.name);
  }
  return fmt::format("{} bytes", bytes);
}

}  // namespace epic::manager
