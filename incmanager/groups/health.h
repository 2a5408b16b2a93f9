// Who is lost: what is known of a switch and of one of its links, and what follows. One pure function;
// docs/PROTOCOL-CONTROL.md, section 7.1, has its table. health_watch.h collects the evidence.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"

namespace epic::manager {

// An agent says once a second that it lives. From its second missing word on its switch is asked after. All of these are
// longer than what a machine under load keeps a process from running: kMissedAfter is 3.9 s, a round of asks, and some.
inline constexpr Nanos kSilentAfter = 2 * kSecond;
inline constexpr Nanos kSwitchLostAfter = 6 * kSecond;
inline constexpr Nanos kAgentLostAfter = 8 * kSecond;
// An echo older than this is no sign of life; echoes missing for that long are a sign of the contrary.
inline constexpr Nanos kHeardFor = 2 * kSecond;
inline constexpr Nanos kMissedAfter = 4400 * kMillisecond;
// A link whose carrier comes back sooner is not lost: what it lost meanwhile is repeated.
inline constexpr Nanos kLinkLostAfter = 2 * kSecond;
// A switch that dies may tell first of its ports, one by one: one that lives says so once more a second
// later.
inline constexpr Nanos kLinkSaidAgainAfter = 1 * kSecond;
// With an end that may be dead itself the link waits for that verdict, but not for ever.
inline constexpr Nanos kDoubtfulLinkLostAfter = 8 * kSecond;

// Somebody next to a switch, who has asked it for echoes.
struct WitnessEvidence {
  // How long ago the last request was sent that was answered. kNever: none ever was, so that there may be
  // nothing between the two that lets requests through, and their silence says nothing.
  Nanos answered = kNever;
  // For how long requests have been without an answer while the agent was silent; 0: the last was answered.
  Nanos missing = 0;
  bool is_host = false;  // whose ranks speak for it; else a switch's engine
};

// Whether it has had echoes, has none now, and has waited for one long enough.
bool Misses(const WitnessEvidence& witness);

struct SwitchEvidence {
  Nanos agent_silent = 0;  // since its agent's last word; kNever: there was none
  bool engine_up = true;   // in that word
  std::vector<WitnessEvidence> witnesses;
};

struct LinkEvidence {
  Nanos down = 0;  // for how long one of the two ends has reported no carrier; 0: neither
  Nanos sure = 0;  // the same, of an end that has said so again kLinkSaidAgainAfter later
  std::optional<SwitchEvidence> there;  // the other end; nothing: a host
  Nanos told = 0;                       // since one of the ends has said so last
  Nanos crossed = kNever;               // for how long the group that it is about has run over the link
};

enum class Verdict : uint8_t {
  kAlive,
  kSilent,      // its agent has missed a word; nothing follows yet
  kAgentLost,   // nothing is known against the switch: its groups go on
  kEngineLost,  // its agent says so
  kSwitchLost,
  kLinkLost,
};

// Of a switch, or with a link given, of that link of the switch: then it is either kLinkLost or what the
// switch's own is.
Verdict Judge(const SwitchEvidence& here, const LinkEvidence* link = nullptr);

}  // namespace epic::manager
