// Mode II's small steps, each a row of the tables in docs/PROTOCOL.md, section 5; translated.cc composes
// them.
#pragma once

#include <span>

#include "incengine/modules/env.h"
#include "incengine/modules/position.h"

namespace epic::engine::translated {

// Do switches acknowledge the index to each other? What is tracked, and the control packet of a tracked
// invocation; all of one whose data lie in a block. Hosts acknowledge everything.
bool IsAcknowledged(const Position& position);

// The first index that this child has been sent, or is to be sent by an ancestor, and for which its
// acknowledgement is missing; none such: ResultDue or later. Of a switch, IsAcknowledged indices only.
Index FirstUnacknowledged(const Context& ctx, Endpoint& child);

// The first IsAcknowledged index that the parent has been sent and has not acknowledged; none such: up_sent
// or later.
Index FirstUnacknowledgedUp(Context& ctx);

// Something new came from this child: its prompt timer starts anew, or stops.
void OnChildProgress(Context& ctx, Endpoint& child, Env& env);

// Starts the prompt timers of children that are behind now and were not before, and the uplink timer.
void Watch(Context& ctx, Env& env);

// Asks a child to send again from what is missing: a host by RNR NAK, a switch by NAK; and repeats to it what
// only a repetition can make it acknowledge.
void Prompt(Context& ctx, Endpoint& child, Env& env);

// The result of an index has just become known here: results_end moves, timers follow, its receivers get a
// copy, in the mode's own way if it has one (Env::results).
void PublishResult(Context& ctx, Index index, const Position& position, std::span<const uint8_t> payload,
                   bool ack_req, Env& env);

// Behind the results that have left to the child (ResultWay::gone_end).
Index GoneEnd(const Context& ctx, const Endpoint& child, const Env& env);

// Asks the parent for the results from index on, unless that has just been done.
void AskParent(Context& ctx, Index index, Env& env);

// A child lacks results from index on: repeats them (root) or wants them and asks.
void AnswerRequest(Context& ctx, Endpoint& child, Index from, Index to, Env& env);

// Repeats the partial sums [from, up_sent) to the parent.
void RepeatUp(Context& ctx, Index from, Env& env);

// The first index whose slot is still needed: at the root one whose result does not exist or is not
// acknowledged by all, elsewhere one whose result has not passed or that the parent has not acknowledged.
Index FirstHeld(Context& ctx);

// At the root: may the complete result of the index be sent down? Tracked ones only when everybody has
// acknowledged the control packet before them, and less than a window beyond what everybody has
// acknowledged. No host sends a window or more beyond what it has, so that what it sends has a slot.
bool MayPass(Context& ctx, Index index, const Position& position);

// Moves up_told to what may be acknowledged to the child now: mutual indices as far as the child has
// acknowledged its own result, tracked ones as far as all receivers have. True if that is more than before.
bool AdvanceTold(const Context& ctx, Endpoint& child);

// The same, and acknowledges it.
bool Tell(Context& ctx, Endpoint& child, Env& env);

// A child has acknowledged more: moves the acknowledgement of tracked indices up the tree, or, at the root,
// back to their senders.
void OnAcknowledged(Context& ctx, Env& env);

}  // namespace epic::engine::translated
