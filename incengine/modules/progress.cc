#include "incengine/modules/progress.h"

#include "incengine/modules/buffer.h"
#include "incengine/modules/transmit.h"

namespace epic::engine {

Index Window(const Context& ctx) {
  return static_cast<Index>(ctx.config.message_packets) * ctx.config.window_messages;
}

Index ResultDue(const Context& ctx) {
  return ctx.is_root() ? ctx.results_end : ctx.parent.in.Next(ctx.results_end);
}

Index UpDue(const Context& ctx) { return ctx.parent.out.Next(ctx.up_sent); }

bool IsComplete(Context& ctx, Index index, const Position& position, Env& env) {
  if (position.header()) {
    const ControlSlot& slot = ControlSlotOf(ctx, position.invocation->number);
    if (slot.invocation != position.invocation->number || slot.arrived != ctx.all_children()) return false;
    if (!LiesInSlot(ctx, position)) return true;
  }
  if (!ctx.hold.has_memory) return false;
  const Slot& slot = SlotOf(ctx, index, env.arena);
  return slot.index == index && slot.arrived == FanIn(ctx, position) && !slot.split;
}

std::span<const uint8_t> HeldPayload(Context& ctx, Index index, const Position& position,
                                     std::array<uint8_t, kControlBytes>& bytes, Env& env) {
  if (LiesInSlot(ctx, position)) return PayloadOf(ctx, index, BytesAt(ctx, position), env.arena);
  Encode(ControlSlotOf(ctx, position.invocation->number).header, bytes);
  return bytes;
}

bool HeldAckReq(Context& ctx, Index index, const Position& position, Env& env) {
  return position.header() ? ControlSlotOf(ctx, position.invocation->number).ack_req
                           : SlotOf(ctx, index, env.arena).ack_req;
}

bool SendHeld(Context& ctx, Endpoint& to, Index index, bool ack_req, Env& env) {
  const auto position = Locate(ctx, index);
  if (!position || !IsComplete(ctx, index, *position, env)) return false;
  std::array<uint8_t, kControlBytes> bytes;
  const auto payload = HeldPayload(ctx, index, *position, bytes, env);
  SendData(ctx, to, index, payload, ack_req || HeldAckReq(ctx, index, *position, env), env);
  return true;
}

}  // namespace epic::engine
