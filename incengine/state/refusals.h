// What the switch keeps of packets that it refuses, beside the counters: for people and the manager, not for
// what the group does.
#pragma once

#include <cstdint>

#include "base/ip.h"
#include "base/types.h"
#include "incengine/state/effects.h"

namespace epic::engine {

// Packets of an endpoint that were refused one after the other, each for a reason that no repetition cures
// (core/refused.h). None: its last one was not.
struct Refusals {
  uint32_t packets = 0;
  DropReason reason = DropReason::kCount;  // of the last, as are port and source
  PortId port = kNoPort;
  Ip source;
  Nanos first_at = 0;
  Nanos last_at = 0;
};

}  // namespace epic::engine
