// Setups of several groups that share a block in every switch (--groups), and of calls in slices (--slices).
#pragma once

#include "base/status.h"
#include "check/setup.h"

namespace epic::check {

// An error names the first value that groups which share blocks do not have. Of a system whose tree and
// modes are known, and the number of groups.
Status CheckGroups(const Setup& setup, const SystemConfig& config);

// Of a system whose tree and modes are known, and the number of groups: the pool of its switch, if it has
// one. Before CheckGroups.
Status PlacePool(const Setup& setup, SystemConfig* config);

// Of a system whose calls are known: cuts those with data in setup.slices, if these can be.
Status CutCalls(const Setup& setup, SystemConfig* config);

}  // namespace epic::check
