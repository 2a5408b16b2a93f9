// A mode: one realisation of a group on a switch. Modes are compositions of modules (EPIC paper,
// section 4.1); they hold no state of their own, everything is in the context.
#pragma once

#include "incengine/modules/env.h"
#include "roce/packet.h"

namespace epic::engine {

class ModeLogic {
 public:
  // A packet that LookupTable has found to belong to this endpoint of the group.
  virtual void OnPacket(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) const = 0;
  // The group's timer. ctx.timer_at is kNever when this is called.
  virtual void OnTimer(Context& ctx, Env& env) const = 0;
  // The first index of which the group's slots may still be asked for something, here or by a neighbour. Only
  // of modes that can have a block.
  virtual Index FirstNeeded(Context&) const { return 0; }

 protected:
  ~ModeLogic() = default;
};

// Mode I (modes/terminated.cc). The context's `terminated` must be there.
const ModeLogic& TerminatedMode();
// Mode II (modes/translated.cc).
const ModeLogic& TranslatedMode();

// Mode III (modes/augmented.cc).
const ModeLogic& AugmentedMode();
// Mode V (modes/pooled.cc). The context's `pooled` and the switch's pool must be there.
const ModeLogic& PooledMode();

}  // namespace epic::engine
