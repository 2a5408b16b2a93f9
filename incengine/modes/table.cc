#include "incengine/modes/table.h"

#include <algorithm>
#include <new>

#include "base/check.h"

namespace epic::engine {
namespace {

void AddQueuePairs(Context& ctx, Ipv4 address, const Pool* /*pool*/) {
  ctx.terminated = MakeTerminatedState(ctx.config, address);
}

void AddLeg(Context& ctx, Ipv4 address, const Pool* pool) {
  ctx.pooled = MakePooledState(ctx.config, address, *pool);
}

}  // namespace

constexpr std::array<ModeRow, kModes.size()> kModeRows = {{
    {.mode = Mode::kTerminated, .logic = TerminatedMode, .add_state = AddQueuePairs},
    {.mode = Mode::kTranslated, .logic = TranslatedMode},
    {.mode = Mode::kAugmented, .logic = AugmentedMode},
    {.mode = Mode::kSpliced, .logic = TranslatedMode},
    {.mode = Mode::kPooled, .logic = PooledMode, .add_state = AddLeg},
    {.mode = Mode::kInitiated, .logic = TerminatedMode, .add_state = AddQueuePairs},
}};

static_assert(std::ranges::equal(kModeRows, kModes, {}, &ModeRow::mode, &ModeInfo::mode),
              "each mode of protocol/modes.h has its row, in its place");
static_assert(std::ranges::all_of(kModeRows, [](const ModeRow& row) { return row.logic != nullptr; }));

const ModeRow& RowOf(const GroupConfig& config) {
  const ModeRow* const row = FindRow(config.mode);
  EPIC_CHECK(row != nullptr);
  return *row;
}

void MakeSlots(const GroupConfig& config, std::span<uint8_t> region) {
  const ContextMemory memory = MemoryOf(config);
  for (const Pipe& pipe : memory.pipes()) {
    for (size_t i = 0; i < config.slots; ++i) new (&region[pipe.at + i * sizeof(Slot)]) Slot();
  }
}

}  // namespace epic::engine
