// Mode II's small steps, each a row of the tables in docs/PROTOCOL.md, section 5; translated.cc composes
// them.
#pragma once

#include <span>

#include "incengine/modules/env.h"

namespace epic::engine::translated {

// Where the timer codes of RNR NAKs start and end for a host that waits for stragglers (1.28 ms to 81.92 ms),
// and the one that prompts (10 us).
inline constexpr uint8_t kFirstWaitCode = 14;
inline constexpr uint8_t kLastWaitCode = 26;
inline constexpr uint8_t kPromptCode = 1;

// Do siblings wait for this child's contribution, or has a host something to acknowledge?
bool IsBehind(const Context& ctx, const Endpoint& child);

// Something new came from this child: its prompt timer starts anew, or stops.
void OnChildProgress(Context& ctx, Endpoint& child, Env& env);

// Starts the prompt timers of children that are behind now and were not before.
void WatchChildren(Context& ctx, Env& env);

// Asks a child to send again from what is missing: a host by RNR NAK, a switch by NAK.
void Prompt(Endpoint& child, Env& env);

// The parent waits for an index that is not complete here: prompts every child that has not sent it.
void HandDown(Context& ctx, Index index, Env& env);

// The result of an index has just become known here: results_end moves, timers follow, every child gets a
// copy.
void PublishResult(Context& ctx, Index index, std::span<const uint8_t> payload, bool ack_req, Env& env);

// Sends the sum of a complete slot or control slot to one endpoint, again if it was sent before. False if the
// slot holds another index.
bool SendHeld(Context& ctx, Endpoint& to, Index index, bool ack_req, Env& env);

// Asks the parent for the results from index on, unless that has just been done.
void AskParent(Context& ctx, Index index, Env& env);

// A child lacks results from index on: repeats them (root) or wants them and asks.
void AnswerRequest(Context& ctx, Endpoint& child, Index from, Index to, Env& env);

// A host repeats a packet whose result does not exist: asks it to wait.
void TellToWait(Endpoint& host, Env& env);

// Repeats the partial sums [from, up_sent) to the parent.
void RepeatUp(Context& ctx, Index from, Env& env);

}  // namespace epic::engine::translated
