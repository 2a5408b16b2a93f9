#include "incmanager/groups/health.h"

#include <algorithm>

namespace epic::manager {
namespace {

bool Hears(const WitnessEvidence& witness) { return witness.answered <= kHeardFor; }
// An engine is believed; hosts that hear it are outvoted by more who do not.
bool IsHeard(const SwitchEvidence& of) {
  ptrdiff_t hosts = 0, missing = 0;
  for (const WitnessEvidence& witness : of.witnesses) {
    if (Hears(witness)) {
      if (!witness.is_host) return true;
      ++hosts;
    } else if (Misses(witness)) {
      ++missing;
    }
  }
  return hosts > 0 && hosts >= missing;
}

Verdict OfSwitch(const SwitchEvidence& of) {
  if (of.agent_silent < kSilentAfter) return of.engine_up ? Verdict::kAlive : Verdict::kEngineLost;
  if (of.agent_silent >= kSwitchLostAfter && !IsHeard(of) && std::ranges::any_of(of.witnesses, Misses))
    return Verdict::kSwitchLost;
  return of.agent_silent >= kAgentLostAfter ? Verdict::kAgentLost : Verdict::kSilent;
}

bool IsLost(Verdict verdict) { return verdict == Verdict::kSwitchLost || verdict == Verdict::kEngineLost; }

// Nobody has had a sign of life from it lately.
bool IsDoubtful(const SwitchEvidence& of) { return of.agent_silent >= kSilentAfter && !IsHeard(of); }

}  // namespace

bool Misses(const WitnessEvidence& witness) {
  return witness.answered != kNever && !Hears(witness) && witness.missing >= kMissedAfter;
}

Verdict Judge(const SwitchEvidence& here, const LinkEvidence* link) {
  const Verdict verdict = OfSwitch(here);
  if (link == nullptr || IsLost(verdict)) return verdict;
  if (link->there && IsLost(OfSwitch(*link->there))) return verdict;
  // It may have come back since it was told; and what was before the group is not the group's.
  if (link->told >= link->crossed) return verdict;
  const bool doubtful = IsDoubtful(here) || (link->there && IsDoubtful(*link->there));
  const bool lost = std::min(link->down, link->crossed) >= kDoubtfulLinkLostAfter ||
                    (!doubtful && std::min(link->sure, link->crossed) >= kLinkLostAfter);
  return lost ? Verdict::kLinkLost : verdict;
}

}  // namespace epic::manager
