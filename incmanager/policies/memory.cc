#include "incmanager/policies/memory.h"

#include <fmt/format.h>

#include <array>

namespace epic::manager {
namespace {

// engine::Arena::kAlignment, which is MessageRing::kAlignment as well.
constexpr uint64_t kPiece = 64;
// sizeof(engine::Slot).
constexpr uint64_t kSlotBytes = 24;

struct Unit {
  const char* name;
  double bytes;
};
constexpr std::array kUnits = {Unit{"MiB", 1 << 20}, Unit{"KiB", 1 << 10}};

std::string In(const Unit& unit, uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / unit.bytes);
}

// Slots with a payload each.
uint64_t PipeBytes(uint64_t slots, uint64_t payload) {
  return RoundUpToArena(slots * kSlotBytes) + RoundUpToArena(slots * payload);
}

// For the sum of a packet while it is built: 16-bit elements are summed in 32 bits.
uint64_t SumMtus(const ContextShape& shape) { return shape.narrow ? 1 : 2; }

uint64_t UpPipeBytes(const ContextShape& shape) {
  const uint64_t contributions = shape.reproducible ? shape.children : 0;
  return PipeBytes(shape.slots, (SumMtus(shape) + contributions) * shape.path_mtu);
}

// A ring of messages for each endpoint, and that of the sums.
uint64_t RingsBytes(const ContextShape& shape) {
  const uint64_t message = RoundUpToArena(uint64_t{shape.message_packets} * shape.path_mtu);
  const uint64_t endpoints = shape.children + (shape.has_parent ? 1 : 0);
  const uint64_t received = (uint64_t{shape.window_messages} + 2) * message;
  const uint64_t sums = (uint64_t{shape.window_messages} + 2 * SumMtus(shape)) * message;
  return endpoints * received + sums;
}

}  // namespace

uint64_t RoundUpToArena(uint64_t bytes) { return (bytes + kPiece - 1) / kPiece * kPiece; }

uint64_t ContextBytes(const ContextShape& shape) {
  switch (shape.mode) {
    case Mode::kTerminated:
      return RingsBytes(shape);
    case Mode::kTranslated:
    case Mode::kSpliced:
      return UpPipeBytes(shape);
    case Mode::kAugmented:
      return UpPipeBytes(shape) + PipeBytes(shape.slots, shape.path_mtu);
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
