#include "incengine/modules/admit.h"

#include <algorithm>
#include <utility>

#include "incengine/modules/buffer.h"
#include "incengine/modules/transmit.h"

namespace epic::engine {
namespace {

// Is the packet the first of a control message with this header?
bool BeginsMessage(const Context& ctx, const roce::Packet& packet, const ControlHeader& header) {
  if (IsLengthUnknown(header)) {
    const size_t bytes = packet.payload.size(), most = ctx.config.path_mtu;
    if (packet.bth.opcode == roce::Opcode::kRcSendFirst) return bytes == most;
    return packet.bth.opcode == roce::Opcode::kRcSendOnlyImm && bytes <= most;
  }
  const bool alone = header.status != ControlStatus::kOk;
  const DataLayout layout =
      alone ? DataLayout{} : LayoutOf(header, ctx.config.path_mtu, ctx.config.message_packets);
  return packet.bth.opcode == ControlOpcode(0, layout.control_packets) &&
         packet.payload.size() == ControlPacketBytes(layout, ctx.config.path_mtu, 0);
}

}  // namespace

bool IsSend(roce::Opcode opcode) {
  switch (opcode) {
    case roce::Opcode::kRcSendFirst:
    case roce::Opcode::kRcSendMiddle:
    case roce::Opcode::kRcSendLast:
    case roce::Opcode::kRcSendLastImm:
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
    SendAeth(ep, roce::kSyndromeNakInvalidRequest, ep.progress.up_told, ep.progress.up_told - 1, env);
}

DropReason MisfitAt(const Context& ctx, const Position& position, const roce::Packet& packet) {
  if (position.header() && packet.payload.size() == kControlBytes) {
    const auto header = HeaderOf(packet.payload);
    if (header && header->status != ControlStatus::kOk && packet.bth.opcode == roce::Opcode::kRcSendOnlyImm)
      return DropReason::kCount;
  }
  if (packet.bth.opcode != OpcodeAt(ctx, position)) return DropReason::kUnexpectedOpcode;
  return packet.payload.size() == BytesAt(ctx, position) ? DropReason::kCount : DropReason::kBadLength;
}

bool BringsData(const roce::Packet& packet) { return packet.payload.size() > kControlBytes; }

namespace {

// AggregateData, once, in the slot of the index.
void Add(Context& ctx, size_t child, Index index, const Position& position, const roce::Packet& packet,
         Env& env) {
  Slot& slot = SlotOf(ctx, index, env.arena);
  RecycleBuffer(slot, index);
  if (CheckDuplicate(slot, child)) return;
  if (env.contributions != nullptr) return env.contributions->Add(ctx, child, index, position, packet, env);
  AggregateData(ctx, slot, child, position, packet.bth.ack_req, packet.payload, env.arena);
}

// Data of a group whose memory is a block, inlined ones too, come when it has been granted, and not
// otherwise.
bool MayUseMemory(const Context& ctx, int64_t number, const ControlHeader& header) {
  const DataLayout layout = LayoutOf(header, ctx.config.path_mtu, 1);
  if (ctx.config.block == 0 || (layout.packets() == 0 && layout.inlined_bytes == 0)) return true;
  return IsGranted(header) && ctx.hold.has_memory && number < ctx.hold.granted_end;
}

}  // namespace

bool AdmitControl(Context& ctx, size_t child, const roce::Packet& packet, Index needed, Index held,
                  Env& env) {
  Endpoint& ep = ctx.children[child];
  auto header = HeaderOf(packet.payload);
  if (!header || !BeginsMessage(ctx, packet, *header) || (header->priority != 0 && !ctx.pooled) ||
      header->invocation != static_cast<uint64_t>(ep.in.next_invocation()) ||
      (ep.config.is_host && header->status != ControlStatus::kOk)) {
    Refuse(ctx, ep, DropReason::kBadControl, env);
    return false;
  }
  // Who gets the reply, and the server, may be of a version that knows of none.
  const uint32_t said = std::exchange(header->priority, 0);
  const int64_t number = ep.in.next_invocation();
  const bool opens = ctx.invocations.empty() || ctx.invocations.back().number < number;
  const bool group_has_room = static_cast<int64_t>(ctx.invocations.size()) < kKeptInvocations ||
                              ctx.invocations[1].control_index <= held;
  if ((opens && !group_has_room) || !ep.in.CanOpenKeeping(needed)) {
    Drop(ctx, ep, DropReason::kAboveWindow, env);
    return false;
  }
  const Index index = ep.in.next_index();
  if (BringsData(packet)) {
    const bool failed = ctx.state != GroupState::kRunning;
    const bool stale = ctx.hold.has_memory && SlotOf(ctx, index, env.arena).index > index;
    if (failed || stale) {
      Drop(ctx, ep, failed ? DropReason::kGroupFailed : DropReason::kStaleSlot, env);
      return false;
    }
  }
  ControlSlot& slot = ControlSlotOf(ctx, number);
  if (opens) {
    ControlField wrong = WrongField(*header, ctx.config.world_size, MessageBytes(ctx.config));
    if (wrong == ControlField::kNone && !MayUseMemory(ctx, number, *header)) wrong = ControlField::kFlags;
    const bool can = wrong == ControlField::kNone && CanServe(ctx.config.abilities, *header);
    OpenInvocation(ctx, *header, can);
    slot = ControlSlot{.invocation = number, .header = *header, .called_at = env.now};
    if (header->status == ControlStatus::kOk && !can) {
      slot.header.status = ControlStatus::kUnsupported;
      slot.header.field = wrong;
      slot.header.culprit = ep.config.ranks.front();
    }
  }
  OpenAtChild(ctx, ctx.invocations[static_cast<size_t>(number - ctx.invocations.front().number)], ep);
  MergeControl(ctx, slot, child, *header, packet.bth.ack_req);
  if (ctx.pooled) slot.priority = std::max(slot.priority, SaidPriority(said, ctx.config.priority_limit));
  ep.progress.up_epsn = ep.in.Next(index + 1);
  // If there are data and the status is OK, the header is the reference's, and the length with it.
  const auto position = Locate(ctx, index);
  if (LiesInSlot(ctx, *position)) Add(ctx, child, index, *position, packet, env);
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
  } else if (position->control && !LiesInSlot(ctx, {.invocation = position->invocation, .control = true})) {
    reason = DropReason::kGroupFailed;  // the headers of this call differ
  } else if (IsTracked(*position) && ctx.results_end <= position->invocation->control_index) {
    reason = DropReason::kTooEarly;
  } else if (!ctx.hold.has_memory) {
    reason = DropReason::kTooEarly;
  } else if (SlotOf(ctx, index, env.arena).index > index) {
    reason = DropReason::kStaleSlot;
  }
  if (reason != DropReason::kCount) {
    Drop(ctx, ep, reason, env);
    return false;
  }
  if (const DropReason misfit = MisfitAt(ctx, *position, packet); misfit != DropReason::kCount) {
    Refuse(ctx, ep, misfit, env);
    return false;
  }
  ep.progress.up_epsn = ep.in.Next(index + 1);
  Add(ctx, child, index, *position, packet, env);
  return true;
}

}  // namespace epic::engine
