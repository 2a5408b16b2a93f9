// How far a group has come at this switch: what is due, what is complete (docs/PROTOCOL.md, section 5).
#pragma once

#include <array>
#include <span>

#include "incengine/modules/env.h"
#include "incengine/modules/position.h"

namespace epic::engine {

// MW: how far behind what it knows as acknowledged a sender may be.
Index Window(const Context& ctx);

// The index whose result is due next: at the root it becomes complete here, elsewhere the parent sends it.
Index ResultDue(const Context& ctx);

// The index that is to be sent to the parent next. Not at the root.
Index UpDue(const Context& ctx);

// Has every child that contributes to the index done so?
bool IsComplete(Context& ctx, Index index, const Position& position, Env& env);

// The payload of a complete index, in wire form. `bytes` is where a control packet is put.
std::span<const uint8_t> HeldPayload(Context& ctx, Index index, const Position& position,
                                     std::array<uint8_t, kControlBytes>& bytes, Env& env);

// Did any contributor of a complete index ask for an acknowledgement?
bool HeldAckReq(Context& ctx, Index index, const Position& position, Env& env);

// Sends the sum of a complete slot or control slot to one endpoint, again if it was sent before. False if the
// slot holds another index.
bool SendHeld(Context& ctx, Endpoint& to, Index index, bool ack_req, Env& env);

}  // namespace epic::engine
