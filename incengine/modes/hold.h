// A group and its block: who asks, who is told, and how long it has the memory (docs/PROTOCOL-BLOCKS.md,
// whose tables these functions follow; EPIC paper, section 6.2). The steps of modes II and III alike.
#pragma once

#include "incengine/modules/env.h"

namespace epic::engine {

// A control message of this child has been merged. If it is a request and the last of its invocation, the
// block is asked for: it is the group's from now on, or the request is marked busy.
void Ask(Context& ctx, const Endpoint& child, Env& env);

// May this be the reply to a control packet: not the grant of memory that this switch has not got.
bool MayDecide(Context& ctx, const ControlHeader& reply);

// The reply to a control packet passes: a fatal status stops the data of the group, and a request is decided.
void Decide(Context& ctx, const ControlHeader& reply);

// The group has let go of its block: it has failed, or it has had all that it was granted.
void Free(Context& ctx, Block& block);

// Frees the block if the group has it for nothing any more. `needed` is ModeLogic::FirstNeeded. True if it is
// free now and was not.
bool FreeWhenDrained(Context& ctx, Block& block, Index needed);

// W and N that a region of so many bytes has room for, at most those of the config; a window of 0: for none.
struct Room {
  uint32_t window_messages = 0;
  uint32_t slots = 0;
};
Room RoomIn(const GroupConfig& config, size_t bytes);

}  // namespace epic::engine
