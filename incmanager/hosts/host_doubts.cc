#include "incmanager/hosts/host_doubts.h"

#include <algorithm>
#include <utility>

namespace epic::manager {
namespace {

bool Concerns(const HostDoubts::Doubt& doubt, const std::set<Ipv4>& addresses) {
  return std::ranges::any_of(doubt.addresses, [&](Ipv4 address) { return addresses.contains(address); });
}

}  // namespace

void HostDoubts::Begin(Doubt doubt) {
  State state{.doubt = std::move(doubt), .asked = {}};
  std::set<Ipv4>& addresses = state.doubt.addresses;
  for (State& before : states_) {
    if (!Concerns(before.doubt, addresses)) continue;
    // Whether the host lives is no question that begins anew.
    state.doubt.lives |= before.doubt.lives;
    state.asked.merge(before.asked);
  }
  End(addresses);
  for (const Ipv4 address : addresses) state.asked[address];
  std::erase_if(state.asked, [&](const auto& entry) { return !addresses.contains(entry.first); });
  states_.push_back(std::move(state));
}

std::set<Ipv4> HostDoubts::End(const std::set<Ipv4>& addresses) {
  std::set<Ipv4> ended;
  std::erase_if(states_, [&](const State& state) {
    if (!Concerns(state.doubt, addresses)) return false;
    ended.insert(state.doubt.addresses.begin(), state.doubt.addresses.end());
    return true;
  });
  return ended;
}

void HostDoubts::EndOf(HostId host) {
  std::erase_if(states_, [host](const State& state) { return state.doubt.host == host; });
}

std::vector<Ipv4> HostDoubts::Due(Nanos now) {
  std::vector<Ipv4> due;
  for (State& state : states_) {
    for (auto& [address, asked] : state.asked) {
      if (asked.open || (asked.at != kNever && now - asked.at < kAskEvery)) continue;
      asked.at = now;
      asked.open = true;
      ++asked.count;
      due.push_back(address);
    }
  }
  return due;
}

HostDoubts::Asked* HostDoubts::Find(Ipv4 host, State** of) {
  for (State& state : states_) {
    const auto found = state.asked.find(host);
    if (found == state.asked.end()) continue;
    if (of != nullptr) *of = &state;
    return &found->second;
  }
  return nullptr;
}

void HostDoubts::OnAnswer(Ipv4 host, bool asked, uint32_t answered) {
  State* state = nullptr;
  Asked* const of = Find(host, &state);
  if (of == nullptr || !of->open) return;
  of->open = false;
  // The first asks; and what another doubt had asked for is none of this one's.
  if (!asked || of->count < 2) return;
  const bool is_new = answered >= 1 && answered < of->count && of->count - answered > of->answered;
  if (!is_new) {
    ++of->missed;
    return;
  }
  of->answered = of->count - answered;
  of->missed = 0;
  state->doubt.lives = true;
}

void HostDoubts::OnNoAnswer(Ipv4 host) {
  Asked* const of = Find(host);
  if (of == nullptr) return;
  of->open = false;
  of->missed = 0;
}

void HostDoubts::OnNoSwitch(Ipv4 host) {
  State* state = nullptr;
  Asked* const of = Find(host, &state);
  if (of == nullptr) return;
  of->open = false;
  if (state->doubt.host != 0) ++of->missed;
}

std::vector<HostDoubts::Doubt> HostDoubts::TakeOver(Nanos now) {
  std::vector<Doubt> over;
  std::erase_if(states_, [&](State& state) {
    const uint32_t most = state.doubt.lives ? kMissedAfterAnswer : kMissed;
    state.doubt.lost = !state.asked.empty() && std::ranges::all_of(state.asked, [&](const auto& entry) {
      return entry.second.missed >= most;
    });
    if (!state.doubt.lost && now < state.doubt.until) return false;
    over.push_back(state.doubt);
    return true;
  });
  return over;
}

std::vector<HostDoubts::Doubt> HostDoubts::All() const {
  std::vector<Doubt> all;
  for (const State& state : states_) all.push_back(state.doubt);
  return all;
}

}  // namespace epic::manager
