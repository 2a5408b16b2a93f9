#include "incengine/modules/pipe.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "incengine/modules/buffer.h"
#include "incengine/modules/progress.h"
#include "incengine/modules/transmit.h"
#include "protocol/context_memory.h"

namespace epic::engine {
namespace {

// The down pipe lies behind the up pipe: its slots, then one MTU for each.
std::span<uint8_t> DownPayloadOf(const Context& ctx, Index index, size_t bytes, Arena& arena) {
  if (ctx.pooled) return BufferOf(ctx, DownSlotOf(ctx, index, arena).buffer, bytes, arena);
  const size_t n = ctx.config.slots;
  const size_t at = static_cast<size_t>(index) & (n - 1);
  return arena.At(ctx.arena_offset + UpPipeBytes(ctx.config) + SlotsBytes(n) + at * ctx.config.path_mtu,
                  bytes);
}

std::span<const uint8_t> DownPayload(Context& ctx, Index index, const Position& position,
                                     std::array<uint8_t, kControlBytes>& bytes, Env& env) {
  if (!LiesInSlot(ctx, position)) return HeldPayload(ctx, index, position, bytes, env);
  return DownPayloadOf(ctx, index, BytesAt(ctx, position), env.arena);
}

bool HoldsDown(Context& ctx, Index index, const Position& position, Env& env) {
  if (!LiesInSlot(ctx, position)) return IsComplete(ctx, index, position, env);
  return ctx.hold.has_memory && DownSlotOf(ctx, index, env.arena).index == index;
}

bool DownAckReq(Context& ctx, Index index, const Position& position, Env& env) {
  return position.header() ? HeldAckReq(ctx, index, position, env)
                           : DownSlotOf(ctx, index, env.arena).ack_req;
}

// In a pool: the payload stays where it is. What the slot has held has been acknowledged, all of it.
void MoveDown(Context& ctx, Index index, bool ack_req, Env& env) {
  Slot& up = SlotOf(ctx, index, env.arena);
  Slot& down = DownSlotOf(ctx, index, env.arena);
  if (down.buffer != kNoBuffer) GiveBack(ctx, down.buffer, env);
  down = Slot{.index = index, .ack_req = ack_req, .buffer = std::exchange(up.buffer, kNoBuffer)};
}

}  // namespace

Slot& DownSlotOf(const Context& ctx, Index index, Arena& arena) {
  const size_t n = ctx.config.slots;
  const size_t at = static_cast<size_t>(index) & (n - 1);
  const auto bytes = arena.At(ctx.arena_offset + UpPipeBytes(ctx.config), n * sizeof(Slot));
  return *reinterpret_cast<Slot*>(bytes.data() + at * sizeof(Slot));
}

Index UpPipeStart(const Context& ctx) {
  return ctx.is_root() ? ctx.results_end : ctx.parent.out.Next(ctx.up_acked_end);
}

Index DownPipeStart(const Context& ctx) {
  Index start = ResultDue(ctx);
  for (const Endpoint& child : ctx.children)
    start = std::min(start, child.out.Next(child.progress.down_acked_end));
  return start;
}

Index MayTellChildren(const Context& ctx) {
  return UpPipeStart(ctx) + static_cast<Index>(ctx.config.slots) - Window(ctx);
}

Index MayTellParent(const Context& ctx) { return DownPipeStart(ctx); }

bool MaySendUp(const Context& ctx, Index index) { return index < UpPipeStart(ctx) + Window(ctx); }

// Of mutual indices hosts themselves keep the window, by what has really reached them.
bool MayPublish(const Context& ctx, Index index, const Position& position) {
  return index <
         DownPipeStart(ctx) + (IsTracked(position) ? Window(ctx) : static_cast<Index>(ctx.config.slots));
}

void StoreDown(Context& ctx, Index index, const Position& position, bool ack_req,
               std::span<const uint8_t> payload, Env& env) {
  if (position.header()) {
    ControlSlot& slot = ControlSlotOf(ctx, position.invocation->number);
    if (const auto reply = HeaderOf(payload)) slot.header = *reply;
    slot.ack_req |= ack_req;
    if (!LiesInSlot(ctx, position)) return;
  }
  if (ctx.pooled) return MoveDown(ctx, index, ack_req, env);
  DownSlotOf(ctx, index, env.arena) = Slot{.index = index, .ack_req = ack_req};
  std::memcpy(DownPayloadOf(ctx, index, payload.size(), env.arena).data(), payload.data(), payload.size());
}

bool SendDown(Context& ctx, Endpoint& child, Index index, bool ack_req, Env& env) {
  const auto position = Locate(ctx, index);
  if (!position || !HoldsDown(ctx, index, *position, env)) return false;
  std::array<uint8_t, kControlBytes> bytes;
  const auto payload = DownPayload(ctx, index, *position, bytes, env);
  SendData(ctx, child, index, payload, ack_req || DownAckReq(ctx, index, *position, env), env);
  return true;
}

void ReplicateDown(Context& ctx, uint64_t outs, Index index, bool ack_req, Env& env) {
  const auto position = Locate(ctx, index);
  std::array<uint8_t, kControlBytes> bytes;
  const auto payload = DownPayload(ctx, index, *position, bytes, env);
  ReplicateData(ctx, outs, index, payload, ack_req || DownAckReq(ctx, index, *position, env), env);
}

}  // namespace epic::engine
