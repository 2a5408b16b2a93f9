// Making a child send what this switch waits for, without waiting for the child's own timer
// (docs/PROTOCOL.md, sections 5.4 and 5.5).
#pragma once

#include "incengine/modules/env.h"

namespace epic::engine {

// The RNR NAK timer code that prompts: 10 us.
inline constexpr uint8_t kPromptCode = 1;

// The longest with which a switch asks to wait: 81.92 ms.
inline constexpr uint8_t kLastWaitCode = 26;

// The timer code with which a switch asks to wait for the backoff-th time: a sixteenth of the prompt interval
// at first, doubled each time, at most kLastWaitCode.
uint8_t WaitCode(const Context& ctx, uint32_t backoff);

// A host from whose repetition nothing more has come for so many prompt intervals is taken to have ended it.
inline constexpr int kRepeatingFor = 16;

// Do siblings or receivers wait for this child's contribution?
bool OwesData(const Context& ctx, const Endpoint& child);

// Makes a host send again from the first packet that it has not been told of. An RNR NAK does so however
// often it is needed, but must not stop a host in the middle of repeating.
void AskHost(const Context& ctx, Endpoint& host, Env& env);

// Asks a child for what this switch waits for: a host as above, a switch by NAK naming the index expected.
void AskChild(const Context& ctx, Endpoint& child, Env& env);

// The parent waits for an index that is not complete here: asks every child that has not sent it, at most
// once per quarter of the prompt interval.
void HandDown(Context& ctx, Env& env);

// A host repeats a packet that cannot be answered yet: asks it to wait, at most once per half of that time.
void TellToWait(const Context& ctx, Endpoint& host, Env& env);

}  // namespace epic::engine
