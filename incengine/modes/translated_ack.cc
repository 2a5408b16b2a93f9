// Mode II: who may be told of which acknowledgement (docs/PROTOCOL.md, section 5).
#include <algorithm>
#include <bit>

#include "incengine/modes/translated_state.h"
#include "incengine/modules/progress.h"
#include "incengine/modules/transmit.h"

namespace epic::engine::translated {
namespace {

// Whether switches acknowledge anything of it to each other: tracked data, and the control message before
// them; of data in a block all, for it is free when they are acknowledged.
bool HasAcknowledged(const Invocation& invocation) {
  if (IsGranted(invocation.header)) return true;
  return invocation.end() > invocation.data_index() && !SendersReceive(invocation.header.collective);
}

// The end of the stretch of indices from index on that has the same position rules: a control message, all
// data of an invocation that is not tracked, or a stretch of one part.
Index EndOfRule(const Position& position) {
  const Invocation& invocation = *position.invocation;
  if (position.control) return invocation.data_index();
  if (!IsTracked(position)) return invocation.end();
  return invocation.data_index() + PlaceOf(position).end();
}

Index OldestOpen(const Context& ctx) {
  return ctx.invocations.empty() ? 0 : ctx.invocations.front().control_index;
}

// What has been acknowledged by all receivers below this switch, up to `limit`. Returns the end of the last
// acknowledged stretch that was passed, or -1.
Index AdvanceAcknowledged(Context& ctx, Index limit) {
  Index passed = -1;
  Index at = std::max(ctx.acked_end, OldestOpen(ctx));
  while (at < limit) {
    const auto position = Locate(ctx, at);
    if (!position) break;
    Index end = std::min(limit, EndOfRule(*position));
    if (IsAcknowledged(*position)) {
      const uint64_t outs = Outs(ctx, *position);
      for (uint64_t rest = outs; rest != 0; rest &= rest - 1) {
        end =
            std::min(end, ctx.children[static_cast<size_t>(std::countr_zero(rest))].progress.down_acked_end);
      }
      if (end <= at) break;
      if (outs != 0) passed = end;
    }
    at = end;
  }
  ctx.acked_end = at;
  return passed;
}

// The next index at or after `from` that is acknowledged between switches and that the direction carries,
// below limit; else limit or later.
Index NextAcknowledged(const Context& ctx, const Direction& direction, Index from, Index limit) {
  Index at = std::max(from, OldestOpen(ctx));
  while ((at = direction.Next(at)) < limit) {
    const auto position = Locate(ctx, at);
    if (!position || IsAcknowledged(*position)) break;
    at = EndOfRule(*position);
  }
  return at;
}

// At the root: all that receive what is below this have acknowledged it, or it is mutual.
Index AcknowledgedByAll(Context& ctx) {
  // What is acknowledged is passed when it is; this steps over the mutual indices.
  if (ctx.acked_end < ctx.results_end) AdvanceAcknowledged(ctx, ctx.results_end);
  return std::min(ctx.results_end, ctx.acked_end);
}

}  // namespace

bool IsAcknowledged(const Position& position) {
  if (IsGranted(position.invocation->header)) return true;
  return position.control ? HasAcknowledged(*position.invocation) : IsTracked(position);
}

Index FirstUnacknowledged(const Context& ctx, Endpoint& child) {
  if (child.config.is_host) return child.out.Next(child.progress.down_acked_end);
  child.progress.down_acked_end =
      NextAcknowledged(ctx, child.out, child.progress.down_acked_end, ctx.results_end);
  return child.progress.down_acked_end;
}

Index FirstUnacknowledgedUp(Context& ctx) {
  // Asked for every packet, when many calls may be open of which switches acknowledge nothing: those are
  // stepped over whole.
  Index at = std::max(ctx.up_acked_end, OldestOpen(ctx));
  for (const Invocation& invocation : ctx.invocations) {
    if (at >= invocation.end()) continue;
    if (at >= ctx.up_sent || HasAcknowledged(invocation)) break;
    at = invocation.end();
  }
  return NextAcknowledged(ctx, ctx.parent.out, at, ctx.up_sent);
}

Index FirstHeld(Context& ctx) {
  if (!ctx.is_root()) return std::min(ResultDue(ctx), FirstUnacknowledgedUp(ctx));
  return AcknowledgedByAll(ctx);
}

bool MayPass(Context& ctx, Index index, const Position& position) {
  if (!IsTracked(position)) return true;
  const Index acknowledged = AcknowledgedByAll(ctx);
  return acknowledged > position.invocation->control_index && index < acknowledged + Window(ctx);
}

bool AdvanceTold(const Context& ctx, Endpoint& child) {
  Index at = child.in.Next(child.progress.up_told);
  const Index before = at;
  if (!child.config.is_host) {
    at = std::max(at, std::min(ctx.up_acked_end, child.progress.up_epsn));
  } else {
    while (at < child.progress.up_epsn) {
      const Stretch sent = child.in.StretchAt(at);
      const Stretch received = child.out.StretchAt(at);
      const Index acknowledged = received.carried ? child.progress.down_acked_end : ctx.up_acked_end;
      const Index end = std::min({sent.end, received.end, acknowledged, child.progress.up_epsn});
      if (end <= at) break;
      at = child.in.Next(end);
    }
  }
  child.progress.up_told = at;
  return at > before && child.in.Previous(at) >= before;
}

bool Tell(Context& ctx, Endpoint& child, Env& env) {
  if (!AdvanceTold(ctx, child)) return false;
  SendAck(child, child.in.Previous(child.progress.up_told), env);
  return true;
}

void OnAcknowledged(Context& ctx, Env& env) {
  const Index passed = AdvanceAcknowledged(ctx, ResultDue(ctx));
  if (passed < 0) return;
  if (!ctx.is_root()) return SendAck(ctx.parent, ctx.parent.in.Previous(passed), env);
  ctx.up_acked_end = passed;
  for (Endpoint& child : ctx.children) {
    Tell(ctx, child, env);
    if (!child.progress.deferred) continue;
    child.progress.deferred = false;
    SendNak(child, child.config.is_host ? child.progress.up_told : child.progress.up_epsn, env);
  }
}

}  // namespace epic::engine::translated
