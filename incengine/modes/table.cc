#include "incengine/modes/table.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "protocol/context_memory.h"

namespace epic::engine {
namespace {

// Rings of messages, which the queue pairs' state lays out.
Memory RingsOfMessages(const GroupConfig& config) { return Memory(TerminatedArenaBytes(config)); }

void AddQueuePairs(Context& ctx, Ipv4 address, const Pool* /*pool*/) {
  ctx.terminated = MakeTerminatedState(ctx.config, address);
}

// Partial sums; at the root, results.
Memory UpPipe(const GroupConfig& config) { return Memory(config, std::array{SlotPayloadBytes(config)}); }

// And behind them results on their way down, as they are on the wire.
Memory UpAndDownPipe(const GroupConfig& config) {
  return Memory(config, std::array{SlotPayloadBytes(config), size_t{config.path_mtu}});
}

// Two rings of slots whose payloads lie in the pool, and the buffer of the group's own.
Memory SlotsAndBuffer(const GroupConfig& config) {
  return Memory(config, std::array<size_t, 2>{0, 0}, OwnBufferBytes(config));
}

void AddLeg(Context& ctx, Ipv4 address, const Pool* pool) {
  ctx.pooled = MakePooledState(ctx.config, address, *pool);
}

}  // namespace

constexpr std::array<ModeRow, kModes.size()> kModeRows = {{
    {.mode = Mode::kTerminated,
     .logic = TerminatedMode,
     .memory = RingsOfMessages,
     .add_state = AddQueuePairs},
    {.mode = Mode::kTranslated, .logic = TranslatedMode, .memory = UpPipe},
    {.mode = Mode::kAugmented, .logic = AugmentedMode, .memory = UpAndDownPipe},
    {.mode = Mode::kSpliced, .logic = TranslatedMode, .memory = UpPipe},
    {.mode = Mode::kPooled, .logic = PooledMode, .memory = SlotsAndBuffer, .add_state = AddLeg},
}};

static_assert(std::ranges::equal(kModeRows, kModes, {}, &ModeRow::mode, &ModeInfo::mode),
              "each mode of protocol/modes.h has its row, in its place");
static_assert(std::ranges::all_of(kModeRows, [](const ModeRow& row) { return row.logic && row.memory; }));

size_t Pipe::payloads(const GroupConfig& config) const { return at + SlotsBytes(config.slots); }

Memory::Memory(const GroupConfig& config, std::span<const size_t> payload_bytes, size_t behind) {
  EPIC_CHECK(payload_bytes.size() <= kMostPipes);
  for (const size_t bytes : payload_bytes) {
    Pipe& pipe = pipes_[count_++];
    pipe = {.at = bytes_, .payload_bytes = bytes};
    bytes_ += PipeBytes(config.slots, bytes);
  }
  bytes_ += RoundUpToArena(behind);
}

const ModeRow& RowOf(const GroupConfig& config) {
  const ModeRow* const row = FindRow(config.mode);
  EPIC_CHECK(row != nullptr);
  return *row;
}

Memory MemoryOf(const GroupConfig& config) { return RowOf(config).memory(config); }

void MakeSlots(const GroupConfig& config, std::span<uint8_t> region) {
  const Memory memory = MemoryOf(config);
  for (const Pipe& pipe : memory.pipes()) {
    for (size_t i = 0; i < config.slots; ++i) new (&region[pipe.at + i * sizeof(Slot)]) Slot();
  }
}

}  // namespace epic::engine
