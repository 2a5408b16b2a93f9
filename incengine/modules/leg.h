// The leg: the RC connection to a group's fallback server, by which sums that have lost their place in the
// pool go there, and come back whole (docs/PROTOCOL-MODE-V.md, section 4). Only of groups with a pool.
#pragma once

#include "incengine/modules/env.h"
#include "incengine/modules/position.h"

namespace epic::engine {

// A part of what is summed at the index leaves, in a buffer of the pool that is leaving; with `last` nothing
// more of the index follows. The server hears first what the invocation is. The packets leave with PollLeg.
void PostPart(Context& ctx, Index index, const Position& position, uint32_t buffer, bool last);

// Asks the server for the sum of an index, which is to come into the buffer.
void PostFetch(Context& ctx, const Fetch& fetch, const Position& position);

// Bytes that a sum from the server has: without the header that may be in front of it.
size_t SumBytesBack(const Context& ctx, const Position& position);

// A packet of the server, for the queue pair.
void TakeLegPacket(Context& ctx, const roce::Packet& packet, Env& env);

// Lets the queue pair send, and sets the group's timer for it.
void PollLeg(Context& ctx, Env& env);

// Nothing is sent or received any more; what has been posted completes.
void CloseLeg(Context& ctx);

}  // namespace epic::engine
