// A step of mode V that whoever explores it takes by itself.
#pragma once

#include "incengine/modules/env.h"
#include "incengine/state/pool.h"

namespace epic::engine {

// One of Pool::Summing loses its place, as to an index of another group that is gone again: it goes to its
// group's server as a part.
void TakeAway(const Pool::Evicted& sum, Env& env);

}  // namespace epic::engine
