#include "incmanager/groups/health_watch.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/check.h"

namespace epic::manager {
namespace {

constexpr Nanos kRound = 300 * kMillisecond;
// While all is well a witness is asked in each round until the first echo, but after some in vain seldom.
constexpr uint32_t kEagerAsks = 8;
constexpr Nanos kLazyInterval = 5 * kSecond;
constexpr size_t kMaxHosts = 8;
constexpr size_t kMaxRanksOfHost = 4;

}  // namespace

HealthWatch::HealthWatch(const Topology* topology, const SwitchTable* switches)
    : topology_(topology), switches_(switches) {}

bool HealthWatch::IsSilent(Nanos now, NodeId node) const {
  const SwitchEntry& entry = switches_->entry(node);
  return entry.state == SwitchState::kNeverSeen || now - entry.last_heard >= kSilentAfter;
}

std::vector<HealthWatch::WitnessSite> HealthWatch::PlacesAround(
    NodeId node, const std::map<NodeId, std::vector<SessionId>>& hosts) const {
  std::vector<WitnessSite> places;
  for (const Hop& hop : topology_->nodes[node].hops) {
    // What has gone from there is no neighbour any more.
    if (hop.state != LinkState::kGone && topology_->IsSwitch(hop.peer))
      places.push_back({hop.peer, {{false, hop.peer}}});
  }
  size_t taken = 0;
  for (const auto& [host, sessions] : hosts) {
    if (++taken > kMaxHosts) break;
    WitnessSite& place = places.emplace_back(WitnessSite{host, {}});
    for (size_t i = 0; i < sessions.size() && i < kMaxRanksOfHost; ++i)
      place.witnesses.push_back({true, sessions[i]});
  }
  return places;
}

const Witness* HealthWatch::ToAsk(Nanos now, bool silent, const WitnessSite& place, AskedOf* asked) const {
  bool proven = false;
  for (const Witness& witness : place.witnesses) proven |= (*asked)[witness].answered_at != kNever;
  for (const Witness& witness : place.witnesses) {
    const Asked& state = (*asked)[witness];
    if (state.open && now - state.asked_at < kRound) return nullptr;
    if (state.open) continue;
    const bool lazy = state.count >= kEagerAsks && now - state.asked_at < kLazyInterval;
    return silent || !(proven || lazy) ? &witness : nullptr;
  }
  return nullptr;
}

std::vector<HealthWatch::Ask> HealthWatch::Due(Nanos now, const WatchedSwitches& watched) {
  next_round_ = now + kRound;
  std::erase_if(asked_, [&watched](const auto& entry) { return !watched.contains(entry.first); });
  std::vector<Ask> due;
  for (const auto& [node, hosts] : watched) {
    const bool silent = IsSilent(now, node);
    const std::vector<WitnessSite> places = PlacesAround(node, hosts);
    AskedOf& asked = asked_[node];
    std::set<Witness> present;
    for (const WitnessSite& place : places) present.insert(place.witnesses.begin(), place.witnesses.end());
    std::erase_if(asked, [&present](const auto& entry) { return !present.contains(entry.first); });
    for (const WitnessSite& place : places) {
      if (topology_->IsSwitch(place.at) && IsSilent(now, place.at)) continue;
      const Witness* witness = ToAsk(now, silent, place, &asked);
      if (witness == nullptr) continue;
      Asked& state = asked[*witness];
      state.at = place.at;
      state.open = true;
      std::shift_right(state.times.begin(), state.times.end(), 1);
      state.times[0] = state.asked_at = now;
      ++state.count;
      due.push_back({node, *witness});
    }
  }
  return due;
}

void HealthWatch::OnAnswer(Nanos now, NodeId about, Witness witness, bool asked, uint32_t answered) {
  const auto of = asked_.find(about);
  if (of == asked_.end()) return;
  const auto found = of->second.find(witness);
  if (found == of->second.end() || !found->second.open) return;
  Asked& state = found->second;
  state.open = false;
  state.times[0] = now;
  // A witness may have been asked by another life of this state.
  if (!asked || state.count < 2) return;
  const bool heard = answered >= 1 && answered <= kRequestsBefore && answered < state.count;
  if (heard && state.count - answered > state.answered) {
    state.answered = state.count - answered;
    if (state.times[answered] != kNever) state.answered_at = state.times[answered];
    state.missing_from = kNever;
  }
  // What was asked before the agent's last word says nothing of its silence since.
  Nanos after = switches_->entry(about).last_heard;
  if (state.missing_from == kNever || state.missing_from <= after) {
    if (state.answered_at != kNever) after = std::max(after, state.answered_at);
    uint32_t first = heard ? answered - 1 : std::min(state.count - 1, kRequestsBefore);
    while (first > 0 && (state.times[first] <= after || state.times[first] == kNever)) --first;
    state.missing_from = first > 0 ? state.times[first] : kNever;
    state.missing.Heard();
    for (uint32_t i = first; i > 1; --i) {
      if (state.times[i - 1] != kNever) state.missing.Unheard(state.times[i - 1] - state.times[i]);
    }
  }
  if (state.missing_from != kNever && state.times[1] != kNever)
    state.missing.Unheard(state.asked_at - state.times[1]);
}

void HealthWatch::OnNoAnswer(NodeId about, Witness witness) {
  const auto of = asked_.find(about);
  if (of == asked_.end()) return;
  const auto found = of->second.find(witness);
  if (found == of->second.end()) return;
  found->second.open = false;
  // It may ask later, several at once, and by then know nothing any more of those before.
  found->second.times.fill(kNever);
  found->second.missing_from = kNever;
}

void HealthWatch::CheckInvariants() const {
  for (const auto& [about, witnesses] : asked_) {
    for (const auto& [witness, state] : witnesses) {
      EPIC_CHECK((state.count > 0) == (state.at != kNoNode) && (state.count > 0 || !state.open));
      // The present one is answered with the next.
      EPIC_CHECK(state.answered == 0 || state.answered < state.count);
      EPIC_CHECK(state.answered_at == kNever || (state.answered > 0 && state.answered_at <= state.asked_at));
      if (state.missing_from == kNever) continue;
      EPIC_CHECK(state.missing_from < state.asked_at);
      EPIC_CHECK(state.answered_at == kNever || state.missing_from > state.answered_at);
    }
  }
}

std::map<NodeId, WitnessEvidence> HealthWatch::WitnessesOf(Nanos now, NodeId node) const {
  std::map<NodeId, WitnessEvidence> by_place;
  const auto of = asked_.find(node);
  if (of == asked_.end()) return by_place;
  const Nanos last_heard = switches_->entry(node).last_heard;
  for (const auto& [witness, state] : of->second) {
    WitnessEvidence& said = by_place[state.at];
    said.is_host = witness.is_rank;
    if (state.answered_at != kNever) said.answered = std::min(said.answered, now - state.answered_at);
    if (state.missing_from == kNever) continue;
    // What was missed while the agent spoke says nothing of now.
    if (state.missing_from > last_heard) said.missing = std::max(said.missing, state.missing.counted());
  }
  return by_place;
}

SwitchEvidence HealthWatch::EvidenceOf(Nanos now, NodeId node) const {
  const SwitchEntry& entry = switches_->entry(node);
  SwitchEvidence evidence;
  evidence.agent_silent = entry.state == SwitchState::kNeverSeen ? kNever : now - entry.last_heard;
  evidence.engine_up = entry.state != SwitchState::kEngineDown;
  for (const auto& [at, said] : WitnessesOf(now, node)) evidence.witnesses.push_back(said);
  return evidence;
}

// The other end has said something since; or it is a host, which may have had an echo across the link. It is
// given time for that.
bool HealthWatch::IsOutdated(Nanos now, LinkEnd end) const {
  if (!IsSilent(now, end.node)) return false;
  const SwitchEntry& entry = switches_->entry(end.node);
  const NodeId there = topology_->Across(end).node;
  if (topology_->IsSwitch(there)) return switches_->entry(there).ports_told > entry.ports_told;
  if (now - entry.last_heard < kDoubtfulLinkLostAfter) return true;
  const auto of = asked_.find(end.node);
  return of != asked_.end() && std::ranges::any_of(of->second, [&](const auto& asked) {
           const Asked& state = asked.second;
           return state.at == there && state.answered_at != kNever && now - state.answered_at <= kHeardFor;
         });
}

void HealthWatch::AddWordOf(Nanos now, LinkEnd end, LinkEvidence* link) const {
  if (!topology_->IsSwitch(end.node)) return;
  const SwitchEntry& entry = switches_->entry(end.node);
  const auto found = entry.down_since.find(topology_->nodes[end.node].hops[end.hop].port);
  if (found == entry.down_since.end() || IsOutdated(now, end)) return;
  link->told = std::min(link->told, now - entry.ports_told);
  const Nanos down = now - found->second;
  link->down = std::max(link->down, down);
  if (entry.ports_told - found->second >= kLinkSaidAgainAfter) link->sure = std::max(link->sure, down);
}

std::vector<LinkEnd> HealthWatch::DownLinks() const {
  std::vector<LinkEnd> down;
  for (const NodeId node : topology_->switches) {
    for (const auto& [port, since] : switches_->entry(node).down_since) {
      const std::optional<LinkEnd> end = topology_->EndAt(node, port);
      if (end) down.push_back(*end);
    }
  }
  return down;
}

bool HealthWatch::IsLinkLost(Nanos now, LinkEnd end, Nanos since) const {
  const LinkEnd there = topology_->Across(end);
  LinkEvidence link{.there = std::nullopt, .told = kNever, .crossed = now - since};
  AddWordOf(now, end, &link);
  AddWordOf(now, there, &link);
  if (topology_->IsSwitch(there.node)) link.there = EvidenceOf(now, there.node);
  return Judge(EvidenceOf(now, end.node), &link) == Verdict::kLinkLost;
}

bool HealthWatch::IsProven(NodeId node) const {
  const auto of = asked_.find(node);
  return of != asked_.end() && std::ranges::any_of(of->second, [](const auto& entry) {
           return entry.second.answered_at != kNever;
         });
}

std::vector<NodeId> HealthWatch::WhoMisses(Nanos now, NodeId node) const {
  std::vector<NodeId> who;
  for (const auto& [at, said] : WitnessesOf(now, node))
    if (Misses(said)) who.push_back(at);
  return who;
}

}  // namespace epic::manager
