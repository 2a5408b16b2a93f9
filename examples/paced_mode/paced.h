// An example of docs/ADDING-A-MODE.md: mode II in which a result goes to two children at once, to the next
// two a short time later, and so on, by the group's timer: for a switch whose queues a result for all at once
// would fill. No production switch offers it.
#pragma once

#include "incengine/modes/mode.h"

namespace epic::engine {

// Takes the memory of mode III: a down pipe beside the slots, from which results go when it is their turn.
// Children are not alike: turns are by their order.
const ModeLogic& PacedMode();

// How results leave in it.
extern const ResultWay kInTurns;

}  // namespace epic::engine
