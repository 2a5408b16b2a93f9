// Whom a group waits for at a switch (docs/PROTOCOL-CONTROL.md, section 7.3): read from its context when
// somebody asks.
#pragma once

#include <optional>
#include <vector>

#include "incengine/state/arena.h"
#include "incengine/state/context.h"

namespace epic::engine {

struct ChildWait {
  int64_t calls = 0;       // invocations that it has opened here
  bool owes = false;       // of the open call, which it has called, data that are due
  bool not_taken = false;  // it is a host, and has not acknowledged a result that was sent to it
};

// An invocation that is not complete here, and that some child has called, or the parent is to answer.
struct OpenCall {
  int64_t number = 0;
  ControlHeader header;
  Nanos called_at = 0;  // by the first child
};

struct GroupWait {
  std::optional<OpenCall> open;
  std::vector<ChildWait> children;  // in their order
};

// arena: the engine's.
GroupWait WaitOf(const Context& ctx, const Arena& arena);

}  // namespace epic::engine
