// Mode I, connection terminated: every endpoint is a full RC queue pair, whole messages are aggregated (EPIC
// paper, section 4.2; docs/PROTOCOL-MODE-I.md, whose tables these functions follow).
#include "incengine/modes/terminated.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "incengine/modes/mode.h"
#include "incengine/modules/transmit.h"

namespace epic::engine {
namespace {

using namespace terminated;  // NOLINT: the mode's own pieces

// The group's part of the arena at addresses from 0; the peers have no access to it.
class ArenaMemory final : public roce::Memory {
 public:
  ArenaMemory(const Context& ctx, Arena& arena) : ctx_(ctx), arena_(arena) {}
  std::optional<std::span<uint8_t>> Map(roce::Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override {
    const bool local = access == roce::Access::kLocalRead || access == roce::Access::kLocalWrite;
    if (!local || key != kLkey || address > ctx_.arena_bytes || length > ctx_.arena_bytes - address)
      return std::nullopt;
    return arena_.At(ctx_.arena_offset + address, length);
  }

 private:
  const Context& ctx_;
  Arena& arena_;
};

class EndpointSink final : public roce::PacketSink {
 public:
  EndpointSink(Endpoint& ep, Env& env) : ep_(ep), env_(env) {}
  void Send(const roce::Packet& packet) override { SendMade(ep_, packet, env_); }

 private:
  Endpoint& ep_;
  Env& env_;
};

}  // namespace

namespace terminated {

void PostSend(TerminatedEndpoint& to, uint64_t number, const Message& message) {
  roce::SendWr wr{.wr_id = number,
                  .opcode = message.control ? roce::WrOpcode::kSendImm : roce::WrOpcode::kSend};
  wr.imm = message.imm;
  wr.sges.count = 1;
  wr.sges.sge[0] = {message.at, message.bytes, kLkey};
  // The queue is as deep as the ring, and each message is in it once.
  EPIC_CHECK(to.qp.PostSend(wr) == roce::PostResult::kOk);
  to.poll = true;
}

void PostToChildren(ModeCall& call, uint64_t outs, uint64_t number, const Message& message,
                    const StreamPlace& place) {
  call.ctx.counters.replicated_packets +=
      static_cast<uint64_t>(std::popcount(outs)) * static_cast<uint64_t>(PacketsOf(call.ctx, message));
  if (call.state.initiated && !message.control) return PostPulled(call, outs, number, message, place);
  for (; outs != 0; outs &= outs - 1) {
    PostSend(call.state.children[static_cast<size_t>(std::countr_zero(outs))], number, message);
  }
}

void PostReceive(const Context& ctx, TerminatedEndpoint& at) {
  if (at.receiving_at || at.qp.state() != roce::QpState::kRts) return;
  const size_t most = TerminatedMessageBytes(ctx.config);
  const auto place = at.received.Place(most);
  if (!place) return;
  roce::RecvWr wr;
  wr.sges.count = 1;
  wr.sges.sge[0] = {*place, static_cast<uint32_t>(most), kLkey};
  if (at.qp.PostRecv(wr) == roce::PostResult::kOk) at.receiving_at = *place;
}

}  // namespace terminated

namespace {

EndpointId ChildId(size_t child) { return EndpointId{static_cast<uint8_t>(child)}; }

// The parent has broken its stream: ABORTED takes the place of its message.
void FailForParent(ModeCall& call, Message& message) {
  Drop(call.ctx, call.ctx.parent, DropReason::kUnexpectedResult, call.env);
  WriteControl(call, Aborted(call.state.down, 0), &message);
}

// What a control packet from the parent does to the stream. False if it may not be there.
bool TakeReply(ModeCall& call, const Message& message) {
  StreamPlace& down = call.state.down;
  const auto header = ControlOf(call, message);
  if (!header) return false;
  if (header->status != ControlStatus::kOk) {
    call.state.down_failed = call.state.up_failed = true;
    return true;
  }
  if (!down.control || header->invocation != static_cast<uint64_t>(down.invocation) ||
      WrongField(*header, call.ctx.config.world_size, MessageBytes(call.ctx.config)) != ControlField::kNone) {
    return false;
  }
  OpenDataDown(call.ctx, down, *header);
  return true;
}

// Mode VI: what the parent has sent and may goes on; hosts get a call's reply when their results are written.
void PassDownPulled(ModeCall& call, uint64_t outs, uint64_t number, bool is_data) {
  StreamPlace& down = call.state.down;
  MessageRing& ring = call.state.parent->received;
  Message& message = ring.at(number);
  const ControlHeader header = is_data ? down.header : *ControlOf(call, message);
  if (!is_data) outs = WithoutAwaiting(call, outs, header);
  message.holders = std::max(1u, static_cast<uint32_t>(std::popcount(outs)));
  if (outs == 0) {
    ring.Release(number);
  } else {
    PostToChildren(call, outs, number, message, down);
  }
  if (is_data) StepDown(call.ctx, down);
  if (down.control) OnPassedDown(call, header);
}

// A message from the parent is stored: it goes to its receivers.
void PassDown(ModeCall& call, uint64_t number) {
  TerminatedState& state = call.state;
  Message& message = state.parent->received.at(number);
  if (state.down_failed) return state.parent->received.Release(number);
  uint64_t outs = call.ctx.all_children();
  bool allowed = false, is_data = false;
  if (message.control) {
    allowed = TakeReply(call, message);
  } else if (!state.down.control && message.bytes == BytesOf(call.ctx, state.down)) {
    allowed = is_data = true;
    outs = ReceiversOf(call.ctx, state.down);
  }
  if (!allowed) {
    FailForParent(call, message);
    state.down_failed = state.up_failed = true;
  }
  if (state.down_failed) call.ctx.state = GroupState::kFailed;
  call.ctx.counters.results += static_cast<uint64_t>(PacketsOf(call.ctx, message));
  if (state.initiated && !state.down_failed) {
    PassDownPulled(call, outs, number, is_data);
  } else {
    message.holders = static_cast<uint32_t>(std::popcount(outs));
    PostToChildren(call, outs, number, message, state.down);
    if (is_data) StepDown(call.ctx, state.down);
  }
  call.ctx.results_end = state.down.index(call.ctx.config.message_packets);
}

// The queue pair has given up: its peer's requests are not what they may be.
void OnFailedQueuePair(ModeCall& call, EndpointId id, roce::WcStatus why) {
  // What is posted to one that has given up before is flushed.
  const bool is_known = call.state.failure || call.state.up_failed;
  if (why == roce::WcStatus::kWrFlushErr && is_known && id != kParent) return;
  const bool refused = why == roce::WcStatus::kRemAccessErr;
  const DropReason reason = refused ? DropReason::kRemoteAccess : DropReason::kUnexpectedOpcode;
  if (id != kParent) return FailFor(call, Raw(id), reason);
  Drop(call.ctx, call.ctx.parent, DropReason::kUnexpectedOpcode, call.env);
  call.state.up_failed = true;
  call.ctx.state = GroupState::kFailed;
}

// Nothing more comes from the parent: ABORTED is the last message to the children, once there is room for it.
void FailForLostParent(ModeCall& call) {
  TerminatedEndpoint& parent = *call.state.parent;
  if (call.state.down_failed || parent.qp.state() != roce::QpState::kErr) return;
  const auto place = parent.received.Place(kControlBytes);
  if (!place) return;
  Message message{.at = *place, .holders = static_cast<uint32_t>(call.state.children.size())};
  WriteControl(call, Aborted(call.state.down, 0), &message);
  call.state.down_failed = true;
  PostToChildren(call, call.ctx.all_children(), parent.received.Append(message), message, call.state.down);
}

void OnReceived(ModeCall& call, EndpointId id, const roce::Completion& done) {
  TerminatedEndpoint& at = call.transport(id);
  const uint64_t place = *at.receiving_at;
  at.receiving_at.reset();
  if (!done.ok()) return;
  Message message{.at = place, .bytes = done.bytes, .control = done.has_imm, .imm = done.imm, .holders = 1};
  message.packets_end = at.packets_received += PacketsOf(call.ctx, message);
  if (at.received.empty()) at.head_at = call.env.now;
  const uint64_t number = at.received.Append(message);
  if (id == kParent) PassDown(call, number);
  PostReceive(call.ctx, at);
}

// True if there were any.
bool TakeCompletions(ModeCall& call, EndpointId id) {
  TerminatedEndpoint& at = call.transport(id);
  bool any = false;
  roce::WcStatus failed = roce::WcStatus::kSuccess;  // the first, as the others are flushed for it
  for (roce::Completion done; at.qp.NextCompletion(&done); any = true) {
    if (failed == roce::WcStatus::kSuccess) failed = done.status;
    if (done.is_recv()) {
      OnReceived(call, id, done);
      continue;
    }
    if (done.wr_id >= kOwnRequests) {
      OnOwnRequestDone(call, id, done);
      continue;
    }
    // A request that ends in an error frees its message as well: nobody will send it again.
    MessageRing& ring = id == kParent ? call.state.sums : call.down_ring();
    ring.Release(done.wr_id);
  }
  if (failed != roce::WcStatus::kSuccess) OnFailedQueuePair(call, id, failed);
  return any;
}

void CopyCounters(const roce::QpCounters& from, EndpointCounters* to) {
  to->duplicates = from.duplicates;
  to->gaps = from.out_of_sequence;
  to->naks_sent = from.naks_sent;
  to->rnr_naks_sent = from.rnr_naks_sent;
  to->cnps_sent = from.cnps_sent;
}

void TellUpTo(TerminatedEndpoint& at, uint64_t end) {
  MessageRing& ring = at.received;
  if (end <= at.told) return;
  at.told = end;
  at.qp.Release(end, end > ring.front_number() ? ring.at(end - 1).packets_end : ring.left_packets_end());
  at.poll = true;
}

// Lets the peer send on: tells it of the messages that have left its ring, so that a window fits behind the
// rest. A child also of those there, unless tracked data are being summed: nobody sends more than a window
// beyond an index whose result he has still to get.
void TellPeer(ModeCall& call, EndpointId id) {
  TerminatedEndpoint& at = call.transport(id);
  const bool all = id != kParent && (call.state.up_failed || !IsTracked(call.state.up));
  TellUpTo(at, at.received.front_number() + (all ? at.received.size() : 0));
}

// Lets a queue pair send. True if that has brought completions.
bool PollOne(ModeCall& call, EndpointId id) {
  TerminatedEndpoint& at = call.transport(id);
  TellPeer(call, id);
  if (!at.poll && call.env.now < at.qp.next_deadline()) return false;
  at.poll = false;
  ArenaMemory memory(call.ctx, call.env.arena);
  Endpoint& ep = call.endpoint(id);
  EndpointSink sink(ep, call.env);
  const roce::QpCounters before = at.qp.counters();
  at.qp.Poll(call.env.now, memory, sink);
  const roce::QpCounters& after = at.qp.counters();
  call.ctx.counters.repeats += after.packets_repeated - before.packets_repeated;
  if (id == kParent) call.ctx.counters.uplink_timeouts += after.timeouts - before.timeouts;
  CopyCounters(after, &ep.counters);
  return TakeCompletions(call, id);
}

// Everything that has become possible: sums, receives, packets; then the timer.
void Pump(ModeCall& call) {
  TerminatedState& state = call.state;
  bool again = true;
  while (again) {
    again = false;
    while (AdvanceUp(call)) {
    }
    if (state.parent) FailForLostParent(call);
    if (state.initiated) PostReads(call);
    for (size_t c = 0; c < state.children.size(); ++c) {
      PostReceive(call.ctx, state.children[c]);
      again |= PollOne(call, ChildId(c));
    }
    if (!state.parent) continue;
    PostReceive(call.ctx, *state.parent);
    again |= PollOne(call, kParent);
  }
  Nanos deadline = state.parent ? state.parent->qp.next_deadline() : kNever;
  for (const TerminatedEndpoint& child : state.children)
    deadline = std::min(deadline, child.qp.next_deadline());
  if (deadline != kNever) ArmTimer(call.ctx, std::max(deadline, call.env.now), call.env);
}

void CountDrops(ModeCall& call, Endpoint& ep, const roce::QpCounters& before, const roce::QpCounters& after) {
  if (after.duplicates != before.duplicates) Drop(call.ctx, ep, DropReason::kDuplicate, call.env);
  if (after.out_of_sequence != before.out_of_sequence) Drop(call.ctx, ep, DropReason::kGap, call.env);
  if (after.rnr_naks_sent != before.rnr_naks_sent) Drop(call.ctx, ep, DropReason::kAboveWindow, call.env);
  if (after.ack_beyond != before.ack_beyond) Drop(call.ctx, ep, DropReason::kAckBeyond, call.env);
  if (after.bad_state != before.bad_state) Drop(call.ctx, ep, DropReason::kGroupFailed, call.env);
}

class Terminated final : public ModeLogic {
 public:
  void OnPacket(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) const override {
    ModeCall call{.ctx = ctx, .state = *ctx.terminated, .env = env};
    TerminatedEndpoint& at = call.transport(from);
    PostReceive(ctx, at);
    ArenaMemory memory(ctx, env.arena);
    const roce::QpCounters before = at.qp.counters();
    at.qp.OnPacket(env.now, packet, memory);
    at.poll = true;
    ctx.counters.rnr_naks_received += at.qp.counters().rnr_naks_received - before.rnr_naks_received;
    CountDrops(call, call.endpoint(from), before, at.qp.counters());
    TakeCompletions(call, from);
    // A host's retries may have an end: once its timer has run out, it hears of all that has come.
    if (call.endpoint(from).config.is_host && at.qp.counters().duplicates != before.duplicates)
      TellUpTo(at, at.received.front_number() + at.received.size());
    Pump(call);
  }

  void OnTimer(Context& ctx, Env& env) const override {
    ModeCall call{.ctx = ctx, .state = *ctx.terminated, .env = env};
    Pump(call);
  }
};

}  // namespace

const ModeLogic& TerminatedMode() {
  static const Terminated mode;
  return mode;
}

}  // namespace epic::engine
