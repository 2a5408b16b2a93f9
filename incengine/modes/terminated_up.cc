// Mode I, up: messages of the children become one (docs/PROTOCOL-MODE-I.md, section 3).
#include <algorithm>
#include <bit>

#include "incengine/modes/terminated.h"
#include "incengine/modules/buffer.h"
#include "reduce/reduce.h"

namespace epic::engine::terminated {
namespace {

// The message at the head of a child's ring has been used.
void Consume(Call& call, size_t child) {
  TerminatedEndpoint& from = call.state.children[child];
  call.ctx.counters.aggregated_packets += static_cast<uint64_t>(PacketsOf(call.ctx, from.received.front()));
  from.received.Release(from.received.front_number());
  PostReceive(call.ctx, from);
}

// What was aggregated goes on: at the root to the children in outs, else to the parent.
void SendSum(Call& call, Message message, uint64_t outs) {
  if (!call.ctx.is_root()) {
    message.holders = 1;
    return PostSend(*call.state.parent, call.state.sums.Append(message), message);
  }
  call.ctx.counters.results += static_cast<uint64_t>(PacketsOf(call.ctx, message));
  message.holders = static_cast<uint32_t>(std::popcount(outs));
  if (outs != 0) PostToChildren(call, outs, call.state.sums.Append(message), message);
}

// Sends a control packet as what is due next. False if there is no room yet.
bool SendControl(Call& call, const ControlHeader& header) {
  const auto place = call.state.sums.Place(kControlBytes);
  if (!place) return false;
  Message message{.at = *place};
  WriteControl(call, header, &message);
  SendSum(call, message, call.ctx.all_children());
  if (header.status == ControlStatus::kOk) return true;
  call.state.up_failed = true;
  if (call.ctx.is_root()) call.ctx.state = GroupState::kFailed;
  return true;
}

// A child's control packet joins the merged one of its invocation. False if it is none.
bool MergeFrom(Call& call, size_t child) {
  Context& ctx = call.ctx;
  const StreamPlace& up = call.state.up;
  const Endpoint& ep = ctx.children[child];
  const auto header = ControlOf(call, call.state.children[child].received.front());
  if (!header || header->invocation != static_cast<uint64_t>(up.invocation) ||
      (ep.config.is_host && header->status != ControlStatus::kOk)) {
    return false;
  }
  ControlSlot& slot = ControlSlotOf(ctx, up.invocation);
  if (slot.invocation != up.invocation) {
    slot = ControlSlot{.invocation = up.invocation, .header = *header};
    const bool reducible =
        !Reduces(header->collective) || header->count == 0 || CanReduce(header->op, header->type);
    const ControlField wrong = WrongField(*header, ctx.config.world_size);
    if (header->status == ControlStatus::kOk && (wrong != ControlField::kNone || !reducible)) {
      slot.header.status = ControlStatus::kUnsupported;
      slot.header.field = wrong;
      slot.header.culprit = ep.config.ranks.front();
    }
  }
  MergeControl(ctx, slot, child, *header, false);
  return true;
}

// At a control packet. False if nothing can be done now.
bool AdvanceControl(Call& call) {
  TerminatedState& state = call.state;
  for (; state.next_child < state.children.size(); ++state.next_child) {
    if (state.children[state.next_child].received.empty()) return false;
    if (!MergeFrom(call, state.next_child)) {
      FailFor(call, state.next_child, DropReason::kBadControl);
      return true;
    }
    Consume(call, state.next_child);
  }
  const ControlHeader merged = ControlSlotOf(call.ctx, state.up.invocation).header;
  if (!SendControl(call, merged)) return false;
  state.next_child = 0;
  if (!state.up_failed) OpenDataUp(call.ctx, state.up, merged);
  return true;
}

// Adds a child's message to the sum.
void Aggregate(Call& call, const Message& message) {
  TerminatedState& state = call.state;
  const ControlHeader& header = state.up.header;
  const auto in = call.Bytes(message.at, message.bytes);
  if (!Reduces(header.collective)) {
    std::ranges::copy(in, call.Bytes(*state.sum_at, message.bytes).begin());
  } else {
    const auto sum = call.Bytes(*state.sum_at, AccumulatorBytes(header.op, header.type, message.bytes));
    state.sum_loaded ? Accumulate(header.op, header.type, sum, in) : Load(header.op, header.type, sum, in);
  }
  state.sum_loaded = true;
}

// A contribution that its place does not allow: a switch may say there why the group fails.
void RefuseData(Call& call, size_t child) {
  const Message& message = call.state.children[child].received.front();
  const auto header = ControlOf(call, message);
  if (header && header->status != ControlStatus::kOk && !call.ctx.children[child].config.is_host) {
    call.state.failure = *header;
    return;
  }
  FailFor(call, child, message.control ? DropReason::kBadControl : DropReason::kBadLength);
}

// At a data message. False if nothing can be done now.
bool AdvanceData(Call& call) {
  TerminatedState& state = call.state;
  const ControlHeader& header = state.up.header;
  const bool reduces = Reduces(header.collective);
  const uint32_t bytes = BytesOf(call.ctx, state.up);
  const size_t sum_bytes = reduces ? AccumulatorBytes(header.op, header.type, bytes) : bytes;
  if (!state.sum_at) state.sum_at = state.sums.Place(sum_bytes);
  if (!state.sum_at) return false;
  for (; state.next_child < state.children.size(); ++state.next_child) {
    if (!Sends(header, state.up.part, call.ctx.children[state.next_child].config.ranks)) continue;
    const TerminatedEndpoint& from = state.children[state.next_child];
    if (from.received.empty()) return false;
    const Message message = from.received.front();
    if (message.control || message.bytes != bytes) {
      RefuseData(call, state.next_child);
      return true;
    }
    Aggregate(call, message);
    Consume(call, state.next_child);
  }
  if (reduces) {
    const auto sum = call.Bytes(*state.sum_at, sum_bytes);
    Store(header.op, header.type, sum, sum.first(bytes));
  }
  SendSum(call, {.at = *state.sum_at, .bytes = bytes}, ReceiversOf(call.ctx, state.up));
  state.sum_at.reset();
  state.sum_loaded = false;
  state.next_child = 0;
  StepUp(call.ctx, state.up);
  return true;
}

}  // namespace

void FailFor(Call& call, size_t child, DropReason reason) {
  Endpoint& ep = call.ctx.children[child];
  Drop(call.ctx, ep, reason, call.env);
  if (!call.state.failure) call.state.failure = Aborted(call.state.up, ep.config.ranks.front());
}

bool AdvanceUp(Call& call) {
  TerminatedState& state = call.state;
  if (state.up_failed) return false;
  if (state.failure) return SendControl(call, *state.failure);
  const bool moved = state.up.control ? AdvanceControl(call) : AdvanceData(call);
  (call.ctx.is_root() ? call.ctx.results_end : call.ctx.up_sent) =
      state.up.index(call.ctx.config.message_packets);
  return moved;
}

}  // namespace epic::engine::terminated
