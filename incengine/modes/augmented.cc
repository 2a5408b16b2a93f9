// Mode III, connection augmented: every hop acknowledges, and repeats what is lost on it, packet by packet
// (EPIC paper, section 4.4, Algorithms 2 and 3; docs/PROTOCOL-MODE-III.md, whose tables these functions
// follow).
#include "incengine/modes/augmented.h"

#include <algorithm>

#include "incengine/modes/hold.h"
#include "incengine/modes/mode.h"
#include "incengine/modules/admit.h"
#include "incengine/modules/buffer.h"
#include "incengine/modules/pipe.h"
#include "incengine/modules/progress.h"
#include "incengine/modules/prompt.h"
#include "incengine/modules/transmit.h"
#include "roce/rnr_timer.h"

namespace epic::engine {
namespace {

Index Slots(const Context& ctx) { return static_cast<Index>(ctx.config.slots); }
Index AckEvery(const Context& ctx) { return std::max<Index>(Slots(ctx) / 4, 1); }

// The sender's side of an endpoint: what it has sent, and how far that is acknowledged.
struct Sender {
  Endpoint& ep;
  Index& acked_end;
  Index sent_end;
  Nanos& resend_at;
  uint32_t& backoff;
  bool up;

  Index Unacknowledged() const { return ep.out.Next(acked_end); }
  bool Waits() const { return Unacknowledged() < sent_end; }
};

Sender SenderOf(Context& ctx, EndpointId id) {
  if (id == kParent) {
    return {ctx.parent, ctx.up_acked_end, ctx.up_sent, ctx.uplink_at, ctx.uplink_backoff, true};
  }
  Endpoint& child = ctx.children[Raw(id)];
  return {
      child, child.progress.down_acked_end, ctx.results_end, child.hop.resend_at, child.hop.resend_backoff,
      false};
}

void ArmResend(Context& ctx, const Sender& to, Env& env) {
  to.resend_at = to.Waits() ? env.now + BackedOff(ctx, to.backoff) : kNever;
  ArmTimer(ctx, to.resend_at, env);
}

// Retransmission: everything that is not acknowledged, asking for an acknowledgement.
void Retransmit(Context& ctx, const Sender& to, Env& env) {
  for (Index i = to.Unacknowledged(); i < to.sent_end; i = to.ep.out.Next(i + 1)) {
    if (!(to.up ? SendHeld(ctx, to.ep, i, true, env) : SendDown(ctx, to.ep, i, true, env))) {
      return Drop(ctx, to.ep, DropReason::kStaleSlot, env);
    }
    ++ctx.counters.repeats;
  }
}

// SendAck: everything before this index has arrived. If nothing more comes from a host, it is said once more:
// the host would notice a lost ACK only by its own timer.
void AcknowledgeUpTo(Context& ctx, Endpoint& ep, Index end, Env& env) {
  ep.hop.accepted_since_ack = 0;
  const Index last = ep.in.Previous(end);
  if (last < 0) return;
  ep.hop.ack_sent = std::max(ep.hop.ack_sent, last + 1);
  SendAck(ep, last, env);
  if (!ep.config.is_host) return;
  ep.repair.repeat_ack_at = env.now + ctx.config.prompt_ns;
  ArmTimer(ctx, ep.repair.repeat_ack_at, env);
}

// Acknowledges what is due, as far as it may be told; of what is held back whole messages, as it becomes
// allowed, since a host sends on only after whole ones.
void TellDue(Context& ctx, Endpoint& ep, Index allowed, Env& env) {
  if (ep.hop.ack_due <= ep.hop.ack_sent) return;
  const Index end = ep.hop.ack_due <= allowed ? ep.hop.ack_due : MessageStart(ctx, allowed);
  if (ep.in.Previous(end) >= ep.hop.ack_sent) AcknowledgeUpTo(ctx, ep, end, env);
}

void TellChildren(Context& ctx, Env& env) {
  const Index allowed = MayTellChildren(ctx);
  for (Endpoint& child : ctx.children) TellDue(ctx, child, allowed, env);
}

// A packet has been accepted.
void Acknowledge(Context& ctx, Endpoint& ep, const roce::Packet& packet, Index index, Index allowed,
                 Env& env) {
  const bool ends =
      packet.bth.opcode != roce::Opcode::kRcSendFirst && packet.bth.opcode != roce::Opcode::kRcSendMiddle;
  if (++ep.hop.accepted_since_ack >= AckEvery(ctx) || ends || packet.bth.ack_req) ep.hop.ack_due = index + 1;
  TellDue(ctx, ep, allowed, env);
}

// A switch that repeats has not heard, or has not been told yet.
void AcknowledgeAgain(Context& ctx, Endpoint& ep, Index expected, Index allowed, Env& env) {
  ep.hop.ack_due = std::max(ep.hop.ack_due, ep.in.Previous(expected) + 1);
  AcknowledgeUpTo(ctx, ep, std::max(ep.hop.ack_sent, std::min(ep.hop.ack_due, allowed)), env);
}

void NoteGap(Context& ctx, Endpoint& ep, Index expected, Env& env) {
  ++ep.counters.gaps;
  Drop(ctx, ep, DropReason::kGap, env);
  if (ep.nak_sent) return;
  ep.nak_sent = true;
  SendNak(ep, expected, env);
}

bool AsksForAck(const Context& ctx, Index index) { return index % AckEvery(ctx) == AckEvery(ctx) - 1; }

// Admits a result to the down pipe.
void PublishDown(Context& ctx, Index index, const Position& position, bool ack_req,
                 std::span<const uint8_t> payload, Env& env) {
  StoreDown(ctx, index, position, ack_req, payload, env);
  ctx.results_end = index + 1;
  ++ctx.counters.results;
  ReplicateDown(ctx, Outs(ctx, position), index, AsksForAck(ctx, index), env);
  for (size_t c = 0; c < ctx.children.size(); ++c) {
    const Sender to = SenderOf(ctx, EndpointId{static_cast<uint8_t>(c)});
    if (to.resend_at == kNever) ArmResend(ctx, to, env);
  }
}

}  // namespace

// The pipe has no room, which only a host meets whose timer has run out, or that has been sent a NAK.
void Defer(Context& ctx, Endpoint& ep, Index expected, Env& env) {
  Drop(ctx, ep, DropReason::kAboveWindow, env);
  if (env.now < ep.repair.rnr_allowed_at) return;
  const uint8_t code = WaitCode(ctx, ep.repair.rnr_backoff++);
  ep.repair.rnr_allowed_at = env.now + roce::RnrTimerNanos(code) / 2;
  AcknowledgeUpTo(ctx, ep, expected, env);
  SendRnrNak(ep, expected, code, env);
}

void AdvanceUp(Context& ctx, Env& env) {
  for (;;) {
    const Index index = ctx.is_root() ? ctx.results_end : UpDue(ctx);
    const auto position = Locate(ctx, index);
    if (!position || !IsComplete(ctx, index, *position, env)) break;
    if (!ctx.is_root()) {
      if (!MaySendUp(ctx, index)) break;
      SendHeld(ctx, ctx.parent, index, AsksForAck(ctx, index), env);
      ctx.up_sent = index + 1;
      if (ctx.uplink_at == kNever) ArmResend(ctx, SenderOf(ctx, kParent), env);
      continue;
    }
    // The virtual parent: admission is its acknowledgement, and waits for room.
    if (!MayPublish(ctx, index, *position)) break;
    std::array<uint8_t, kControlBytes> bytes;
    const auto payload = HeldPayload(ctx, index, *position, bytes, env);
    if (position->header()) Decide(ctx, *HeaderOf(payload));
    PublishDown(ctx, index, *position, HeldAckReq(ctx, index, *position, env), payload, env);
  }
  TellChildren(ctx, env);
}

namespace {

void WatchChildren(Context& ctx, Env& env) {
  for (Endpoint& child : ctx.children) {
    if (child.progress.prompt_at != kNever || !OwesData(ctx, child)) continue;
    child.progress.prompt_backoff = 0;
    child.progress.prompt_at = env.now + ctx.config.prompt_ns;
    ArmTimer(ctx, child.progress.prompt_at, env);
  }
}

void UpData(Context& ctx, size_t child, const roce::Packet& packet, Env& env) {
  Endpoint& ep = ctx.children[child];
  const Index index = UpIndexOf(ep, packet.bth.psn);
  ep.repair.repeat_ack_at = kNever;
  if (index < ep.progress.up_epsn) {
    ++ep.counters.duplicates;
    ep.repair.repeating = index >= 0 && ep.in.Next(index + 1) < ep.progress.up_epsn;
    ep.repair.heard_at = env.now;
    Drop(ctx, ep, DropReason::kDuplicate, env);
    // A host's retries may have an end: once its timer has run out, it hears of all that has come.
    if (ep.config.is_host) return AcknowledgeUpTo(ctx, ep, ep.progress.up_epsn, env);
    return AcknowledgeAgain(ctx, ep, ep.progress.up_epsn, MayTellChildren(ctx), env);
  }
  if (index > ep.progress.up_epsn) return NoteGap(ctx, ep, ep.progress.up_epsn, env);
  const bool control = index == ep.in.next_index();
  const bool needs_slot = !control || BringsData(packet);
  if (needs_slot && index >= UpPipeStart(ctx) + Slots(ctx)) return Defer(ctx, ep, ep.progress.up_epsn, env);
  const Index held = std::min(UpPipeStart(ctx), DownPipeStart(ctx));
  if (control ? !AdmitControl(ctx, child, packet, ep.progress.down_acked_end, held, env)
              : !AdmitData(ctx, child, index, packet, env)) {
    return;
  }
  if (control) Ask(ctx, ep, env);
  ep.nak_sent = false;
  ep.repair.repeating = false;
  ep.repair.rnr_backoff = 0;
  ep.repair.rnr_allowed_at = env.now;
  ep.progress.up_told = ep.progress.up_epsn;
  ep.progress.prompt_at = kNever;
  ctx.max_up_epsn = std::max(ctx.max_up_epsn, ep.progress.up_epsn);
  Acknowledge(ctx, ep, packet, index, MayTellChildren(ctx), env);
  AdvanceUp(ctx, env);
  WatchChildren(ctx, env);
}

void DownData(Context& ctx, const roce::Packet& packet, Env& env) {
  Endpoint& parent = ctx.parent;
  const Index due = ResultDue(ctx);
  const Index index = UpIndexOf(parent, packet.bth.psn);
  if (index < due) {
    ++parent.counters.duplicates;
    Drop(ctx, parent, DropReason::kDuplicate, env);
    return AcknowledgeAgain(ctx, parent, due, MayTellParent(ctx), env);
  }
  if (index > due) return NoteGap(ctx, parent, due, env);
  const auto position = Locate(ctx, index);
  if (!position || (index >= ctx.up_sent && parent.out.Carries(index))) {
    return Drop(ctx, parent, DropReason::kUnexpectedResult, env);
  }
  if (const DropReason misfit = MisfitAt(ctx, *position, packet); misfit != DropReason::kCount)
    return Drop(ctx, parent, misfit, env);
  if (index >= DownPipeStart(ctx) + Slots(ctx)) return Defer(ctx, parent, due, env);
  if (!ctx.hold.has_memory && LiesInSlot(ctx, *position))
    return Drop(ctx, parent, DropReason::kTooEarly, env);
  if (position->header()) {
    const auto header = HeaderOf(packet.payload);
    if (!header || header->invocation != static_cast<uint64_t>(position->invocation->number)) {
      return Drop(ctx, parent, DropReason::kBadControl, env);
    }
    if (!MayDecide(ctx, *header)) return Drop(ctx, parent, DropReason::kBadControl, env);
    Decide(ctx, *header);
  }
  parent.nak_sent = false;
  parent.repair.rnr_backoff = 0;
  parent.repair.rnr_allowed_at = env.now;
  if (parent.out.Carries(index) && index >= ctx.up_acked_end) {
    ctx.up_acked_end = index + 1;  // a result contains what this switch sent
    ArmResend(ctx, SenderOf(ctx, kParent), env);
  }
  PublishDown(ctx, index, *position, packet.bth.ack_req, packet.payload, env);
  Acknowledge(ctx, parent, packet, index, MayTellParent(ctx), env);
  AdvanceUp(ctx, env);
  WatchChildren(ctx, env);
}

// ReceiveAck.
void Aeth(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) {
  const Sender to = SenderOf(ctx, from);
  const uint8_t syndrome = packet.aeth.syndrome;
  const bool negative = !roce::IsAck(syndrome);
  const Psn acked_psn = negative ? packet.bth.psn - 1 : packet.bth.psn;
  const Index acked = to.ep.out.IndexOf(acked_psn).value_or(-1);
  if (acked >= to.sent_end || (acked < 0 && acked_psn.DistanceFrom(to.ep.out.next_wire()) >= 0)) {
    return Drop(ctx, to.ep, DropReason::kAckBeyond, env);
  }
  const bool advances = acked >= to.acked_end;
  if (advances) {
    to.acked_end = acked + 1;
    to.backoff = 0;
    ArmResend(ctx, to, env);
  }
  if (negative && roce::IsRnrNak(syndrome)) {
    ++ctx.counters.rnr_naks_received;
    to.resend_at = env.now + roce::RnrTimerNanos(syndrome & 0x1f);
    ArmTimer(ctx, to.resend_at, env);
  } else if (negative && to.Waits()) {
    Retransmit(ctx, to, env);
    ArmResend(ctx, to, env);
  } else if (negative && to.up) {
    HandDown(ctx, env);  // the parent has all that this switch can send, and waits
  }
  if (!advances) return;
  AdvanceUp(ctx, env);
  if (!ctx.is_root()) TellDue(ctx, ctx.parent, MayTellParent(ctx), env);
}

class Augmented final : public ModeLogic {
 public:
  void OnPacket(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) const override {
    Endpoint& ep = from == kParent ? ctx.parent : ctx.children[Raw(from)];
    if (packet.bth.opcode == roce::Opcode::kRcAck) return Aeth(ctx, from, packet, env);
    if (!IsSend(packet.bth.opcode)) return Drop(ctx, ep, DropReason::kUnexpectedOpcode, env);
    if (from == kParent) return DownData(ctx, packet, env);
    UpData(ctx, Raw(from), packet, env);
  }

  void OnTimer(Context& ctx, Env& env) const override {
    Nanos next = kNever;
    const auto resend = [&](EndpointId id) {
      const Sender to = SenderOf(ctx, id);
      if (env.now >= to.resend_at) {
        if (to.up) ++ctx.counters.uplink_timeouts;
        Retransmit(ctx, to, env);
        ++to.backoff;
        ArmResend(ctx, to, env);
      }
      next = std::min(next, to.resend_at);
    };
    if (!ctx.is_root()) resend(kParent);
    for (size_t c = 0; c < ctx.children.size(); ++c) {
      resend(EndpointId{static_cast<uint8_t>(c)});
      Endpoint& child = ctx.children[c];
      if (env.now >= child.progress.prompt_at) {
        ++child.counters.prompts;
        if (OwesData(ctx, child)) AskChild(ctx, child, env);
        child.progress.prompt_at =
            OwesData(ctx, child) ? env.now + BackedOff(ctx, ++child.progress.prompt_backoff) : kNever;
      }
      if (env.now >= child.repair.repeat_ack_at) {
        child.repair.repeat_ack_at = kNever;
        SendAck(child, child.in.Previous(child.hop.ack_sent), env);
      }
      next = std::min({next, child.progress.prompt_at, child.repair.repeat_ack_at});
    }
    ArmTimer(ctx, next, env);
  }

  Index FirstNeeded(Context& ctx) const override { return std::min(UpPipeStart(ctx), DownPipeStart(ctx)); }
};

}  // namespace

const ModeLogic& AugmentedLogic() {
  static const Augmented mode;
  return mode;
}

}  // namespace epic::engine
