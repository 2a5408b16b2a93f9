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

// Puts a result into the down pipe. A header goes into the ring, in place of the merged request, with inlined
// data into the pipe as well.
void StoreDown(Context& ctx, Index index, const Position& position, bool ack_req,
               std::span<const uint8_t> payload, Env& env);

// Sends a result that the down pipe holds to a child. False if a newer one has its place.
bool SendDown(Context& ctx, Endpoint& child, Index index, bool ack_req, Env& env);

// The same to every child in the mask.
void ReplicateDown(Context& ctx, uint64_t outs, Index index, bool ack_req, Env& env);

}  // namespace epic::engine
