// Mode I's pieces: terminated.cc has queue pairs and what comes down, terminated_up.cc the aggregation,
// terminated_stream.cc the places in the stream of messages (docs/PROTOCOL-MODE-I.md).
#pragma once

#include <optional>
#include <span>

#include "incengine/modules/env.h"
#include "incengine/state/terminated_state.h"

namespace epic::engine::terminated {

inline constexpr uint32_t kLkey = 1;  // of the group's part of the arena

// One call of the mode's: the context with what belongs to it.
struct ModeCall {
  Context& ctx;
  TerminatedState& state;
  Env& env;

  Endpoint& endpoint(EndpointId id) { return id == kParent ? ctx.parent : ctx.children[Raw(id)]; }
  TerminatedEndpoint& transport(EndpointId id) {
    return id == kParent ? *state.parent : state.children[Raw(id)];
  }
  std::span<uint8_t> Bytes(uint64_t at, size_t bytes) { return env.arena.At(ctx.arena_offset + at, bytes); }
  // Where what goes to the children is kept.
  MessageRing& down_ring() { return ctx.is_root() ? state.sums : state.parent->received; }
};

// Packets that a message takes.
int64_t PacketsOf(const Context& ctx, const Message& message);

// Is it data that its senders do not get back (protocol/flow.h)?
bool IsTracked(const StreamPlace& place);

// The length of the data message at a place.
uint32_t BytesOf(const Context& ctx, const StreamPlace& place);

// From a control packet, whose merged header this is, to what follows it: going up, or coming down.
void OpenDataUp(const Context& ctx, StreamPlace& place, const ControlHeader& header);
void OpenDataDown(const Context& ctx, StreamPlace& place, const ControlHeader& header);

// From a data message to what follows it.
void StepUp(const Context& ctx, StreamPlace& place);
void StepDown(const Context& ctx, StreamPlace& place);

// The children that get the message at a place, as a bit mask.
uint64_t ReceiversOf(const Context& ctx, const StreamPlace& place);

// Bytes of a control message with this header: inlined data follow it unless its status is not OK.
uint64_t ControlBytesOf(const ControlHeader& header);

// The header of the control message that the message is, if it is one.
std::optional<ControlHeader> ControlOf(ModeCall& call, const Message& message);

// Writes a control packet where a message begins.
void WriteControl(ModeCall& call, const ControlHeader& header, Message* message);

// The control packet that takes the place of what a peer has broken.
ControlHeader Aborted(const StreamPlace& place, uint32_t culprit);

// Hands a message of a ring to a queue pair, or to those of the children in the mask.
void PostSend(TerminatedEndpoint& to, uint64_t number, const Message& message);
void PostToChildren(ModeCall& call, uint64_t outs, uint64_t number, const Message& message);

// Posts the endpoint's receive, if it has none and there is room for the longest message.
void PostReceive(const Context& ctx, TerminatedEndpoint& at);

// Does the next thing that can be done to the message that is being aggregated. False if there is none.
bool AdvanceUp(ModeCall& call);

// A child has broken its stream: the group fails, at this place, on every rank.
void FailFor(ModeCall& call, size_t child, DropReason reason);

}  // namespace epic::engine::terminated
