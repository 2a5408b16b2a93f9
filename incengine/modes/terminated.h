// Mode I's pieces: terminated.cc has queue pairs and what comes down, terminated_up.cc the aggregation,
// terminated_stream.cc the places in the stream of messages (docs/PROTOCOL-MODE-I.md); and initiated.cc what
// is different at hosts in mode VI (docs/PROTOCOL-MODE-VI.md).
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

// The header of the control message that the message is, if it is one; `described`: it comes from a host that
// says where its data lie.
std::optional<ControlHeader> ControlOf(ModeCall& call, const Message& message, bool described = false);

// Writes a control packet where a message begins.
void WriteControl(ModeCall& call, const ControlHeader& header, Message* message);

// The control packet that takes the place of what a peer has broken.
ControlHeader Aborted(const StreamPlace& place, uint32_t culprit);

// Hands a message of a ring to a queue pair, or to those of the children in the mask.
void PostSend(TerminatedEndpoint& to, uint64_t number, const Message& message);
// `place`: where in the stream the message is, if it has data.
void PostToChildren(ModeCall& call, uint64_t outs, uint64_t number, const Message& message,
                    const StreamPlace& place);

// Posts the endpoint's receive, if it has none and there is room for the longest message.
void PostReceive(const Context& ctx, TerminatedEndpoint& at);

// Does the next thing that can be done to the message that is being aggregated. False if there is none.
bool AdvanceUp(ModeCall& call);

// A child has broken its stream: the group fails, at this place, on every rank.
void FailFor(ModeCall& call, size_t child, DropReason reason);

// Mode VI. Of a call whose state.initiated there is.

// Requests that no ring holds have numbers from here on: Reads, and replies.
inline constexpr uint64_t kOwnRequests = uint64_t{1} << 62;

// The child's memory is read and written.
inline bool IsPulled(const ModeCall& call, size_t child) {
  return call.state.initiated && call.state.initiated->hosts[child].has_value();
}

// Takes what stands behind a header, if that says that it does. False if it is not sound.
bool TakeDescriptor(ModeCall& call, size_t child, const ControlHeader& header, const Message& message);

// Of the children, those to which a control message goes at once: hosts get the reply of a call whose data
// are read when these have been read and written.
uint64_t WithoutAwaiting(const ModeCall& call, uint64_t outs, const ControlHeader& header);

// The place has come to an invocation's data, or to what follows it: what hosts give may be read.
void BeginReads(ModeCall& call);

// Posts the Reads for which there is room.
void PostReads(ModeCall& call);

// A Read has ended, well or not; a reply has been sent.
void OnOwnRequestDone(ModeCall& call, EndpointId from, const roce::Completion& done);

// The oldest message of what has been read whole; null if there is none. And it has been used.
const Message* FrontRead(const ModeCall& call, size_t child);
void ReleaseRead(ModeCall& call, size_t child);

// Data of a ring go into the memory of these children, or to those that are switches.
void PostPulled(ModeCall& call, uint64_t outs, uint64_t number, const Message& message,
                const StreamPlace& place);

// The invocation of this header, whose status is OK, is behind the stream's place up, or down.
void OnPassedUp(ModeCall& call, const ControlHeader& header);
void OnPassedDown(ModeCall& call, const ControlHeader& header);

}  // namespace epic::engine::terminated
