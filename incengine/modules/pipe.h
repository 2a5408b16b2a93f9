// Mode III's pipes: buffers that hold packets until everybody they go to has acknowledged them (EPIC paper,
// section 4.4; docs/PROTOCOL-MODE-III.md). The up pipe's slots are those of buffer.h; here is the down pipe.
#pragma once

#include <span>

#include "incengine/modules/env.h"
#include "incengine/modules/position.h"

namespace epic::engine {

// The first index that the up pipe must still hold: at the root the next result, else the first that the
// parent has not acknowledged. It takes indices below this plus N.
Index UpPipeStart(const Context& ctx);

// The first index that the down pipe must still hold: the first that some child has not acknowledged.
Index DownPipeStart(const Context& ctx);

// How far children may be told, and the parent: when a child knows it, or when the parent does, what the
// other sends then, at most a window further, has room here and is not more than a window further on the way
// to anybody below.
Index MayTellChildren(const Context& ctx);
Index MayTellParent(const Context& ctx);

// May the partial sum go to the parent, or the root's result down, by the window of what is under way there?
bool MaySendUp(const Context& ctx, Index index);
bool MayPublish(const Context& ctx, Index index, const Position& position);

// The slot down of an index: index mod N. It may hold another index.
Slot& DownSlotOf(const Context& ctx, Index index, Arena& arena);

// Puts a result into the down pipe. A header goes into the ring, in place of the merged request, with inlined
// data into the pipe as well. In a pool the payload stays in its buffer, which becomes the slot down's.
void StoreDown(Context& ctx, Index index, const Position& position, bool ack_req,
               std::span<const uint8_t> payload, Env& env);

// Sends a result that the down pipe holds to a child. False if a newer one has its place.
bool SendDown(Context& ctx, Endpoint& child, Index index, bool ack_req, Env& env);

// The same to every child in the mask.
void ReplicateDown(Context& ctx, uint64_t outs, Index index, bool ack_req, Env& env);

}  // namespace epic::engine
