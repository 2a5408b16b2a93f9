// Steps of mode III that a mode made of it takes by itself (modes/pooled.cc).
#pragma once

#include "incengine/modes/mode.h"
#include "incengine/modules/env.h"

namespace epic::engine {

// Mode III itself. AugmentedMode, by which the table has it, is in a file of its own: a program may put
// another mode in its place there.
const ModeLogic& AugmentedLogic();

// Sends on what has become complete: to the parent; at the root down, to those who receive it.
void AdvanceUp(Context& ctx, Env& env);

// There is no room for the packet that the child sent, which is the one expected: come again later. Drops it.
void Defer(Context& ctx, Endpoint& ep, Index expected, Env& env);

}  // namespace epic::engine
