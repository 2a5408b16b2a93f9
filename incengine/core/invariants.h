// What always holds of a group's context, between any two events.
#pragma once

#include "incengine/state/context.h"

namespace epic::engine {

// A broken one ends the program (EPIC_CHECK). Unit tests and the fuzzer call it after each event, the
// virtual-time world after each timer: it looks at all children, which is too much for each packet. The
// explorer does not: it has rules of its own, by which it names what a canary breaks.
void CheckInvariants(const Context& ctx);

}  // namespace epic::engine
