// Mode I, up: messages of the children become one (docs/PROTOCOL-MODE-I.md, section 3).
#include <algorithm>
#include <bit>

#include "incengine/modes/terminated.h"
#include "incengine/modules/buffer.h"
#include "incengine/modules/progress.h"
#include "reduce/reduce.h"

namespace epic::engine::terminated {
namespace {

// The message at the head of a child's ring has been used.
void Consume(ModeCall& call, size_t child) {
  TerminatedEndpoint& from = call.state.children[child];
  call.ctx.counters.aggregated_packets += static_cast<uint64_t>(PacketsOf(call.ctx, from.received.front()));
  from.received.Release(from.received.front_number());
  from.head_at = call.env.now;
  PostReceive(call.ctx, from);
}

// Whether the window of what is under way to the parent leaves room for the message that is due, which has so
// many bytes: the rule is that of hosts, by indices, since those of a mode III parent's slots are such.
bool MayGoUp(const ModeCall& call, uint32_t bytes) {
  if (call.ctx.is_root() || call.state.sums.empty()) return true;
  const Index end =
      call.state.up.index(call.ctx.config.message_packets) + PacketsOf(call.ctx, {.bytes = bytes});
  return end <= call.state.sums.front().index + Window(call.ctx);
}

// What was aggregated goes on: at the root to the children in outs, else to the parent.
void SendSum(ModeCall& call, Message message, uint64_t outs) {
  if (!call.ctx.is_root()) {
    message.holders = 1;
    message.index = call.state.up.index(call.ctx.config.message_packets);
    return PostSend(*call.state.parent, call.state.sums.Append(message), message);
  }
  call.ctx.counters.results += static_cast<uint64_t>(PacketsOf(call.ctx, message));
  message.holders = static_cast<uint32_t>(std::popcount(outs));
  if (outs != 0) PostToChildren(call, outs, call.state.sums.Append(message), message, call.state.up);
}

// Sends a control packet as what is due next. False if there is no room yet.
bool SendControl(ModeCall& call, const ControlHeader& header) {
  const auto place = call.state.sums.Place(kControlBytes);
  if (!place) return false;
  Message message{.at = *place};
  WriteControl(call, header, &message);
  SendSum(call, message, WithoutAwaiting(call, call.ctx.all_children(), header));
  if (header.status == ControlStatus::kOk) return true;
  call.state.up_failed = true;
  if (call.ctx.is_root()) call.ctx.state = GroupState::kFailed;
  return true;
}

// A child's control packet joins the merged one of its invocation. False if it is none.
bool MergeFrom(ModeCall& call, size_t child) {
  Context& ctx = call.ctx;
  const StreamPlace& up = call.state.up;
  const Endpoint& ep = ctx.children[child];
  const Message& message = call.state.children[child].received.front();
  const bool pulled = IsPulled(call, child);
  const auto header = ControlOf(call, message, pulled);
  if (!header || header->invocation != static_cast<uint64_t>(up.invocation) ||
      (ep.config.is_host && header->status != ControlStatus::kOk)) {
    return false;
  }
  if (pulled && !TakeDescriptor(call, child, *header, message)) return false;
  ControlSlot& slot = ControlSlotOf(ctx, up.invocation);
  if (slot.invocation != up.invocation) {
    slot = ControlSlot{.invocation = up.invocation, .header = *header, .called_at = call.env.now};
    const ControlField wrong = WrongField(*header, ctx.config.world_size, MessageBytes(ctx.config));
    if (header->status == ControlStatus::kOk &&
        (wrong != ControlField::kNone || !CanServe(ctx.config.abilities, *header))) {
      slot.header.status = ControlStatus::kUnsupported;
      slot.header.field = wrong;
      slot.header.culprit = ep.config.ranks.front();
    }
  }
  MergeControl(ctx, slot, child, *header, false);
  return true;
}

// Bytes that so many of data take while they are summed.
size_t SumBytes(const ControlHeader& header, size_t bytes) {
  return Reduces(header.collective) ? AccumulatorBytes(header.op, header.type, bytes) : bytes;
}

// Adds a child's message to the sum, but for the first `before` bytes, which are the same in all.
void Aggregate(ModeCall& call, const Message& message, const ControlHeader& header, size_t before = 0) {
  TerminatedState& state = call.state;
  const auto in = call.Bytes(message.at, message.bytes).subspan(before);
  const auto sum = call.Bytes(*state.sum_at + before, SumBytes(header, in.size()));
  if (!state.sum_loaded)
    std::ranges::copy(call.Bytes(message.at, before), call.Bytes(*state.sum_at, before).begin());
  if (!Reduces(header.collective)) {
    state.sum_loaded ? Merge(sum, in) : static_cast<void>(std::ranges::copy(in, sum.begin()));
  } else {
    state.sum_loaded ? Accumulate(header.op, header.type, sum, in) : Load(header.op, header.type, sum, in);
  }
  state.sum_loaded = true;
}

// The sum is whole: it goes on, behind the first `before` bytes.
void FinishSum(ModeCall& call, const ControlHeader& header, Message message, uint64_t outs,
               size_t before = 0) {
  TerminatedState& state = call.state;
  message.at = *state.sum_at;
  const size_t bytes = message.bytes - before;
  if (Reduces(header.collective)) {
    const auto sum = call.Bytes(message.at + before, SumBytes(header, bytes));
    Store(header.op, header.type, sum, sum.first(bytes));
  }
  SendSum(call, message, outs);
  state.sum_at.reset();
  state.sum_loaded = false;
}

bool IsSummed(const ControlHeader& merged) {
  return IsInlined(merged) && merged.status == ControlStatus::kOk;
}

// The merged header goes on, and the sum of inlined data behind it. False if there is no room yet.
bool SendMerged(ModeCall& call, const ControlHeader& merged) {
  if (IsSummed(merged)) {
    FinishSum(call, merged,
              {.bytes = static_cast<uint32_t>(ControlBytesOf(merged)),
               .control = true,
               .imm = static_cast<uint32_t>(merged.invocation)},
              call.ctx.all_children(), kControlBytes);
    return true;
  }
  // What was summed before a header differed.
  call.state.sum_at.reset();
  call.state.sum_loaded = false;
  return SendControl(call, merged);
}

// At a control packet. False if nothing can be done now.
bool AdvanceControl(ModeCall& call) {
  TerminatedState& state = call.state;
  for (; state.next_child < state.children.size(); ++state.next_child) {
    const MessageRing& received = state.children[state.next_child].received;
    if (received.empty() || !MayGoUp(call, received.front().bytes)) return false;
    // Inlined data need room for their sum, which takes less than so many messages.
    if (!state.sum_at && received.front().bytes > kControlBytes) {
      const size_t messages = AccumulatorRoom(call.ctx.config) / call.ctx.config.path_mtu;
      state.sum_at = state.sums.Place(messages * received.front().bytes);
      if (!state.sum_at) return false;
    }
    if (!MergeFrom(call, state.next_child)) {
      FailFor(call, state.next_child, DropReason::kBadControl);
      return true;
    }
    const ControlHeader& merged = ControlSlotOf(call.ctx, state.up.invocation).header;
    if (IsSummed(merged)) Aggregate(call, received.front(), merged, kControlBytes);
    Consume(call, state.next_child);
  }
  const ControlHeader merged = ControlSlotOf(call.ctx, state.up.invocation).header;
  if (!SendMerged(call, merged)) return false;
  state.next_child = 0;
  if (state.up_failed) return true;
  OpenDataUp(call.ctx, state.up, merged);
  if (!state.initiated) return true;
  BeginReads(call);
  if (state.up.control) OnPassedUp(call, merged);
  return true;
}

// A contribution that its place does not allow: a switch may say there why the group fails.
void RefuseData(ModeCall& call, size_t child) {
  const Message& message = call.state.children[child].received.front();
  const auto header = ControlOf(call, message);
  if (header && header->status != ControlStatus::kOk && !call.ctx.children[child].config.is_host) {
    call.state.failure = *header;
    return;
  }
  FailFor(call, child, message.control ? DropReason::kBadControl : DropReason::kBadLength);
}

// At a data message. False if nothing can be done now.
bool AdvanceData(ModeCall& call) {
  TerminatedState& state = call.state;
  const ControlHeader& header = state.up.header;
  const uint32_t bytes = BytesOf(call.ctx, state.up);
  if (!state.sum_at && MayGoUp(call, bytes)) state.sum_at = state.sums.Place(SumBytes(header, bytes));
  if (!state.sum_at) return false;
  for (; state.next_child < state.children.size(); ++state.next_child) {
    if (!Sends(header, state.up.data.part, call.ctx.children[state.next_child].config.ranks)) continue;
    if (IsPulled(call, state.next_child)) {
      const Message* const read = FrontRead(call, state.next_child);
      if (read == nullptr) return false;
      Aggregate(call, *read, header);
      ReleaseRead(call, state.next_child);
      continue;
    }
    const TerminatedEndpoint& from = state.children[state.next_child];
    if (from.received.empty()) return false;
    const Message message = from.received.front();
    if (message.control || message.bytes != bytes) {
      RefuseData(call, state.next_child);
      return true;
    }
    Aggregate(call, message, header);
    Consume(call, state.next_child);
  }
  FinishSum(call, header, {.bytes = bytes}, ReceiversOf(call.ctx, state.up));
  state.next_child = 0;
  if (!state.initiated) {
    StepUp(call.ctx, state.up);
    return true;
  }
  const ControlHeader summed = header;
  StepUp(call.ctx, state.up);
  if (state.up.control) OnPassedUp(call, summed);
  return true;
}

}  // namespace

void FailFor(ModeCall& call, size_t child, DropReason reason) {
  Endpoint& ep = call.ctx.children[child];
  Drop(call.ctx, ep, reason, call.env);
  if (!call.state.failure) call.state.failure = Aborted(call.state.up, ep.config.ranks.front());
}

bool AdvanceUp(ModeCall& call) {
  TerminatedState& state = call.state;
  if (state.up_failed) return false;
  if (state.failure) return SendControl(call, *state.failure);
  const bool moved = state.up.control ? AdvanceControl(call) : AdvanceData(call);
  (call.ctx.is_root() ? call.ctx.results_end : call.ctx.up_sent) =
      state.up.index(call.ctx.config.message_packets);
  return moved;
}

}  // namespace epic::engine::terminated
