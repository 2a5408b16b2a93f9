// What may enter the buffers: packets from children at exactly the index expected next, of the shape that
// their position demands (docs/PROTOCOL.md, section 5.1).
#pragma once

#include "incengine/modules/env.h"
#include "incengine/modules/position.h"

namespace epic::engine {

// The Send opcodes that hosts use.
bool IsSend(roce::Opcode opcode);

// The index of an up packet: of an open segment, or the next control packet's. Past ones come out as -1, ones
// further ahead as next_index() + 1.
Index UpIndexOf(const Endpoint& child, Psn psn);

// Drops a packet that its position does not allow, and ends the queue pair of a host that sent it, as a
// responder does (InfiniBand Architecture Specification 1.4, section 9.7.5.2.4): it is out of step for good.
// Not so after a mismatch: then positions differ because the calls do, and the reply says so.
void Refuse(Context& ctx, Endpoint& ep, DropReason reason, Env& env);

// Why no packet of that opcode and length can lie at the position; kCount if one can. A header with a status
// that is not OK is alone, wherever one may be.
DropReason MisfitAt(const Context& ctx, const Position& position, const roce::Packet& packet);

// Does the packet, where a control packet is due, bring data that need a slot?
bool BringsData(const roce::Packet& packet);

// A control packet where one is due: merges it, adds the data behind it if it agrees with those before it,
// opens the invocation if it is the first, and moves up_epsn.
// `needed` is the first index of the child's segments that must not be forgotten, `held` the first of the
// group's. False if it is refused.
bool AdmitControl(Context& ctx, size_t child, const roce::Packet& packet, Index needed, Index held, Env& env);

// A data packet at up_epsn, inside the window, or one of a control message behind its first: aggregates it
// and moves up_epsn. False if it is refused.
bool AdmitData(Context& ctx, size_t child, Index index, const roce::Packet& packet, Env& env);

}  // namespace epic::engine
