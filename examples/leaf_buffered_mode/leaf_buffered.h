// The example of docs/ADDING-A-MODE.md: mode II with results buffered in the switches below the root (EPIC
// paper, appendix D). No production switch offers it.
#pragma once

#include "incengine/modes/mode.h"

namespace epic::engine {

// Takes the arena of mode III: a down pipe beside the slots.
const ModeLogic& LeafBufferedMode();

}  // namespace epic::engine
