// The one clock of the daemons.
#pragma once

#include "base/types.h"

namespace epic::io {

// Monotonic time; only differences mean something.
Nanos MonotonicNow();

}  // namespace epic::io
