#include "incmanager/groups/health_watch.h"

#include <algorithm>
#include <utility>

namespace epic::manager {
namespace {

constexpr Nanos kRound = 500 * kMillisecond;
// While all is well a witness is asked in each round until the first echo, but after some in vain seldom.
constexpr uint32_t kEagerAsks = 8;
constexpr Nanos kLazyInterval = 5 * kSecond;
constexpr size_t kMaxRankWitnesses = 8;

}  // namespace

HealthWatch::HealthWatch(const Topology* topology, const SwitchTable* switches)
    : topology_(topology), switches_(switches) {}

bool HealthWatch::IsSilent(Nanos now, NodeId node) const {
  const SwitchEntry& entry = switches_->entry(node);
  return entry.state == SwitchState::kNeverSeen || now - entry.last_heard >= kSilentAfter;
}

std::vector<Witness> HealthWatch::WitnessesOf(NodeId node, const std::vector<SessionId>& ranks) const {
  std::vector<Witness> witnesses;
  for (const Hop& hop : topology_->nodes[node].hops) {
    if (topology_->IsSwitch(hop.peer)) witnesses.push_back({false, hop.peer});
  }
  for (size_t i = 0; i < ranks.size() && i < kMaxRankWitnesses; ++i) witnesses.push_back({true, ranks[i]});
  return witnesses;
}

std::vector<HealthWatch::Ask> HealthWatch::Due(Nanos now, const WatchedSwitches& watched) {
  next_round_ = now + kRound;
  std::erase_if(asked_, [&watched](const auto& entry) { return !watched.contains(entry.first); });
  std::vector<Ask> due;
  for (const auto& [node, ranks] : watched) {
    const bool silent = IsSilent(now, node);
    const std::vector<Witness> witnesses = WitnessesOf(node, ranks);
    std::map<Witness, Asked>& asked = asked_[node];
    std::erase_if(asked, [&witnesses](const auto& entry) {
      return std::ranges::find(witnesses, entry.first) == witnesses.end();
    });
    for (const Witness& witness : witnesses) {
      Asked& state = asked[witness];
      if (state.open) continue;
      if (!witness.is_rank && IsSilent(now, static_cast<NodeId>(witness.id))) continue;
      const bool proven = state.answered_at != kNever;
      const bool lazy = state.count >= kEagerAsks && now - state.at < kLazyInterval;
      if (!silent && (proven || lazy)) continue;
      state.open = true;
      state.before = std::exchange(state.at, now);
      ++state.count;
      due.push_back({node, witness});
    }
  }
  return due;
}

void HealthWatch::OnAnswer(Nanos now, NodeId about, Witness witness, bool asked, bool answered) {
  const auto of = asked_.find(about);
  if (of == asked_.end()) return;
  const auto found = of->second.find(witness);
  if (found == of->second.end() || !found->second.open) return;
  Asked& state = found->second;
  state.open = false;
  // A witness may have been asked by another life of this state.
  if (!asked || state.count < 2) return;
  if (answered) {
    state.answered_at = state.before;
    state.missing_from = kNever;
    return;
  }
  if (state.missing_from == kNever) state.missing_from = state.before;
  state.missing_until = now;
}

void HealthWatch::OnNoAnswer(NodeId about, Witness witness) {
  const auto of = asked_.find(about);
  if (of == asked_.end()) return;
  const auto found = of->second.find(witness);
  if (found != of->second.end()) found->second.open = false;
}

SwitchEvidence HealthWatch::EvidenceOf(Nanos now, NodeId node) const {
  const SwitchEntry& entry = switches_->entry(node);
  SwitchEvidence evidence;
  evidence.agent_silent = entry.state == SwitchState::kNeverSeen ? kNever : now - entry.last_heard;
  evidence.engine_up = entry.state != SwitchState::kEngineDown;
  const auto of = asked_.find(node);
  if (of == asked_.end()) return evidence;
  for (const auto& [witness, state] : of->second) {
    const Nanos answered = state.answered_at == kNever ? kNever : now - state.answered_at;
    const Nanos missing = state.missing_from == kNever ? 0 : state.missing_until - state.missing_from;
    evidence.witnesses.push_back({answered, missing});
  }
  return evidence;
}

Nanos HealthWatch::DownFor(Nanos now, LinkEnd end) const {
  if (!topology_->IsSwitch(end.node)) return 0;
  const auto& down = switches_->entry(end.node).down_since;
  const auto found = down.find(topology_->nodes[end.node].hops[end.hop].port);
  return found == down.end() ? 0 : now - found->second;
}

std::vector<LinkEnd> HealthWatch::LostLinks(Nanos now) const {
  std::vector<LinkEnd> lost;
  for (NodeId node = 0; node < topology_->switch_count; ++node) {
    for (const auto& [port, since] : switches_->entry(node).down_since) {
      const std::optional<LinkEnd> end = topology_->EndAt(node, port);
      if (!end) continue;
      const LinkEnd there = topology_->Across(*end);
      LinkEvidence link{std::max(DownFor(now, *end), DownFor(now, there)), std::nullopt};
      if (topology_->IsSwitch(there.node)) link.there = EvidenceOf(now, there.node);
      if (Judge(EvidenceOf(now, node), &link) == Verdict::kLinkLost) lost.push_back(*end);
    }
  }
  return lost;
}

std::vector<Witness> HealthWatch::WhoMisses(NodeId node) const {
  std::vector<Witness> who;
  const auto of = asked_.find(node);
  if (of == asked_.end()) return who;
  for (const auto& [witness, state] : of->second) {
    if (state.answered_at != kNever && state.missing_from != kNever) who.push_back(witness);
  }
  return who;
}

}  // namespace epic::manager
