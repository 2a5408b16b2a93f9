// Mode II, connection translated: the switch rewrites and reflects; reliability is that of the hosts' NICs,
// end to end (EPIC paper, section 4.3, Algorithm 1; docs/PROTOCOL.md, section 5, whose tables these functions
// follow row by row).
#include <algorithm>

#include "incengine/modes/mode.h"
#include "incengine/modes/translated_state.h"
#include "incengine/modules/buffer.h"
#include "incengine/modules/position.h"
#include "incengine/modules/transmit.h"
#include "reduce/reduce.h"

namespace epic::engine {
namespace {

using namespace translated;  // NOLINT: the rows of the tables

bool IsSend(roce::Opcode opcode) {
  switch (opcode) {
    case roce::Opcode::kRcSendFirst:
    case roce::Opcode::kRcSendMiddle:
    case roce::Opcode::kRcSendLast:
    case roce::Opcode::kRcSendOnly:
    case roce::Opcode::kRcSendOnlyImm:
      return true;
    default:
      return false;
  }
}

bool Supported(const ControlHeader& header) {
  if (header.collective == Collective::kBarrier) return header.count == 0;
  return header.collective == Collective::kAllReduce &&
         (CanReduce(header.op, header.type) || header.count == 0);
}

// The index of an up packet: of an open segment, or the next control packet's. Past ones come out as -1, ones
// further ahead as next_index() + 1.
Index UpIndexOf(const Endpoint& child, Psn psn) {
  if (const auto index = child.in.IndexOf(psn)) return *index;
  const int32_t ahead = psn.DistanceFrom(child.in.next_wire());
  if (ahead < 0) return -1;
  return child.in.next_index() + (ahead > 0 ? 1 : 0);
}

void ForwardIfComplete(Context& ctx, Index index, uint64_t arrived, bool ack_req, Env& env) {
  if (arrived != ctx.all_children()) return;
  if (!ctx.is_root()) {
    SendHeld(ctx, ctx.parent, index, ack_req, env);
    ctx.up_sent = index + 1;
    if (ctx.uplink_at == kNever) {
      ctx.uplink_backoff = 0;
      ctx.uplink_at = env.now + ctx.config.prompt_ns;
      ArmTimer(ctx, ctx.uplink_at, env);
    }
    return;
  }
  const auto position = Locate(ctx, index);
  if (position->control) {
    const ControlHeader& header = ControlSlotOf(ctx, position->invocation->number).header;
    if (header.status != ControlStatus::kOk) ctx.state = GroupState::kFailed;
    std::array<uint8_t, kControlBytes> bytes;
    Encode(header, bytes);
    PublishResult(ctx, index, bytes, ack_req, env);
  } else {
    PublishResult(ctx, index, PayloadOf(ctx, index, BytesAt(ctx, *position), env.arena), ack_req, env);
  }
}

// A control packet that is due now. False if it is not one.
bool AcceptControl(Context& ctx, size_t child, const roce::Packet& packet, Env& env) {
  Endpoint& ep = ctx.children[child];
  const auto header = DecodeControl(packet.payload);
  if (packet.bth.opcode != roce::Opcode::kRcSendOnlyImm || !header ||
      header->invocation != static_cast<uint64_t>(ep.in.next_invocation()) ||
      (ep.config.is_host && header->status != ControlStatus::kOk)) {
    Drop(ctx, ep, DropReason::kBadControl, env);
    return false;
  }
  const int64_t number = ep.in.next_invocation();
  const bool opens = ctx.invocations.empty() || ctx.invocations.back().number < number;
  const bool group_has_room = static_cast<int64_t>(ctx.invocations.size()) < kKeptInvocations ||
                              ctx.invocations[1].control_index <= ctx.results_end;
  const Index needed = ep.config.is_host ? ep.last_down_acked + 1 : ctx.results_end;
  if ((opens && !group_has_room) || !ep.in.CanOpenKeeping(needed)) {
    Drop(ctx, ep, DropReason::kAboveWindow, env);
    return false;
  }
  ControlSlot& slot = ControlSlotOf(ctx, number);
  if (opens) {
    OpenInvocation(ctx, *header);
    slot = ControlSlot{.invocation = number, .header = *header};
    if (!Supported(*header) && header->status == ControlStatus::kOk) {
      slot.header.status = ControlStatus::kUnsupported;
      slot.header.culprit = ep.config.ranks.front();
    }
  }
  const Index index = ep.in.next_index();
  OpenAtChild(ctx, ctx.invocations[static_cast<size_t>(number - ctx.invocations.front().number)], ep);
  MergeControl(ctx, slot, child, *header, packet.bth.ack_req);
  ep.up_epsn = index + 1;
  ForwardIfComplete(ctx, index, slot.arrived, slot.ack_req, env);
  return true;
}

bool AcceptData(Context& ctx, size_t child, Index index, const roce::Packet& packet, Env& env) {
  Endpoint& ep = ctx.children[child];
  const auto position = Locate(ctx, index);
  DropReason reason = DropReason::kCount;
  if (ctx.state != GroupState::kRunning) {
    reason = DropReason::kGroupFailed;
  } else if (index >= ctx.results_end + ctx.config.slots || !position) {
    reason = DropReason::kAboveWindow;
  } else if (packet.bth.opcode != OpcodeAt(ctx, *position)) {
    reason = DropReason::kUnexpectedOpcode;
  } else if (packet.payload.size() != BytesAt(ctx, *position)) {
    reason = DropReason::kBadLength;
  }
  if (reason != DropReason::kCount) {
    Drop(ctx, ep, reason, env);
    return false;
  }
  Slot& slot = SlotOf(ctx, index, env.arena);
  RecycleBuffer(slot, index);
  ep.up_epsn = index + 1;
  if (CheckDuplicate(slot, child)) return true;
  AggregateData(ctx, slot, child, *position->invocation, packet.bth.ack_req, packet.payload, env.arena);
  ForwardIfComplete(ctx, index, slot.arrived, slot.ack_req, env);
  return true;
}

// A packet that this child has had counted already.
void AnswerDuplicate(Context& ctx, Endpoint& ep, Index index, Env& env) {
  ++ep.counters.duplicates;
  if (ep.config.is_host && index <= ep.last_down_acked) {
    if (ep.last_down_acked >= 0) SendAck(ep, ep.last_down_acked, env);
  } else if (index >= 0 && index < ctx.results_end) {
    AnswerRequest(ctx, ep, index, index + 1, env);
  } else if (ep.config.is_host && index >= 0) {
    TellToWait(ep, env);
  }
  Drop(ctx, ep, DropReason::kDuplicate, env);
}

void UpData(Context& ctx, size_t child, const roce::Packet& packet, Env& env) {
  Endpoint& ep = ctx.children[child];
  ep.repeat_ack_at = kNever;
  const Index index = UpIndexOf(ep, packet.bth.psn);
  if (index < ep.up_epsn) return AnswerDuplicate(ctx, ep, index, env);
  if (index > ep.up_epsn) {
    ++ep.counters.gaps;
    Drop(ctx, ep, DropReason::kGap, env);
    if (ep.nak_sent) return;
    ep.nak_sent = true;
    return SendNak(ep, ep.config.is_host ? ep.last_down_acked + 1 : ep.up_epsn, env);
  }
  const bool control = index == ep.in.next_index();
  if (control ? !AcceptControl(ctx, child, packet, env) : !AcceptData(ctx, child, index, packet, env)) return;
  ep.nak_sent = false;
  if (ep.up_epsn > ctx.max_up_epsn) {
    ctx.max_up_epsn = ep.up_epsn;
    WatchChildren(ctx, env);
  }
  OnChildProgress(ctx, ep, env);
}

void DownData(Context& ctx, const roce::Packet& packet, Env& env) {
  Endpoint& parent = ctx.parent;
  const auto index = parent.in.IndexOf(packet.bth.psn);
  if (!index || *index >= ctx.up_sent) return Drop(ctx, parent, DropReason::kUnexpectedResult, env);
  const auto position = Locate(ctx, *index);
  if (!position) return Drop(ctx, parent, DropReason::kStaleSlot, env);
  if (packet.bth.opcode != OpcodeAt(ctx, *position))
    return Drop(ctx, parent, DropReason::kUnexpectedOpcode, env);
  if (packet.payload.size() != BytesAt(ctx, *position)) return Drop(ctx, parent, DropReason::kBadLength, env);
  if (*index > ctx.results_end) {
    ++parent.counters.gaps;
    Drop(ctx, parent, DropReason::kGap, env);
    if (!parent.nak_sent) AskParent(ctx, ctx.results_end, env);
    parent.nak_sent = true;
    return;
  }
  if (*index < ctx.results_end) {
    for (Endpoint& child : ctx.children) {
      if (!child.want.Contains(*index)) continue;
      child.want.from = *index + 1;
      if (child.config.is_host && *index <= child.last_down_acked) continue;
      SendData(ctx, child, *index, packet.payload, /*ack_req=*/true, env);
      ++ctx.counters.repeats;
      ++ctx.counters.replicated_packets;
    }
    return;
  }
  if (position->control) {
    const auto header = DecodeControl(packet.payload);
    if (!header || header->invocation != static_cast<uint64_t>(position->invocation->number)) {
      return Drop(ctx, parent, DropReason::kBadControl, env);
    }
    if (header->status != ControlStatus::kOk) ctx.state = GroupState::kFailed;
  }
  parent.nak_sent = false;
  PublishResult(ctx, *index, packet.payload, packet.bth.ack_req, env);
}

// An acknowledgement from a host: reflected, because the host's responder has the result only after its
// requester's packet has been counted everywhere.
void HostAeth(Context& ctx, Endpoint& host, const roce::Packet& packet, Env& env) {
  const uint8_t syndrome = packet.aeth.syndrome;
  const bool negative = !roce::IsAck(syndrome);
  const Psn acked_psn = negative ? packet.bth.psn - 1 : packet.bth.psn;
  const Index acked = host.out.IndexOf(acked_psn).value_or(-1);
  if (acked >= ctx.results_end || (acked < 0 && acked_psn.DistanceFrom(host.out.next_wire()) >= 0)) {
    return Drop(ctx, host, DropReason::kAckBeyond, env);
  }
  host.repeat_ack_at = kNever;
  const bool advances = acked > host.last_down_acked;
  if (advances) {
    host.last_down_acked = acked;
    OnChildProgress(ctx, host, env);
  }
  if (negative) {
    SendAeth(host, syndrome, host.last_down_acked + 1, host.last_down_acked, env);
  } else if (advances) {
    SendAck(host, host.last_down_acked, env);
    host.repeat_ack_at = env.now + ctx.config.prompt_ns;
    ArmTimer(ctx, host.repeat_ack_at, env);
  } else {
    Drop(ctx, host, DropReason::kDuplicate, env);
  }
}

void SwitchAeth(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) {
  Endpoint& ep = from == kParent ? ctx.parent : ctx.children[Raw(from)];
  auto index = ep.out.IndexOf(packet.bth.psn);
  if (!index && packet.bth.psn == ep.out.next_wire()) index = ep.out.next_index();
  if (packet.aeth.syndrome != roce::kSyndromeNakSequence || !index) {
    return Drop(ctx, ep, DropReason::kUnexpectedOpcode, env);
  }
  if (from != kParent) {
    if (*index < ctx.results_end) return AnswerRequest(ctx, ep, *index, ctx.results_end, env);
    // The child waits for a result that does not exist. If that is for want of its own part, it must hear so.
    if (ep.up_epsn <= *index) SendNak(ep, ep.up_epsn, env);
    return;
  }
  if (*index < ctx.up_sent) return RepeatUp(ctx, *index, env);
  if (env.now < ctx.handed_down_at + ctx.config.prompt_ns / 4) return;
  ctx.handed_down_at = env.now;
  HandDown(ctx, ctx.up_sent, env);
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
      AskParent(ctx, ctx.results_end, env);
      ctx.uplink_at = env.now + BackedOff(ctx, ++ctx.uplink_backoff);
    }
    next = std::min(next, ctx.uplink_at);
    for (Endpoint& child : ctx.children) {
      if (env.now >= child.repeat_ack_at) {
        child.repeat_ack_at = kNever;
        SendAck(child, child.last_down_acked, env);
      }
      if (env.now >= child.prompt_at) {
        Prompt(child, env);
        child.prompt_at = env.now + BackedOff(ctx, ++child.prompt_backoff);
      }
      next = std::min({next, child.repeat_ack_at, child.prompt_at});
    }
    ArmTimer(ctx, next, env);
  }
};

}  // namespace

const ModeLogic& TranslatedMode() {
  static const Translated mode;
  return mode;
}

}  // namespace epic::engine
