#include "incmanager/policies/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>

#include "base/counted.h"
#include "incmanager/policies/tier_search.h"

namespace epic::manager {
namespace {

constexpr std::array kPolicies = {Policy::kShortest, Policy::kEdt, Policy::kSpatial, Policy::kTemporal};
constexpr std::array kPrefers = {Prefer::kAuto, Prefer::kLatency, Prefer::kBandwidth};

template <typename T, size_t size>
std::optional<T> Named(const std::array<T, size>& all, std::string_view text) {
  const auto found = std::ranges::find_if(all, [text](T one) { return Name(one) == text; });
  return found == all.end() ? std::nullopt : std::optional<T>(*found);
}

std::string Gbps(uint64_t kbps) { return fmt::format("{:g}", static_cast<double>(kbps) * 1e-6); }

// A root with its tree, or with the reason why there is none.
struct Found {
  NodeId root = kNoNode;
  uint32_t tier = 0;
  std::optional<Placed> placed;
  std::string why;
};

class Placer {
 public:
  Placer(const Topology& topology, const Load& load, const std::vector<SwitchOffer>& offers,
         const PlaceRequest& request)
      : topology_(topology), load_(load), offers_(offers), request_(request), tiers_(TiersOf(topology)) {}

  std::variant<Placed, Refusal> Run(std::vector<RootChoice>* choices) {
    const Relaxed nothing;
    TierSearch search(topology_, load_, offers_, request_, tiers_, nothing);
    std::optional<Found> found = Choose(&search);
    if (choices != nullptr) Explain(&search, found, choices);
    if (found) return std::move(*found->placed);
    return Refuse();
  }

 private:
  const std::string& NameOf(NodeId node) const { return topology_.nodes[node].name; }

  // Roots of a tier as the policy prefers them, before memory and children are looked at.
  struct Candidate {
    NodeId root = kNoNode;
    uint64_t widest = 0;
  };
  std::vector<Candidate> CandidatesAt(TierSearch* search, uint32_t tier) const {
    std::vector<Candidate> out;
    for (const NodeId root : search->RootsAt(tier)) out.push_back({root, search->WidestAt(root)});
    std::ranges::sort(out, [this](const Candidate& a, const Candidate& b) {
      if (HasWidths(request_.policy) && a.widest != b.widest) return a.widest > b.widest;
      const uint32_t groups_a = load_.at(a.root).groups;
      const uint32_t groups_b = load_.at(b.root).groups;
      return std::tie(groups_a, NameOf(a.root)) < std::tie(groups_b, NameOf(b.root));
    });
    return out;
  }

  std::optional<Found> At(TierSearch* search, NodeId root) {
    Found found{.root = root, .tier = tiers_[root], .placed = std::nullopt, .why = ""};
    found.placed = search->TreeAt(root, &found.why, &excluded_);
    return found;
  }

  // The best tree of a tier; nothing if it has none.
  std::optional<Found> BestAt(TierSearch* search, uint32_t tier) {
    std::optional<Found> best;
    for (const Candidate& candidate : CandidatesAt(search, tier)) {
      if (candidate.widest == 0) continue;
      if (best && candidate.widest <= best->placed->width_kbps) break;
      std::optional<Found> found = At(search, candidate.root);
      if (!found->placed) continue;
      if (!best || found->placed->width_kbps > best->placed->width_kbps) best = std::move(found);
      if (request_.policy == Policy::kEdt) break;
    }
    return best;
  }

  std::optional<Found> Choose(TierSearch* search) {
    std::optional<Found> best;
    for (uint32_t tier = 0; tier <= search->top_tier(); ++tier) {
      std::optional<Found> found = BestAt(search, tier);
      if (!found || (best && found->placed->width_kbps <= best->placed->width_kbps)) continue;
      best = std::move(found);
      const bool first = request_.policy == Policy::kEdt || request_.prefer == Prefer::kLatency ||
                         (request_.prefer == Prefer::kAuto && request_.rate_kbps != 0);
      if (first) break;
    }
    return best;
  }

  std::optional<Found> ChooseRelaxed(const Relaxed& relaxed) {
    TierSearch search(topology_, load_, offers_, request_, tiers_, relaxed);
    return Choose(&search);
  }

  // The tree that there would be if nothing were in the way says what is; then what it can do with less.
  std::variant<Placed, Refusal> Refuse() {
    const Relaxed everything{.all = true, .constraints = {}};
    TierSearch search(topology_, load_, offers_, request_, tiers_, everything);
    const std::optional<Found> free = Choose(&search);
    if (!free) return NoSuchTree();
    std::vector<Constraint> left = search.InTheWayOf(*free->placed);
    Relaxed relaxed;
    relaxed.constraints.insert(left.begin(), left.end());
    // From the last on, so that of two that would do the first is named. A host has one link, and its group
    // cannot do without it.
    for (size_t i = left.size(); i-- > 0;) {
      if (IsOfHost(left[i])) continue;
      relaxed.constraints.erase(left[i]);
      if (ChooseRelaxed(relaxed)) {
        left.erase(left.begin() + static_cast<ptrdiff_t>(i));
      } else {
        relaxed.constraints.insert(left[i]);
      }
    }
    if (left.empty()) return NoSuchTree();
    return Refusal{FailureOf(left), std::move(left)};
  }

  bool IsOfHost(const Constraint& constraint) const {
    if (constraint.kind != Constraint::Kind::kLink) return false;
    return !topology_.IsSwitch(constraint.link.node) ||
           !topology_.IsSwitch(topology_.Across(constraint.link).node);
  }

  Failure FailureOf(const std::vector<Constraint>& left) const {
    const Constraint& first = left.front();
    Failure out{first.kind == Constraint::Kind::kAbility ? ErrorCode::kNoTree : ErrorCode::kNoResource, "",
                -1, first.node == kNoNode ? "" : NameOf(first.node)};
    out.brief = first.text;
    if (left.size() > 1) out.brief += fmt::format("; and {} more in the way", left.size() - 1);
    out.message = fmt::format("policy {} finds {}: {}", Name(request_.policy),
                              out.code == ErrorCode::kNoTree ? "none" : "no tree", out.brief);
    return out;
  }

  Refusal NoSuchTree() const {
    if (!excluded_.ok()) return {excluded_, {}};
    Failure out{ErrorCode::kNoTree, "", -1, ""};
    out.brief = fmt::format(
        "no switch lies above all hosts by links that lead from tier to tier, which policy "
        "{} needs; policy shortest does not",
        Name(request_.policy));
    out.message = out.brief;
    return {out, {}};
  }

  // --- for people
  // ---------------------------------------------------------------------------------------------

  void Explain(TierSearch* search, const std::optional<Found>& chosen, std::vector<RootChoice>* choices) {
    choices->clear();
    for (const NodeId node : topology_.switches) {
      RootChoice choice{.root = node};
      if (const std::string why = NotAbove(*search, node); !why.empty()) {
        choice.why = why;
      } else {
        const std::optional<Found> found = At(search, node);
        choice.depth_links = tiers_[node] + 1;
        if (found->placed) {
          Describe(*found->placed, &choice);
          choice.chosen = chosen && chosen->root == node;
          if (chosen && !choice.chosen) choice.why = WhyWorse(*found, *chosen);
        } else {
          choice.why = found->why;
        }
      }
      choices->push_back(std::move(choice));
    }
  }

  // Why a switch does not reach all hosts from above.
  std::string NotAbove(const TierSearch& search, NodeId node) const {
    const SwitchOffer& offer = offers_[node];
    if (!offer.unusable.empty()) return offer.unusable;
    if (!offer.lacks.empty()) return offer.lacks;
    const std::optional<uint32_t> rank = search.Unreached(node);
    if (!rank) return {};
    return fmt::format("no free way leads up to it from {}", NameOf(request_.rank_hosts[*rank]));
  }

  void Describe(const Placed& placed, RootChoice* choice) const {
    for (size_t i = 0; i < placed.tree.inner.size(); ++i) {
      const TreeInner& inner = placed.tree.inner[i];
      const SwitchOffer& offer = offers_[inner.node];
      const bool known = offer.arena_bytes != 0;
      const BlockChoice& block = placed.blocks[i];
      choice->switches.push_back({inner.node, static_cast<uint32_t>(inner.children.size()),
                                  known ? block.bytes : 0, known ? offer.room : 0,
                                  block.joins ? block.number : 0});
    }
    choice->rate_gbps = placed.tree.rate_gbps;
    choice->delay_us = placed.tree.delay_us;
    choice->width_kbps = placed.width_kbps;
  }

  std::string WhyWorse(const Found& one, const Found& chosen) const {
    const std::string& name = NameOf(chosen.root);
    const uint64_t mine = one.placed->width_kbps;
    const uint64_t best = chosen.placed->width_kbps;
    const bool widths_count = HasWidths(request_.policy);
    if (widths_count && mine < best)
      return fmt::format("narrower: {} Gbit/s, {} has {}", Gbps(mine), name, Gbps(best));
    if (one.tier > chosen.tier)
      return fmt::format("deeper: {}, {} has {}", Counted(uint64_t{one.tier} + 1, "link"), name,
                         chosen.tier + 1);
    if (widths_count && mine > best)
      return fmt::format("wider, with {} Gbit/s; {} is less deep", Gbps(mine), name);
    const uint32_t groups = load_.at(one.root).groups;
    const uint32_t least = load_.at(chosen.root).groups;
    if (groups != least)
      return fmt::format("busier: {} on the root, {} has {}", Counted(groups, "group"), name, least);
    return fmt::format("equal to {}, which comes first", name);
  }

  const Topology& topology_;
  const Load& load_;
  const std::vector<SwitchOffer>& offers_;
  const PlaceRequest& request_;
  const std::vector<uint32_t> tiers_;
  Failure excluded_;  // what bytes_of has said last
};

}  // namespace

const char* Name(Policy policy) {
  switch (policy) {
    case Policy::kUnspecified:
      return "unspecified";
    case Policy::kShortest:
      return "shortest";
    case Policy::kEdt:
      return "edt";
    case Policy::kSpatial:
      return "spatial";
    case Policy::kTemporal:
      return "temporal";
  }
  return "unknown";
}

const char* Name(Prefer prefer) {
  switch (prefer) {
    case Prefer::kUnspecified:
      return "unspecified";
    case Prefer::kAuto:
      return "auto";
    case Prefer::kLatency:
      return "latency";
    case Prefer::kBandwidth:
      return "bandwidth";
  }
  return "unknown";
}

std::optional<Policy> PolicyNamed(std::string_view text) { return Named(kPolicies, text); }
std::optional<Prefer> PreferNamed(std::string_view text) { return Named(kPrefers, text); }

std::vector<uint32_t> TiersOf(const Topology& topology) {
  std::vector<uint32_t> tiers(topology.nodes.size(), UINT32_MAX);
  std::deque<NodeId> queue;
  const auto reach = [&](NodeId node, uint32_t tier) {
    if (!topology.IsSwitch(node) || tiers[node] != UINT32_MAX) return;
    tiers[node] = tier;
    queue.push_back(node);
  };
  // By links that are there, up or not: no switch changes its tier because a link has lost its carrier.
  const auto reach_from = [&](NodeId node, uint32_t tier) {
    for (const Hop& hop : topology.nodes[node].hops) {
      if (hop.state != LinkState::kGone) reach(hop.peer, tier);
    }
  };
  for (NodeId host = 0; host < topology.nodes.size(); ++host) {
    if (!topology.IsSwitch(host)) reach_from(host, 0);
  }
  for (; !queue.empty(); queue.pop_front()) reach_from(queue.front(), tiers[queue.front()] + 1);
  return tiers;
}

uint64_t WidthOfLink(const Topology& topology, const Load& load, LinkEnd lesser) {
  constexpr double kKbps = 1e6;  // of a Gbit/s
  if (!topology.Carries(lesser)) return 0;
  const auto rate =
      static_cast<uint64_t>(std::llround(topology.nodes[lesser.node].hops[lesser.hop].rate_gbps * kKbps));
  const LinkLoad taken = load.link(lesser);
  if (taken.reserved_kbps >= rate) return 0;
  return (rate - taken.reserved_kbps) / (1 + uint64_t{taken.sharing});
}

std::variant<Placed, Refusal> Place(const Topology& topology, const Load& load,
                                    const std::vector<SwitchOffer>& offers, const PlaceRequest& request,
                                    std::vector<RootChoice>* choices) {
  return Placer(topology, load, offers, request).Run(choices);
}

}  // namespace epic::manager
