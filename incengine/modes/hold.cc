#include "incengine/modes/hold.h"

#include <algorithm>

#include "incengine/modes/table.h"
#include "incengine/modules/buffer.h"

namespace epic::engine {
namespace {

GroupConfig AsInstalled(const Context& ctx) {
  GroupConfig config = ctx.config;
  config.window_messages = ctx.hold.most_window;
  config.slots = ctx.hold.most_slots;
  return config;
}

// The memory is the group's, with new slots: it has nothing in it that anybody needs.
void Take(Context& ctx, const Room& room, Env& env) {
  ctx.hold.has_memory = true;
  ctx.arena_offset = env.block->offset;
  ctx.config.window_messages = room.window_messages;
  ctx.config.slots = room.slots;
  MakeSlots(ctx.config, env.arena.At(env.block->offset, env.block->bytes));
  env.block->holder = ctx.config.group_id;
}

}  // namespace

Room RoomIn(const GroupConfig& config, size_t bytes) {
  GroupConfig smaller = config;
  for (; smaller.slots >= 2 * config.message_packets; smaller.slots /= 2) {
    if (ArenaBytes(smaller) > bytes) continue;
    const uint32_t window = smaller.slots / (2 * config.message_packets);
    return {.window_messages = std::min(window, config.window_messages), .slots = smaller.slots};
  }
  return {};
}

void Ask(Context& ctx, const Endpoint& child, Env& env) {
  ControlSlot& slot = ControlSlotOf(ctx, child.in.next_invocation() - 1);
  if (!IsRequest(slot.header) || slot.arrived != ctx.all_children() ||
      slot.header.status != ControlStatus::kOk || ctx.state != GroupState::kRunning) {
    return;
  }
  uint32_t window = ctx.hold.most_window;
  if (env.block != nullptr) {
    const Room room = RoomIn(AsInstalled(ctx), env.block->bytes);
    const bool others = env.block->holder && *env.block->holder != ctx.config.group_id;
    if (others || room.window_messages == 0) {
      slot.header.status = ControlStatus::kBusy;
      return;
    }
    if (!ctx.hold.has_memory) Take(ctx, room, env);
    window = room.window_messages;
  }
  ctx.hold.asking = true;
  slot.header.window = std::min(slot.header.window, window);
}

bool MayDecide(Context& ctx, const ControlHeader& reply) {
  if (!IsRequest(reply) || reply.status != ControlStatus::kOk) return true;
  if (!ctx.hold.asking) return false;
  const ControlHeader& asked = ControlSlotOf(ctx, static_cast<int64_t>(reply.invocation)).header;
  return reply.window > 0 && reply.window <= asked.window;
}

void Decide(Context& ctx, const ControlHeader& reply) {
  if (IsFatal(reply.status)) ctx.state = GroupState::kFailed;
  if (!IsRequest(reply)) return;
  ctx.hold.asking = false;
  if (reply.status == ControlStatus::kBusy) ++ctx.counters.busy;
  if (reply.status != ControlStatus::kOk) return;
  ++ctx.counters.grants;
  ctx.config.window_messages = std::min(ctx.hold.most_window, reply.window);
  ctx.hold.granted_end = static_cast<int64_t>(reply.invocation) + 2 + SlicesLeft(reply);
}

void Free(Context& ctx, Block& block) {
  if (block.holder != ctx.config.group_id) return;
  block.holder.reset();
  ctx.hold.has_memory = false;
  ctx.hold.asking = false;
  ctx.hold.granted_end = 0;
}

bool FreeWhenDrained(Context& ctx, Block& block, Index needed) {
  if (!ctx.hold.has_memory) return false;
  if (ctx.state == GroupState::kRunning) {
    if (ctx.hold.asking) return false;
    // What has been granted has begun, all of it, and is over. (The oldest invocation that is kept is no
    // later than the last that was granted, or everything granted has long been over.)
    const Invocation& last = ctx.invocations.back();
    if (last.number + 1 < ctx.hold.granted_end) return false;
    const int64_t behind = ctx.hold.granted_end - ctx.invocations.front().number;
    if (behind > 0 && needed < ctx.invocations[static_cast<size_t>(behind - 1)].end()) return false;
  }
  Free(ctx, block);
  return true;
}

}  // namespace epic::engine
