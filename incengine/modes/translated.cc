// Mode II, connection translated: the switch rewrites and reflects; reliability is that of the hosts' NICs,
// end to end (EPIC paper, section 4.3, Algorithm 1; docs/PROTOCOL.md, section 5, whose tables these functions
// follow row by row).
#include <algorithm>

#include "incengine/modes/hold.h"
#include "incengine/modes/mode.h"
#include "incengine/modes/translated_state.h"
#include "incengine/modules/admit.h"
#include "incengine/modules/buffer.h"
#include "incengine/modules/position.h"
#include "incengine/modules/progress.h"
#include "incengine/modules/prompt.h"
#include "incengine/modules/transmit.h"
#include "roce/rnr_timer.h"

namespace epic::engine {
namespace {

using namespace translated;  // NOLINT: the rows of the tables

// Sends on what has become complete, in the order of indices: to the parent, or, at the root, to the
// receivers.
void Advance(Context& ctx, Env& env) {
  for (;;) {
    const Index index = ctx.is_root() ? ctx.results_end : UpDue(ctx);
    const auto position = Locate(ctx, index);
    if (!position || !IsComplete(ctx, index, *position, env)) break;
    if (ctx.is_root() && !MayPass(ctx, index, *position)) break;
    if (!ctx.is_root()) {
      SendHeld(ctx, ctx.parent, index, false, env);
      ctx.up_sent = index + 1;
      continue;
    }
    std::array<uint8_t, kControlBytes> bytes;
    const auto payload = HeldPayload(ctx, index, *position, bytes, env);
    if (position->header()) Decide(ctx, ControlSlotOf(ctx, position->invocation->number).header);
    PublishResult(ctx, index, *position, payload, HeldAckReq(ctx, index, *position, env), env);
  }
}

// A packet that this child has had counted already.
void AnswerDuplicate(Context& ctx, Endpoint& ep, Index index, Env& env) {
  ++ep.counters.duplicates;
  Drop(ctx, ep, DropReason::kDuplicate, env);
  const bool last = index < 0 || ep.in.Next(index + 1) >= ep.progress.up_epsn;
  ep.repair.repeating = !last;
  ep.repair.heard_at = env.now;
  if (index < ep.in.Next(ep.progress.up_told)) {
    // A switch that repeats what is not acknowledged between switches asks for its result.
    const Index told = ep.in.Previous(ep.progress.up_told);
    const auto position = Locate(ctx, index);
    if (told >= 0 && (ep.config.is_host || (position && IsAcknowledged(*position))))
      return SendAck(ep, told, env);
  }
  if (index < 0) return;
  if (ep.out.Carries(index) && index < GoneEnd(ctx, ep, env))
    return AnswerRequest(ctx, ep, index, index + 1, env);
  // Only when the host has repeated all that it has sent: one that is stopped in the middle of a message, and
  // then hears that the whole of it has arrived, comes out of step (docs/PROTOCOL.md, section 5.5).
  if (ep.config.is_host && last) TellToWait(ctx, ep, env);
}

void UpData(Context& ctx, size_t child, const roce::Packet& packet, Env& env) {
  Endpoint& ep = ctx.children[child];
  ep.repair.repeat_ack_at = kNever;
  const Index index = UpIndexOf(ep, packet.bth.psn);
  if (index < ep.progress.up_epsn) return AnswerDuplicate(ctx, ep, index, env);
  if (index > ep.progress.up_epsn) {
    ++ep.counters.gaps;
    Drop(ctx, ep, DropReason::kGap, env);
    if (ep.nak_sent) return;
    ep.nak_sent = true;
    return SendNak(ep, ep.config.is_host ? ep.progress.up_told : ep.progress.up_epsn, env);
  }
  const bool control = index == ep.in.next_index();
  const bool needs_slot = !control || BringsData(packet);
  if (needs_slot && index >= FirstHeld(ctx) + ctx.config.slots) {
    ep.progress.deferred = true;
    return Drop(ctx, ep, DropReason::kAboveWindow, env);
  }
  const Index needed = ep.config.is_host ? ep.progress.down_acked_end : ResultDue(ctx);
  if (control ? !AdmitControl(ctx, child, packet, needed, ResultDue(ctx), env)
              : !AdmitData(ctx, child, index, packet, env))
    return;
  if (control) Ask(ctx, ep, env);
  ep.nak_sent = false;
  ep.repair.repeating = false;
  ctx.max_up_epsn = std::max(ctx.max_up_epsn, ep.progress.up_epsn);
  Advance(ctx, env);
  OnChildProgress(ctx, ep, env);
  Watch(ctx, env);
}

// A result that has passed before: for the children that want it again. A parent that repeats what has been
// acknowledged has not heard so.
void RepeatedResult(Context& ctx, Index index, const Position& position, std::span<const uint8_t> payload,
                    Env& env) {
  for (Endpoint& child : ctx.children) {
    if (!child.progress.want.Contains(index) || !child.out.Carries(index)) continue;
    // One that others asked for may come before the first that this child wants, which it must not withdraw.
    if (index == child.progress.want.from) child.progress.want.from = child.out.Next(index + 1);
    if (child.config.is_host && index < child.progress.down_acked_end) continue;
    SendData(ctx, child, index, payload, /*ack_req=*/true, env);
    ++ctx.counters.repeats;
    ++ctx.counters.replicated_packets;
  }
  if (IsAcknowledged(position) && index < ctx.acked_end) {
    SendAck(ctx.parent, ctx.parent.in.Previous(ctx.acked_end), env);
  }
}

void DownData(Context& ctx, const roce::Packet& packet, Env& env) {
  Endpoint& parent = ctx.parent;
  const auto index = parent.in.IndexOf(packet.bth.psn);
  if (!index || (*index >= ctx.up_sent && parent.out.Carries(*index))) {
    return Drop(ctx, parent, DropReason::kUnexpectedResult, env);
  }
  const auto position = Locate(ctx, *index);
  if (!position) return Drop(ctx, parent, DropReason::kStaleSlot, env);
  if (const DropReason misfit = MisfitAt(ctx, *position, packet); misfit != DropReason::kCount)
    return Drop(ctx, parent, misfit, env);
  const Index due = ResultDue(ctx);
  if (*index > due) {
    ++parent.counters.gaps;
    Drop(ctx, parent, DropReason::kGap, env);
    if (!parent.nak_sent) AskParent(ctx, due, env);
    parent.nak_sent = true;
    return;
  }
  if (*index < due) return RepeatedResult(ctx, *index, *position, packet.payload, env);
  if (position->header()) {
    const auto header = HeaderOf(packet.payload);
    if (!header || header->invocation != static_cast<uint64_t>(position->invocation->number)) {
      return Drop(ctx, parent, DropReason::kBadControl, env);
    }
    if (!MayDecide(ctx, *header)) return Drop(ctx, parent, DropReason::kBadControl, env);
    Decide(ctx, *header);
  }
  parent.nak_sent = false;
  PublishResult(ctx, *index, *position, packet.payload, packet.bth.ack_req, env);
}

// A host has acknowledged everything below down_acked_end; `advances`: more than before.
void HostAck(Context& ctx, Endpoint& host, bool advances, Env& env) {
  if (!advances) return Drop(ctx, host, DropReason::kDuplicate, env);
  if (Tell(ctx, host, env)) {
    host.repair.repeat_ack_at = env.now + ctx.config.prompt_ns;
    ArmTimer(ctx, host.repair.repeat_ack_at, env);
  }
  OnChildProgress(ctx, host, env);
}

// The same, and it says that it lacks the next, `missing`.
void HostNak(Context& ctx, Endpoint& host, uint8_t syndrome, Index missing, bool advances, Env& env) {
  if (host.in.Carries(missing)) {
    // It sends this index too, and asks for the result by repeating its packet. Its own NAK makes it do so,
    // at what it may be told; no ACK before, since that NAK is one as well.
    if (advances) {
      AdvanceTold(ctx, host);
      OnChildProgress(ctx, host, env);
    }
    return SendAeth(host, syndrome, host.progress.up_told, host.progress.up_told - 1, env);
  }
  if (advances) {
    Tell(ctx, host, env);
    OnChildProgress(ctx, host, env);
  }
  // It cannot ask by repeating a packet of its own.
  if (syndrome == roce::kSyndromeNakSequence) return AnswerRequest(ctx, host, missing, ctx.results_end, env);
  // Its process is late with its receives, and waits for a processor: again soon, but not as often as its NIC
  // would have it.
  const Nanos wait = std::max(roce::RnrTimerNanos(syndrome & 0x1f), ctx.config.prompt_ns / 16);
  host.progress.prompt_at = std::min(host.progress.prompt_at, env.now + wait);
  ArmTimer(ctx, host.progress.prompt_at, env);
}

// An acknowledgement from a host. Of what the host sends itself it is reflected, because its responder has
// the result only after its requester's packet has been counted everywhere; of what others send it goes up.
void HostAeth(Context& ctx, Endpoint& host, const roce::Packet& packet, Env& env) {
  const uint8_t syndrome = packet.aeth.syndrome;
  const bool negative = !roce::IsAck(syndrome);
  const Psn acked_psn = negative ? packet.bth.psn - 1 : packet.bth.psn;
  const Index acked = host.out.IndexOf(acked_psn).value_or(-1);
  if (acked >= ctx.results_end || (acked < 0 && acked_psn.DistanceFrom(host.out.next_wire()) >= 0)) {
    return Drop(ctx, host, DropReason::kAckBeyond, env);
  }
  host.repair.repeat_ack_at = kNever;
  if (roce::IsRnrNak(syndrome)) ++ctx.counters.rnr_naks_received;
  const bool advances = acked >= host.progress.down_acked_end;
  if (advances) {
    host.progress.down_acked_end = acked + 1;
    OnAcknowledged(ctx, env);
  }
  if (negative) {
    HostNak(ctx, host, syndrome, host.out.Next(host.progress.down_acked_end), advances, env);
  } else {
    HostAck(ctx, host, advances, env);
  }
  if (advances && ctx.is_root()) Advance(ctx, env);
}

void ChildSwitchAeth(Context& ctx, Endpoint& ep, Index index, bool negative, Env& env) {
  if (!negative) {
    if (index >= ctx.results_end) return Drop(ctx, ep, DropReason::kAckBeyond, env);
    if (index < ep.progress.down_acked_end) return Drop(ctx, ep, DropReason::kDuplicate, env);
    ep.progress.down_acked_end = index + 1;
    OnAcknowledged(ctx, env);
    OnChildProgress(ctx, ep, env);
    if (ctx.is_root()) Advance(ctx, env);
    return;
  }
  if (index < ctx.results_end) return AnswerRequest(ctx, ep, index, ctx.results_end, env);
  // The child waits for a result that does not exist. If that is for want of its own part, it must hear so.
  if (ep.progress.up_epsn <= index) SendNak(ep, ep.progress.up_epsn, env);
}

void ParentAeth(Context& ctx, Index index, bool negative, Env& env) {
  if (!negative) {
    if (index >= ctx.up_sent) return Drop(ctx, ctx.parent, DropReason::kAckBeyond, env);
    if (index < ctx.up_acked_end) return Drop(ctx, ctx.parent, DropReason::kDuplicate, env);
    ctx.up_acked_end = index + 1;
    ctx.uplink_at = kNever;
    for (Endpoint& child : ctx.children) Tell(ctx, child, env);
    return Watch(ctx, env);
  }
  if (index < ctx.up_sent) return RepeatUp(ctx, index, env);
  HandDown(ctx, env);
}

void SwitchAeth(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) {
  Endpoint& ep = from == kParent ? ctx.parent : ctx.children[Raw(from)];
  auto index = ep.out.IndexOf(packet.bth.psn);
  if (!index && packet.bth.psn == ep.out.next_wire()) index = ep.out.next_index();
  const bool negative = packet.aeth.syndrome == roce::kSyndromeNakSequence;
  if (!index) return Drop(ctx, ep, DropReason::kAckBeyond, env);
  if (!negative && !roce::IsAck(packet.aeth.syndrome)) return Drop(ctx, ep, DropReason::kUnexpectedOpcode, env);
  if (from == kParent) return ParentAeth(ctx, *index, negative, env);
  ChildSwitchAeth(ctx, ep, *index, negative, env);
}

class Translated final : public ModeLogic {
 public:
  void OnPacket(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) const override {
    Endpoint& ep = from == kParent ? ctx.parent : ctx.children[Raw(from)];
    if (packet.bth.opcode == roce::Opcode::kRcAck) {
      if (ep.config.is_host) return HostAeth(ctx, ep, packet, env);
      return SwitchAeth(ctx, from, packet, env);
    }
    if (!IsSend(packet.bth.opcode)) return Drop(ctx, ep, DropReason::kUnexpectedOpcode, env);
    if (from == kParent) return DownData(ctx, packet, env);
    UpData(ctx, Raw(from), packet, env);
  }

  void OnTimer(Context& ctx, Env& env) const override {
    Nanos next = kNever;
    if (env.now >= ctx.uplink_at) {
      ++ctx.counters.uplink_timeouts;
      const Index due = ResultDue(ctx);
      const Index unacknowledged = FirstUnacknowledgedUp(ctx);
      const bool waits = due < ctx.up_sent || unacknowledged < ctx.up_sent;
      if (due < ctx.up_sent) AskParent(ctx, due, env);
      if (unacknowledged < ctx.up_sent) SendHeld(ctx, ctx.parent, unacknowledged, /*ack_req=*/true, env);
      ctx.uplink_at = waits ? env.now + BackedOff(ctx, ++ctx.uplink_backoff) : kNever;
    }
    next = std::min(next, ctx.uplink_at);
    for (Endpoint& child : ctx.children) {
      if (env.now >= child.repair.repeat_ack_at) {
        child.repair.repeat_ack_at = kNever;
        SendAck(child, child.in.Previous(child.progress.up_told), env);
      }
      if (env.now >= child.progress.prompt_at) {
        Prompt(ctx, child, env);
        child.progress.prompt_at = env.now + BackedOff(ctx, ++child.progress.prompt_backoff);
      }
      next = std::min({next, child.repair.repeat_ack_at, child.progress.prompt_at});
    }
    ArmTimer(ctx, next, env);
  }

  Index FirstNeeded(Context& ctx) const override { return std::min(FirstHeld(ctx), ctx.acked_end); }
};

}  // namespace

const ModeLogic& TranslatedMode() {
  static const Translated mode;
  return mode;
}

}  // namespace epic::engine
