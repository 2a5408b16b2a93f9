#include "incengine/modules/buffer.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "protocol/context_memory.h"
#include "reduce/reduce.h"

namespace epic::engine {

Slot& SlotOf(const Context& ctx, Index index, Arena& arena) {
  const size_t n = ctx.config.slots;
  const size_t at = static_cast<size_t>(index) & (n - 1);
  const auto bytes = arena.At(ctx.arena_offset, n * sizeof(Slot));
  // The arena aligns regions to cache lines, and Install constructed the slots there.
  return *reinterpret_cast<Slot*>(bytes.data() + at * sizeof(Slot));
}

std::span<uint8_t> BufferOf(const Context& ctx, uint32_t buffer, size_t bytes, Arena& arena) {
  const PooledState& pooled = *ctx.pooled;
  if (buffer == kOwnBuffer) {
    EPIC_CHECK(bytes <= OwnBufferBytes(ctx.config.path_mtu));
    return arena.At(ctx.arena_offset + pooled.own_at, bytes);
  }
  EPIC_CHECK(buffer != kNoBuffer && bytes <= pooled.buffer_bytes);
  return arena.At(pooled.pool_at + size_t{buffer} * pooled.buffer_bytes, bytes);
}

void GiveBack(Context& ctx, uint32_t buffer, Env& env) {
  if (buffer == kOwnBuffer) {
    ctx.pooled->own_taken = false;
  } else {
    env.pool->Free(buffer);
  }
}

std::span<uint8_t> PayloadOf(const Context& ctx, Index index, size_t bytes, Arena& arena) {
  if (ctx.pooled) return BufferOf(ctx, SlotOf(ctx, index, arena).buffer, bytes, arena);
  const size_t n = ctx.config.slots;
  const size_t at = static_cast<size_t>(index) & (n - 1);
  EPIC_CHECK(bytes <= AccumulatorRoom(ctx.config));
  return arena.At(ctx.arena_offset + SlotsBytes(n) + at * SlotPayloadBytes(ctx.config), bytes);
}

namespace {

// Where a reproducible group keeps a child's contribution: behind the slot's accumulator.
std::span<uint8_t> ContributionOf(const Context& ctx, Index index, size_t child, size_t bytes, Arena& arena) {
  uint8_t* payload = PayloadOf(ctx, index, 0, arena).data();
  return {payload + AccumulatorRoom(ctx.config) + child * ctx.config.path_mtu, bytes};
}

}  // namespace

ControlSlot& ControlSlotOf(Context& ctx, int64_t invocation) {
  return ctx.control[static_cast<size_t>(invocation % kKeptInvocations)];
}

bool RecycleBuffer(Slot& slot, Index index) {
  EPIC_CHECK(slot.index <= index);
  if (slot.index == index) return false;
  slot = Slot{.index = index};
  return true;
}

bool LiesInSlot(const Context& ctx, const Position& position) {
  if (!position.header()) return true;
  const int64_t number = position.invocation->number;
  const ControlSlot& slot = ctx.control[static_cast<size_t>(number % kKeptInvocations)];
  return position.invocation->layout.inlined_bytes > 0 && slot.header.status == ControlStatus::kOk;
}

size_t SumBytes(const Context& ctx, const Position& position) {
  const ControlHeader& header = position.invocation->header;
  const size_t bytes = BytesAt(ctx, position) - (position.control ? HeaderBytesIn(position.at) : 0);
  return Reduces(header.collective) ? AccumulatorBytes(header.op, header.type, bytes) : bytes;
}

bool CheckDuplicate(const Slot& slot, size_t child) { return (slot.arrived >> child & 1) != 0; }

void AggregateData(Context& ctx, Slot& slot, size_t child, const Position& position, bool ack_req,
                   std::span<const uint8_t> payload, Arena& arena) {
  const ControlHeader& header = position.invocation->header;
  const bool reduces = Reduces(header.collective);
  const size_t before = position.control ? HeaderBytesIn(position.at) : 0;
  const auto data = payload.subspan(before);
  const size_t bytes = data.size();
  const size_t sum_bytes = reduces ? AccumulatorBytes(header.op, header.type, bytes) : bytes;
  const auto at = PayloadOf(ctx, slot.index, before + sum_bytes, arena);
  const auto sum = at.subspan(before);
  const bool first = !slot.loaded;
  slot.loaded = true;
  if (first) std::memcpy(at.data(), payload.data(), before);
  slot.arrived |= uint64_t{1} << child;
  slot.ack_req |= ack_req;
  ctx.counters.aggregated_packets += position.header() ? 0 : 1;  // a header's is counted as it is merged
  if (!reduces) {
    first ? static_cast<void>(std::memcpy(sum.data(), data.data(), bytes)) : Merge(sum, data);
    return;
  }
  const bool last = slot.arrived == ctx.all_children();
  if (!ctx.config.reproducible) {
    first ? Load(header.op, header.type, sum, data) : Accumulate(header.op, header.type, sum, data);
  } else {
    std::memcpy(ContributionOf(ctx, slot.index, child, bytes, arena).data(), data.data(), bytes);
    if (!last) return;
    Load(header.op, header.type, sum, ContributionOf(ctx, slot.index, 0, bytes, arena));
    for (size_t c = 1; c < ctx.children.size(); ++c) {
      Accumulate(header.op, header.type, sum, ContributionOf(ctx, slot.index, c, bytes, arena));
    }
  }
  if (last && !slot.split) Store(header.op, header.type, sum, sum.first(bytes));
}

namespace {

// The lowest rank of those whose headers have come, which has the reference.
uint32_t LowestArrived(const Context& ctx, const ControlSlot& slot) {
  uint32_t lowest = UINT32_MAX;
  for (size_t child = 0; child < ctx.config.children.size(); ++child) {
    if ((slot.arrived >> child & 1) != 0) lowest = std::min(lowest, ctx.config.children[child].ranks.front());
  }
  return lowest;
}

// Of two of whom neither is refused for another reason: who differs from the lowest rank's header. False:
// nobody does.
bool MergeMismatch(const Context& ctx, ControlSlot& slot, size_t child, const ControlHeader& header) {
  const ControlField difference = FirstDifference(slot.header, header);
  const ControlHeader before = slot.header;
  const bool differs = difference != ControlField::kNone && slot.arrived != 0;
  const uint32_t own = ctx.config.children[child].ranks.front();
  if (!differs && !IsFatal(before.status) && !IsFatal(header.status)) return false;
  const uint32_t lowest = LowestArrived(ctx, slot);
  if (differs && own < lowest) slot.header = header;
  slot.header.status = ControlStatus::kMismatch;
  slot.header.culprit = UINT32_MAX;
  const auto consider = [&slot](uint32_t culprit, ControlField field) {
    if (culprit >= slot.header.culprit) return;
    slot.header.culprit = culprit;
    slot.header.field = field;
  };
  if (differs) consider(std::max(own, lowest), difference);
  // Who differs from the other of the two may be as the reference is.
  if (IsFatal(before.status) && (!differs || lowest < own)) consider(before.culprit, before.field);
  if (IsFatal(header.status) && (!differs || own < lowest)) consider(header.culprit, header.field);
  return true;
}

}  // namespace

void MergeControl(Context& ctx, ControlSlot& slot, size_t child, const ControlHeader& header, bool ack_req) {
  const auto refused = [](ControlStatus status) {
    return IsFatal(status) && status != ControlStatus::kMismatch;
  };
  if (!refused(slot.header.status)) {
    if (refused(header.status)) {
      slot.header.status = header.status;
      slot.header.field = header.field;
      slot.header.culprit = header.culprit;
    } else if (!MergeMismatch(ctx, slot, child, header)) {
      if (header.status == ControlStatus::kBusy) slot.header.status = ControlStatus::kBusy;
      slot.header.window = std::min(slot.header.window, header.window);
    }
  }
  slot.arrived |= uint64_t{1} << child;
  slot.ack_req |= ack_req;
  ++ctx.counters.aggregated_packets;
}

}  // namespace epic::engine
