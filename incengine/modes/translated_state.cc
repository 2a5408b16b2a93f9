#include "incengine/modes/translated_state.h"

#include <algorithm>

#include "incengine/modules/progress.h"
#include "incengine/modules/prompt.h"
#include "incengine/modules/transmit.h"

namespace epic::engine::translated {
namespace {

bool IsBehind(const Context& ctx, Endpoint& child) {
  return OwesData(ctx, child) || FirstUnacknowledged(ctx, child) < ctx.results_end;
}

}  // namespace

void OnChildProgress(Context& ctx, Endpoint& child, Env& env) {
  child.progress.prompt_backoff = 0;
  child.repair.rnr_backoff = 0;
  child.repair.rnr_allowed_at = env.now;
  child.progress.prompt_at = IsBehind(ctx, child) ? env.now + ctx.config.prompt_ns : kNever;
  ArmTimer(ctx, child.progress.prompt_at, env);
}

void Watch(Context& ctx, Env& env) {
  for (Endpoint& child : ctx.children) {
    if (child.progress.prompt_at != kNever || !IsBehind(ctx, child)) continue;
    child.progress.prompt_backoff = 0;
    child.progress.prompt_at = env.now + ctx.config.prompt_ns;
    ArmTimer(ctx, child.progress.prompt_at, env);
  }
  if (ctx.is_root() || ctx.uplink_at != kNever) return;
  if (ResultDue(ctx) >= ctx.up_sent && FirstUnacknowledgedUp(ctx) >= ctx.up_sent) return;
  ctx.uplink_backoff = 0;
  ctx.uplink_at = env.now + ctx.config.prompt_ns;
  ArmTimer(ctx, ctx.uplink_at, env);
}

void Prompt(Context& ctx, Endpoint& child, Env& env) {
  ++child.counters.prompts;
  const Index missing = FirstUnacknowledged(ctx, child);
  const bool lacks = missing < ctx.results_end;
  if (!child.config.is_host) {
    if (lacks) AnswerRequest(ctx, child, missing, missing + 1, env);
    if (child.progress.up_epsn < child.in.next_index() || !lacks) SendNak(child, child.progress.up_epsn, env);
    return;
  }
  // A host that sends this index asks for its result by repeating it; one that only receives cannot.
  if (lacks && !child.in.Carries(missing)) AnswerRequest(ctx, child, missing, ctx.results_end, env);
  if (OwesData(ctx, child) || (lacks && child.in.Carries(missing))) {
    AskHost(ctx, child, env);
  }
}

void PublishResult(Context& ctx, Index index, const Position& position, std::span<const uint8_t> payload,
                   bool ack_req, Env& env) {
  ctx.results_end = index + 1;
  ++ctx.counters.results;
  ctx.uplink_at = kNever;
  const uint64_t outs = Outs(ctx, position);
  if (env.results == nullptr) {
    ReplicateData(ctx, outs, index, payload, ack_req, env);
  } else {
    env.results->send(ctx, outs, index, payload, ack_req, env);
  }
  Watch(ctx, env);
}

Index GoneEnd(const Context& ctx, const Endpoint& child, const Env& env) {
  if (env.results == nullptr || env.results->gone_end == nullptr) return ctx.results_end;
  return env.results->gone_end(ctx, child);
}

void AskParent(Context& ctx, Index index, Env& env) {
  if (index >= ctx.asked_from && env.now - ctx.asked_at < ctx.config.prompt_ns / 4) return;
  ctx.asked_from = index;
  ctx.asked_at = env.now;
  ++ctx.counters.asks;
  SendNak(ctx.parent, index, env);
}

void AnswerRequest(Context& ctx, Endpoint& child, Index from, Index to, Env& env) {
  const Index gone = GoneEnd(ctx, child, env);
  to = std::min(to, gone);
  if (!ctx.is_root()) {
    // A child repeats a range packet by packet: a later packet must not withdraw what an earlier one asked
    // for.
    if (child.progress.want.from < child.progress.want.to) from = std::min(from, child.progress.want.from);
    to = gone;
  }
  if (child.config.is_host) from = std::max(from, child.progress.down_acked_end);
  from = child.out.Next(std::max(from, to - ctx.config.slots));
  if (from >= to) return;
  if (!ctx.is_root()) {
    child.progress.want = {.from = from, .to = to};
    AskParent(ctx, from, env);
    return;
  }
  for (Index i = from; i < to; i = child.out.Next(i + 1)) {
    if (!SendHeld(ctx, child, i, /*ack_req=*/true, env)) {
      Drop(ctx, child, DropReason::kStaleSlot, env);
      continue;
    }
    ++ctx.counters.repeats;
    ++ctx.counters.replicated_packets;
  }
}

void RepeatUp(Context& ctx, Index from, Env& env) {
  for (Index i = ctx.parent.out.Next(from); i < ctx.up_sent; i = ctx.parent.out.Next(i + 1)) {
    if (!SendHeld(ctx, ctx.parent, i, /*ack_req=*/false, env)) {
      return Drop(ctx, ctx.parent, DropReason::kStaleSlot, env);
    }
    ++ctx.counters.repeats;
  }
}

}  // namespace epic::engine::translated
