// What every module may use beside the context it works on.
#pragma once

#include <map>
#include <span>

#include "base/types.h"
#include "incengine/state/arena.h"
#include "incengine/state/block.h"
#include "incengine/state/context.h"
#include "incengine/state/effects.h"
#include "incengine/state/pool.h"
#include "roce/packet.h"

namespace epic::engine {

struct Env;
struct Position;

// A way of its own in which a mode's results leave, when it hands packets on to mode II.
struct ResultWay {
  // A result has just become known here, for the children in the mask. What does not leave now the mode sends
  // by itself.
  void (*send)(Context& ctx, uint64_t outs, Index index, std::span<const uint8_t> payload, bool ack_req,
               Env& env) = nullptr;
  // Behind the results that have left to the child: nothing from there on is repeated to it. Null: all that
  // are known have.
  Index (*gone_end)(const Context& ctx, const Endpoint& child) = nullptr;
};

// A way of its own in which a mode keeps contributions, when it hands packets on to mode III.
class Contributions {
 public:
  // A contribution that may be added, the first of its child at the index: into whichever slot and payload.
  virtual void Add(Context& ctx, size_t child, Index index, const Position& position,
                   const roce::Packet& packet, Env& env) = 0;

 protected:
  ~Contributions() = default;
};

struct Env {
  Nanos now = 0;
  Ipv4 address{};  // of this switch
  Arena& arena;
  Effects& effects;
  Block* block = nullptr;                         // of the group, if its memory here is one
  Pool* pool = nullptr;                           // of the switch, if it has one
  std::map<uint64_t, Context>* groups = nullptr;  // of the switch: those that share the pool
  const ResultWay* results = nullptr;             // null: at once, as ReplicateData (modules/transmit.h)
  Contributions* contributions = nullptr;         // null: in the slot of the index, as AggregateData has it
  const Endpoint* from = nullptr;                 // whose packet it is; null: it is the timer
  DropReason dropped = DropReason::kCount;        // for which the packet was not used; kCount: it was
};

// Counts and reports a packet that is not used. What is dropped of another endpoint than the one whose packet
// has come was sent earlier: this packet was used.
inline void Drop(Context& ctx, const Endpoint& ep, DropReason reason, Env& env) {
  ++ctx.counters.drops[static_cast<size_t>(reason)];
  if (&ep == env.from) env.dropped = reason;
  env.effects.Drop(ep.config.port, reason);
}

// Brings the group's one timer forward to the deadline. Deadlines that move back need nothing: the timer
// fires early, finds nothing due and is set again.
inline void ArmTimer(Context& ctx, Nanos deadline, Env& env) {
  if (deadline >= ctx.timer_at) return;
  ctx.timer_at = deadline;
  env.effects.SetTimer(TimerId{ctx.config.group_id}, deadline);
}

// T doubled backoff times, at most 32 T.
inline Nanos BackedOff(const Context& ctx, uint32_t backoff) {
  constexpr uint32_t kMaxBackoff = 5;
  return ctx.config.prompt_ns << (backoff < kMaxBackoff ? backoff : kMaxBackoff);
}

}  // namespace epic::engine
