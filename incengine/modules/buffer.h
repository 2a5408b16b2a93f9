// The payload and degree buffers: CheckDuplicate, AggregateData and RecycleBuffer of the paper (Algorithm 1),
// for data packets in slots and for control packets in their ring.
#pragma once

#include <span>

#include "incengine/modules/env.h"
#include "incengine/modules/position.h"

namespace epic::engine {

// The slot of an index: index mod N. It may hold another index.
Slot& SlotOf(const Context& ctx, Index index, Arena& arena);

// The first bytes of a buffer of the switch's pool, or of the group's own (docs/PROTOCOL-MODE-V.md).
std::span<uint8_t> BufferOf(const Context& ctx, uint32_t buffer, size_t bytes, Arena& arena);

// Nobody needs what lies in the buffer any more.
void GiveBack(Context& ctx, uint32_t buffer, Env& env);

// The first bytes of the slot's payload: an accumulator until every contribution has come.
std::span<uint8_t> PayloadOf(const Context& ctx, Index index, size_t bytes, Arena& arena);

// The ring place of an invocation's control packet. It may hold another invocation.
ControlSlot& ControlSlotOf(Context& ctx, int64_t invocation);

// RecycleBuffer: a slot that holds an older index is reset and given to this one. Nothing is cleared in
// advance. Returns true if the slot was claimed now.
bool RecycleBuffer(Slot& slot, Index index);

// CheckDuplicate: has this child's contribution been counted?
bool CheckDuplicate(const Slot& slot, size_t child);

// Do the bytes of the packet at the position lie in its slot? Not those of a header alone, which the ring
// has: of a call without inlined data, or with a status that is not OK.
bool LiesInSlot(const Context& ctx, const Position& position);

// Bytes of what is summed at the position, while it is summed: without the header that may be in front of it.
size_t SumBytes(const Context& ctx, const Position& position);

// AggregateData: adds the payload's data to the sum, or keeps the copy of a collective that copies (inlined,
// everybody sends one, and all but one are zeros); sets the child's bit, ORs AckReq. When the last
// contribution has come the payload is in wire form, unless a part of the sum is elsewhere; behind the header
// if it begins with one. In a
// reproducible group contributions are kept apart until then and added in the order of the children.
void AggregateData(Context& ctx, Slot& slot, size_t child, const Position& position, bool ack_req,
                   std::span<const uint8_t> payload, Arena& arena);

// AggregateData for control packets: by equality. The header of the lowest rank is the reference, whoever
// comes first; one that differs makes the status kMismatch, with the lowest rank that does and the field.
// What a switch below has refused for another reason is kept, and a request that one found busy is so
// (docs/PROTOCOL.md, section 3).
void MergeControl(Context& ctx, ControlSlot& slot, size_t child, const ControlHeader& header, bool ack_req);

}  // namespace epic::engine
