#include "incengine/core/wait.h"

#include <algorithm>

#include "incengine/modules/position.h"
#include "incengine/modules/progress.h"
#include "protocol/control.h"

namespace epic::engine {
namespace {

bool Has(uint64_t mask, size_t child) { return (mask >> child & 1) != 0; }

// Modes II and III: what is due, and where it lies; nothing if nobody here has called that far.
std::optional<Position> Due(const Context& ctx, Index* due) {
  *due = ctx.is_root() ? ctx.results_end : UpDue(ctx);
  auto position = Locate(ctx, *due);
  if (position || ctx.is_root()) return position;
  *due = ResultDue(ctx);
  return Locate(ctx, *due);
}

GroupWait WaitByIndices(const Context& ctx) {
  GroupWait wait;
  Index due = 0;
  const auto position = Due(ctx, &due);
  const uint64_t contributors = position ? FanIn(ctx, *position) : 0;
  if (position) {
    const Invocation& open = *position->invocation;
    const ControlSlot& slot = ctx.control[static_cast<size_t>(open.number % kKeptInvocations)];
    wait.open = {.number = open.number,
                 .header = open.header,
                 .called_at = slot.invocation == open.number ? slot.called_at : 0};
  }
  for (size_t c = 0; c < ctx.children.size(); ++c) {
    const Endpoint& child = ctx.children[c];
    ChildWait& out = wait.children.emplace_back();
    out.calls = child.in.next_invocation();
    out.owes = position && Has(contributors, c) && child.progress.up_epsn <= due &&
               out.calls > position->invocation->number;
    out.not_taken = child.config.is_host && child.out.Next(child.progress.down_acked_end) < ctx.results_end;
  }
  return wait;
}

// The header of the control message at the head of a ring, if that is one.
std::optional<ControlHeader> HeadOf(const Context& ctx, const TerminatedEndpoint& child, const Arena& arena) {
  if (child.received.empty() || !child.received.front().control) return std::nullopt;
  const Message& head = child.received.front();
  return HeaderOf(arena.At(ctx.arena_offset + head.at, head.bytes));
}

// What is read of a child's memory; null of a child that sends.
const PulledHost* ReadsOf(const TerminatedState& state, size_t child) {
  const bool reads = state.initiated && state.initiated->hosts[child];
  return reads ? &*state.initiated->hosts[child] : nullptr;
}

GroupWait WaitByMessages(const Context& ctx, const Arena& arena) {
  const TerminatedState& state = *ctx.terminated;
  const StreamPlace& up = state.up;
  const ControlSlot& slot = ctx.control[static_cast<size_t>(up.invocation % kKeptInvocations)];
  const bool merging = slot.invocation == up.invocation;
  GroupWait wait;
  const auto open = [&](const ControlHeader& header, Nanos called_at) {
    if (!wait.open) wait.open = {.number = up.invocation, .header = header, .called_at = called_at};
    wait.open->called_at = std::min(wait.open->called_at, called_at);
  };
  if (merging) open(slot.header, slot.called_at);
  for (size_t c = 0; c < state.children.size(); ++c) {
    const TerminatedEndpoint& child = state.children[c];
    ChildWait& out = wait.children.emplace_back();
    const bool counted = c < state.next_child;
    if (up.control) {
      const auto head = counted ? std::nullopt : HeadOf(ctx, child, arena);
      if (head) open(*head, child.head_at);
      out.calls = up.invocation + (counted || head ? 1 : 0);
    } else {
      out.calls = up.invocation + 1;
      const bool none = ReadsOf(state, c) ? ReadsOf(state, c)->whole == 0 : child.received.empty();
      out.owes = !counted && none && Sends(up.header, up.data.part, ctx.children[c].config.ranks);
    }
    out.not_taken = ctx.children[c].config.is_host && child.qp.awaits_acknowledgement();
  }
  return wait;
}

}  // namespace

GroupWait WaitOf(const Context& ctx, const Arena& arena) {
  return ctx.terminated ? WaitByMessages(ctx, arena) : WaitByIndices(ctx);
}

}  // namespace epic::engine
