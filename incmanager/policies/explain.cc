#include "incmanager/policies/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"

namespace epic::manager {
namespace {

class Explainer {
 public:
  Explainer(const Topology& topology, const std::vector<SwitchOffer>& offers,
            const std::vector<RootCandidate>& candidates)
      : topology_(topology), offers_(offers) {
    const auto best = std::ranges::find(candidates, true, &RootCandidate::best);
    best_ = best == candidates.end() ? nullptr : &*best;
  }

  RootChoice Explain(const RootCandidate& candidate) const {
    RootChoice out{.root = candidate.root,
                   .why = Why(candidate),
                   .switches = candidate.switches,
                   .depth_links = candidate.cost.depth_links,
                   .rate_gbps = candidate.rate_gbps,
                   .delay_us = candidate.delay_us};
    out.chosen = out.why.empty();
    return out;
  }

 private:
  const std::string& NameOf(NodeId node) const { return topology_.nodes[node].name; }

  std::string Why(const RootCandidate& candidate) const {
    if (candidate.switches.empty()) {
      const std::string& unusable = offers_[candidate.root].unusable;
      if (!unusable.empty()) return unusable;
      return fmt::format("it does not reach {} over usable switches", NameOf(candidate.unreached));
    }
    if (!candidate.failure.ok()) return candidate.failure.Brief();
    return candidate.best ? "" : WhyWorse(candidate);
  }

  // The first field of the cost in which it has more than the best. Neither lacks anything here, nor is
  // overfull: else it would be excluded by that.
  std::string WhyWorse(const RootCandidate& candidate) const {
    const TreeCost& mine = candidate.cost;
    const TreeCost& best = best_->cost;
    const std::string& name = NameOf(best_->root);
    if (mine.down != best.down)
      return fmt::format("{} of its links {} down", mine.down, mine.down == 1 ? "is" : "are");
    if (mine.small != best.small)
      return fmt::format("the payload that is asked for is too large for {}", SmallOf(candidate));
    if (mine.depth_links != best.depth_links)
      return fmt::format("deeper: {}, {} has {}", Counted(mine.depth_links, "link"), name, best.depth_links);
    if (mine.missing != best.missing)
      return fmt::format("lacks more: {}; {} lacks {}", MissingOf(candidate), name, MissingOf(*best_));
    if (mine.switches != best.switches)
      return fmt::format("more switches: {}, {} has {}", mine.switches, name, best.switches);
    if (mine.groups != best.groups)
      return fmt::format("busier: {} on the root, {} has {}", Counted(mine.groups, "group"), name,
                         best.groups);
    return fmt::format("equal to {}, which comes first", name);
  }

  std::string SmallOf(const RootCandidate& candidate) const {
    std::string names;
    for (const Aggregator& inner : candidate.switches) {
      if (offers_[inner.node].small_payload) names += (names.empty() ? "" : ", ") + NameOf(inner.node);
    }
    return names;
  }

  static std::string MissingOf(const RootCandidate& candidate) {
    const Abilities missing = candidate.common.Lacking(Abilities::All());
    return missing.empty() ? "nothing" : NamesOf(missing);
  }

  const Topology& topology_;
  const std::vector<SwitchOffer>& offers_;
  const RootCandidate* best_ = nullptr;
};

}  // namespace

std::vector<RootChoice> ExplainRoots(const Topology& topology, const std::vector<SwitchOffer>& offers,
                                     const std::vector<RootCandidate>& candidates) {
  const Explainer explainer(topology, offers, candidates);
  std::vector<RootChoice> out;
  for (const RootCandidate& candidate : candidates) out.push_back(explainer.Explain(candidate));
  return out;
}

}  // namespace epic::manager
