#include "incengine/modes/translated_state.h"

#include <algorithm>
#include <array>

#include "incengine/modules/buffer.h"
#include "incengine/modules/position.h"
#include "incengine/modules/transmit.h"
#include "roce/rnr_timer.h"

namespace epic::engine::translated {

bool IsBehind(const Context& ctx, const Endpoint& child) {
  if (child.config.is_host && child.last_down_acked + 1 < ctx.results_end) return true;
  return ctx.state == GroupState::kRunning && child.up_epsn < ctx.max_up_epsn;
}

void OnChildProgress(Context& ctx, Endpoint& child, Env& env) {
  child.prompt_backoff = 0;
  child.rnr_backoff = 0;
  child.rnr_allowed_at = env.now;
  child.prompt_at = IsBehind(ctx, child) ? env.now + ctx.config.prompt_ns : kNever;
  ArmTimer(ctx, child.prompt_at, env);
}

void WatchChildren(Context& ctx, Env& env) {
  for (Endpoint& child : ctx.children) {
    if (child.prompt_at != kNever || !IsBehind(ctx, child)) continue;
    child.prompt_backoff = 0;
    child.prompt_at = env.now + ctx.config.prompt_ns;
    ArmTimer(ctx, child.prompt_at, env);
  }
}

void Prompt(Endpoint& child, Env& env) {
  ++child.counters.prompts;
  if (child.config.is_host) {
    SendRnrNak(child, child.last_down_acked + 1, kPromptCode, env);
  } else {
    SendNak(child, child.up_epsn, env);
  }
}

void HandDown(Context& ctx, Index index, Env& env) {
  for (Endpoint& child : ctx.children) {
    if (child.up_epsn <= index) Prompt(child, env);
  }
}

void PublishResult(Context& ctx, Index index, std::span<const uint8_t> payload, bool ack_req, Env& env) {
  ctx.results_end = index + 1;
  ++ctx.counters.results;
  ctx.uplink_backoff = 0;
  ctx.uplink_at = ctx.results_end < ctx.up_sent ? env.now + ctx.config.prompt_ns : kNever;
  ReplicateData(ctx, index, payload, ack_req, env);
  WatchChildren(ctx, env);
}

bool SendHeld(Context& ctx, Endpoint& to, Index index, bool ack_req, Env& env) {
  const auto position = Locate(ctx, index);
  if (!position) return false;
  if (position->control) {
    const ControlSlot& slot = ControlSlotOf(ctx, position->invocation->number);
    if (slot.invocation != position->invocation->number || slot.arrived != ctx.all_children()) return false;
    std::array<uint8_t, kControlBytes> bytes;
    Encode(slot.header, bytes);
    SendData(ctx, to, index, bytes, ack_req || slot.ack_req, env);
    return true;
  }
  const Slot& slot = SlotOf(ctx, index, env.arena);
  if (slot.index != index || slot.arrived != ctx.all_children()) return false;
  SendData(ctx, to, index, PayloadOf(ctx, index, BytesAt(ctx, *position), env.arena), ack_req || slot.ack_req,
           env);
  return true;
}

void AskParent(Context& ctx, Index index, Env& env) {
  if (index >= ctx.asked_from && env.now - ctx.asked_at < ctx.config.prompt_ns / 4) return;
  ctx.asked_from = index;
  ctx.asked_at = env.now;
  ++ctx.counters.asks;
  SendNak(ctx.parent, index, env);
}

void AnswerRequest(Context& ctx, Endpoint& child, Index from, Index to, Env& env) {
  to = std::min(to, ctx.results_end);
  if (!ctx.is_root()) {
    // A child repeats a range packet by packet: a later packet must not withdraw what an earlier one asked
    // for.
    if (child.want.from < child.want.to) from = std::min(from, child.want.from);
    to = ctx.results_end;
  }
  if (child.config.is_host) from = std::max(from, child.last_down_acked + 1);
  from = std::max(from, to - ctx.config.slots);
  if (from >= to) return;
  if (!ctx.is_root()) {
    child.want = {.from = from, .to = to};
    AskParent(ctx, from, env);
    return;
  }
  for (Index i = from; i < to; ++i) {
    if (!SendHeld(ctx, child, i, /*ack_req=*/true, env)) {
      Drop(ctx, child, DropReason::kStaleSlot, env);
      continue;
    }
    ++ctx.counters.repeats;
    ++ctx.counters.replicated_packets;
  }
}

void TellToWait(Endpoint& host, Env& env) {
  if (env.now < host.rnr_allowed_at) return;
  const auto code =
      static_cast<uint8_t>(std::min<uint32_t>(kFirstWaitCode + 2 * host.rnr_backoff, kLastWaitCode));
  ++host.rnr_backoff;
  host.rnr_allowed_at = env.now + roce::RnrTimerNanos(code) / 2;
  SendRnrNak(host, host.last_down_acked + 1, code, env);
}

void RepeatUp(Context& ctx, Index from, Env& env) {
  for (Index i = from; i < ctx.up_sent; ++i) {
    if (!SendHeld(ctx, ctx.parent, i, /*ack_req=*/false, env)) {
      return Drop(ctx, ctx.parent, DropReason::kStaleSlot, env);
    }
    ++ctx.counters.repeats;
  }
}

}  // namespace epic::engine::translated
