#include "incengine/modules/buffer.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "incengine/reduce/reduce.h"

namespace epic::engine {

Slot& SlotOf(const Context& ctx, Index index, Arena& arena) {
  const size_t n = ctx.config.slots;
  const size_t at = static_cast<size_t>(index) & (n - 1);
  const auto bytes = arena.At(ctx.arena_offset, n * sizeof(Slot));
  // The arena aligns regions to cache lines, and Install constructed the slots there.
  return *reinterpret_cast<Slot*>(bytes.data() + at * sizeof(Slot));
}

std::span<uint8_t> PayloadOf(const Context& ctx, Index index, size_t bytes, Arena& arena) {
  const size_t n = ctx.config.slots;
  const size_t at = static_cast<size_t>(index) & (n - 1);
  EPIC_CHECK(bytes <= ctx.config.path_mtu);
  return arena.At(ctx.arena_offset + Arena::RoundUp(n * sizeof(Slot)) + at * ctx.config.path_mtu, bytes);
}

ControlSlot& ControlSlotOf(Context& ctx, int64_t invocation) {
  return ctx.control[static_cast<size_t>(invocation % kKeptInvocations)];
}

bool RecycleBuffer(Slot& slot, Index index) {
  EPIC_CHECK(slot.index <= index);
  if (slot.index == index) return false;
  slot = Slot{.index = index};
  return true;
}

bool CheckDuplicate(const Slot& slot, size_t child) { return (slot.arrived >> child & 1) != 0; }

void AggregateData(Context& ctx, Slot& slot, size_t child, const Invocation& invocation, bool ack_req,
                   std::span<const uint8_t> payload, Arena& arena) {
  const auto sum = PayloadOf(ctx, slot.index, payload.size(), arena);
  if (slot.arrived == 0) {
    std::memcpy(sum.data(), payload.data(), payload.size());
  } else {
    Accumulate(invocation.header.op, invocation.header.type, sum, payload);
  }
  slot.arrived |= uint64_t{1} << child;
  slot.ack_req |= ack_req;
  ++ctx.counters.aggregated_packets;
}

void MergeControl(Context& ctx, ControlSlot& slot, size_t child, const ControlHeader& header, bool ack_req) {
  const ControlField difference = FirstDifference(slot.header, header);
  if (slot.header.status == ControlStatus::kOk) {
    if (header.status != ControlStatus::kOk) {
      slot.header.status = header.status;
      slot.header.field = header.field;
      slot.header.culprit = header.culprit;
    } else if (difference != ControlField::kNone) {
      slot.header.status = ControlStatus::kMismatch;
      slot.header.field = difference;
      slot.header.culprit = ctx.config.children[child].ranks.front();
    }
  }
  slot.arrived |= uint64_t{1} << child;
  slot.ack_req |= ack_req;
  ++ctx.counters.aggregated_packets;
}

}  // namespace epic::engine
