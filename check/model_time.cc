// How time passes in the explored system: for all nodes alike, and timers run when they are due, or late.
#include <algorithm>
#include <optional>

#include "check/model.h"

namespace epic::check {

// A host can make a call: time that passes now makes that call late.
bool Model::Late(std::span<const Word> state) const {
  for (int n = system().switches(); n < system().nodes(); ++n) {
    if (FactsOf(state, n).may_call) return true;
  }
  return false;
}

Model::Event Model::TimeEvent(Nanos time, ActionKind kind) {
  const auto at = std::ranges::find(times_, time) - times_.begin();
  if (at == std::ssize(times_)) times_.push_back(time);
  return {kind, static_cast<uint32_t>(at)};
}

// Until the next timer is due.
Nanos Model::NextTimer(std::span<const Word> state) const {
  Nanos next = kNever;
  for (int n = 0; n < system().nodes(); ++n) next = std::min(next, FactsOf(state, n).timer_in);
  return next;
}

// How long time may pass while the node's timer is late: until it is due, if none is due before; or, if it is
// late already, until the next one of another node that is not.
std::optional<Nanos> Model::LateFor(std::span<const Word> state, int node) const {
  const Nanos own = FactsOf(state, node).timer_in;
  Nanos others = kNever;
  for (int n = 0; n < system().nodes(); ++n) {
    if (const Nanos in = FactsOf(state, n).timer_in; n != node && in > 0) others = std::min(others, in);
  }
  const Nanos until = own == 0 ? others : own;
  return until != kNever && until <= others ? std::optional(until) : std::nullopt;
}

void Model::AddLateTimers(std::span<const Word> state, std::vector<Action>* actions) const {
  for (int n = 0; n < system().nodes(); ++n) {
    if (LateFor(state, n)) actions->push_back({ActionKind::kLate, static_cast<uint8_t>(n)});
  }
}

// For all nodes alike. Timers that become due run; with a node whose timer is late neither its, nor those of
// others that are late already.
const Breach* Model::PassTime(std::span<Word> state, Nanos time, std::optional<int> late) {
  const Breach* first = nullptr;
  for (int n = 0; n < system().nodes(); ++n) {
    const bool waits = late && (n == *late || FactsOf(state, n).timer_in == 0);
    const Breach* breach = Move(state, n, TimeEvent(time, waits ? ActionKind::kLate : ActionKind::kTime));
    // The first, but for one that is not judged by.
    if (breach != nullptr && (first == nullptr || !Judges(first->invariant))) first = breach;
  }
  return first != nullptr ? first : CheckAll(state);
}

}  // namespace epic::check
