#include "incengine/modules/admit.h"

#include "incengine/modules/buffer.h"
#include "incengine/modules/transmit.h"
#include "reduce/reduce.h"

namespace epic::engine {
namespace {

bool Supported(const ControlHeader& header) {
  return !Reduces(header.collective) || header.count == 0 || CanReduce(header.op, header.type);
}

}  // namespace

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

Index UpIndexOf(const Endpoint& child, Psn psn) {
  if (const auto index = child.in.IndexOf(psn)) return *index;
  const int32_t ahead = psn.DistanceFrom(child.in.next_wire());
  if (ahead < 0) return -1;
  return child.in.next_index() + (ahead > 0 ? 1 : 0);
}

void Refuse(Context& ctx, Endpoint& ep, DropReason reason, Env& env) {
  Drop(ctx, ep, reason, env);
  const int64_t last = ep.in.next_invocation() - 1;
  const bool agreed = last < 0 || ControlSlotOf(ctx, last).header.status == ControlStatus::kOk;
  if (ep.config.is_host && agreed)
    SendAeth(ep, roce::kSyndromeNakInvalidRequest, ep.up_told, ep.up_told - 1, env);
}

bool AdmitControl(Context& ctx, size_t child, const roce::Packet& packet, Index needed, Index held,
                  Env& env) {
  Endpoint& ep = ctx.children[child];
  const auto header = DecodeControl(packet.payload);
  if (packet.bth.opcode != roce::Opcode::kRcSendOnlyImm || !header ||
      header->invocation != static_cast<uint64_t>(ep.in.next_invocation()) ||
      (ep.config.is_host && header->status != ControlStatus::kOk)) {
    Refuse(ctx, ep, DropReason::kBadControl, env);
    return false;
  }
  const int64_t number = ep.in.next_invocation();
  const bool opens = ctx.invocations.empty() || ctx.invocations.back().number < number;
  const bool group_has_room = static_cast<int64_t>(ctx.invocations.size()) < kKeptInvocations ||
                              ctx.invocations[1].control_index <= held;
  if ((opens && !group_has_room) || !ep.in.CanOpenKeeping(needed)) {
    Drop(ctx, ep, DropReason::kAboveWindow, env);
    return false;
  }
  ControlSlot& slot = ControlSlotOf(ctx, number);
  if (opens) {
    const ControlField wrong = WrongField(*header, ctx.config.world_size);
    const bool can = wrong == ControlField::kNone && Supported(*header);
    OpenInvocation(ctx, *header, can);
    slot = ControlSlot{.invocation = number, .header = *header};
    if (header->status == ControlStatus::kOk && !can) {
      slot.header.status = ControlStatus::kUnsupported;
      slot.header.field = wrong;
      slot.header.culprit = ep.config.ranks.front();
    }
  }
  const Index index = ep.in.next_index();
  OpenAtChild(ctx, ctx.invocations[static_cast<size_t>(number - ctx.invocations.front().number)], ep);
  MergeControl(ctx, slot, child, *header, packet.bth.ack_req);
  ep.up_epsn = ep.in.Next(index + 1);
  return true;
}

bool AdmitData(Context& ctx, size_t child, Index index, const roce::Packet& packet, Env& env) {
  Endpoint& ep = ctx.children[child];
  const auto position = Locate(ctx, index);
  DropReason reason = DropReason::kCount;
  if (ctx.state != GroupState::kRunning) {
    reason = DropReason::kGroupFailed;
  } else if (!position) {
    reason = DropReason::kAboveWindow;
  } else if (IsTracked(*position) && ctx.results_end <= position->invocation->control_index) {
    reason = DropReason::kTooEarly;
  } else if (SlotOf(ctx, index, env.arena).index > index) {
    reason = DropReason::kStaleSlot;
  }
  if (reason != DropReason::kCount) {
    Drop(ctx, ep, reason, env);
    return false;
  }
  if (packet.bth.opcode != OpcodeAt(ctx, *position)) {
    Refuse(ctx, ep, DropReason::kUnexpectedOpcode, env);
    return false;
  }
  if (packet.payload.size() != BytesAt(ctx, *position)) {
    Refuse(ctx, ep, DropReason::kBadLength, env);
    return false;
  }
  Slot& slot = SlotOf(ctx, index, env.arena);
  RecycleBuffer(slot, index);
  ep.up_epsn = ep.in.Next(index + 1);
  if (CheckDuplicate(slot, child)) return true;
  AggregateData(ctx, slot, child, *position, packet.bth.ack_req, packet.payload, env.arena);
  return true;
}

}  // namespace epic::engine
