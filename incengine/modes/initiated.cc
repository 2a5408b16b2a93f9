// Mode VI, initiated: mode I whose switches read what hosts give out of their memory, and write results into
// it (docs/PROTOCOL-MODE-VI.md, whose tables these functions follow; SCIN, section 3).
#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "incengine/modes/terminated.h"

namespace epic::engine::terminated {
namespace {

constexpr uint64_t kReply = kOwnRequests + 1;

PulledHost& HostAt(const ModeCall& call, size_t child) { return *call.state.initiated->hosts[child]; }

uint64_t OffsetIn(const Context& ctx, const MessagePlace& place) {
  return static_cast<uint64_t>(place.message) * TerminatedMessageBytes(ctx.config);
}

// To the next message that the host gives, if there is one; else before the first part.
void StepRead(const ModeCall& call, size_t child) {
  const StreamPlace& up = call.state.up;
  const auto given = [&](int64_t part) {
    return Sends(up.header, part, call.ctx.children[child].config.ranks);
  };
  StepToNext(up.layout, call.ctx.config.message_packets, given, &HostAt(call, child).next);
}

// What all ranks have called may be read; what its senders do not get back when all ranks have called it.
bool MayRead(const ModeCall& call) {
  const TerminatedState& state = call.state;
  if (state.up.control || state.up_failed || state.failure) return false;
  if (call.ctx.is_root() || !IsTracked(state.up)) return true;
  return state.down.invocation > state.up.invocation ||
         (state.down.invocation == state.up.invocation && !state.down.control);
}

void PostReadsOf(ModeCall& call, size_t child) {
  PulledHost& host = HostAt(call, child);
  TerminatedEndpoint& at = call.state.children[child];
  const StreamPlace& up = call.state.up;
  while (host.next.part >= 0 && host.read.size() - host.whole < MostReads(call.ctx.config)) {
    StreamPlace place = up;
    place.data = host.next;
    Message message{.bytes = BytesOf(call.ctx, place), .holders = 1};
    const auto room = host.read.Place(message.bytes);
    if (!room || at.qp.state() != roce::QpState::kRts) return;
    message.at = *room;
    const Descriptor& descriptor = host.DescriptorOf(up.invocation);
    roce::SendWr wr{.wr_id = kOwnRequests, .opcode = roce::WrOpcode::kRead};
    wr.sges.count = 1;
    wr.sges.sge[0] = {message.at, message.bytes, kLkey};
    wr.remote_address = SourceAt(descriptor, up.header, place.data.part, OffsetIn(call.ctx, place.data));
    wr.rkey = descriptor.source.rkey;
    EPIC_CHECK(at.qp.PostSend(wr) == roce::PostResult::kOk);
    at.poll = true;
    host.read.Append(message);
    StepRead(call, child);
  }
}

// Behind the last Write of the call on the same queue pair: the results are there when it comes.
void ReplyToHosts(ModeCall& call, const ControlHeader& header) {
  std::array<uint8_t, kControlBytes> bytes;
  Encode(header, bytes);
  for (uint64_t left = call.state.initiated->pulled; left != 0; left &= left - 1) {
    TerminatedEndpoint& to = call.state.children[static_cast<size_t>(std::countr_zero(left))];
    roce::SendWr wr{.wr_id = kReply, .opcode = roce::WrOpcode::kSendImm};
    wr.inline_bytes = bytes;
    wr.imm = static_cast<uint32_t>(header.invocation);
    EPIC_CHECK(to.qp.PostSend(wr) == roce::PostResult::kOk);
    to.poll = true;
    ++call.ctx.counters.replicated_packets;
  }
}

void PostWrite(ModeCall& call, size_t child, uint64_t number, const Message& message,
               const StreamPlace& place) {
  TerminatedEndpoint& to = call.state.children[child];
  const Descriptor& descriptor = HostAt(call, child).DescriptorOf(place.invocation);
  roce::SendWr wr{.wr_id = number, .opcode = roce::WrOpcode::kWrite};
  wr.sges.count = 1;
  wr.sges.sge[0] = {message.at, message.bytes, kLkey};
  wr.remote_address =
      DestinationAt(descriptor, place.header, place.data.part, OffsetIn(call.ctx, place.data));
  wr.rkey = descriptor.destination.rkey;
  EPIC_CHECK(to.qp.PostSend(wr) == roce::PostResult::kOk);
  to.poll = true;
}

}  // namespace

bool TakeDescriptor(ModeCall& call, size_t child, const ControlHeader& header, const Message& message) {
  if (!HasDescriptor(header)) return true;
  const auto descriptor = DecodeDescriptor(call.Bytes(message.at, message.bytes).subspan(kControlBytes));
  if (!descriptor) return false;
  // A call that no group of this size can have is refused for that.
  const bool is_call =
      WrongField(header, call.ctx.config.world_size, MessageBytes(call.ctx.config)) == ControlField::kNone;
  if (is_call && !IsSound(*descriptor, header, call.ctx.children[child].config.ranks.front())) return false;
  HostAt(call, child).DescriptorOf(call.state.up.invocation) = *descriptor;
  return true;
}

uint64_t WithoutAwaiting(const ModeCall& call, uint64_t outs, const ControlHeader& header) {
  if (!call.state.initiated || !HasDescriptor(header)) return outs;
  return outs & ~call.state.initiated->pulled;
}

void BeginReads(ModeCall& call) {
  for (uint64_t left = call.state.initiated->pulled; left != 0; left &= left - 1) {
    const auto child = static_cast<size_t>(std::countr_zero(left));
    HostAt(call, child).next = {};
    if (!call.state.up.control) StepRead(call, child);
  }
}

void PostReads(ModeCall& call) {
  if (!MayRead(call)) return;
  for (uint64_t left = call.state.initiated->pulled; left != 0; left &= left - 1)
    PostReadsOf(call, static_cast<size_t>(std::countr_zero(left)));
}

void OnOwnRequestDone(ModeCall& call, EndpointId from, const roce::Completion& done) {
  // What was not read stays in the ring: the group has failed.
  if (done.wr_id == kOwnRequests && done.ok()) ++HostAt(call, Raw(from)).whole;
}

const Message* FrontRead(const ModeCall& call, size_t child) {
  const PulledHost& host = HostAt(call, child);
  return host.whole == 0 ? nullptr : &host.read.front();
}

void ReleaseRead(ModeCall& call, size_t child) {
  PulledHost& host = HostAt(call, child);
  call.ctx.counters.aggregated_packets += static_cast<uint64_t>(PacketsOf(call.ctx, host.read.front()));
  host.read.Release(host.read.front_number());
  --host.whole;
}

void PostPulled(ModeCall& call, uint64_t outs, uint64_t number, const Message& message,
                const StreamPlace& place) {
  for (; outs != 0; outs &= outs - 1) {
    const auto child = static_cast<size_t>(std::countr_zero(outs));
    if (IsPulled(call, child)) {
      PostWrite(call, child, number, message, place);
    } else {
      PostSend(call.state.children[child], number, message);
    }
  }
}

void OnPassedUp(ModeCall& call, const ControlHeader& header) {
  if (!HasDescriptor(header)) return;
  std::optional<ControlHeader>& owed = call.state.initiated->owed_reply;
  if (!call.ctx.is_root() && (!owed || owed->invocation != header.invocation)) return;
  ReplyToHosts(call, call.ctx.is_root() ? header : *owed);
  owed.reset();
}

void OnPassedDown(ModeCall& call, const ControlHeader& header) {
  if (!HasDescriptor(header)) return;
  if (call.state.up.invocation > static_cast<int64_t>(header.invocation)) return ReplyToHosts(call, header);
  call.state.initiated->owed_reply = header;
}

}  // namespace epic::engine::terminated
