#include "incmanager/policies/one_switch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace epic::manager {
namespace {

class OneSwitch {
 public:
  OneSwitch(const Topology& topology, const std::vector<Forwarding>& tables,
            const std::vector<SwitchOffer>& offers, const std::vector<NodeId>& rank_hosts)
      : topology_(topology), tables_(tables), offers_(offers), rank_hosts_(rank_hosts) {}

  Result<Tree> Build(std::vector<RootCandidate>* candidates) {
    std::optional<size_t> best;
    std::vector<RootCandidate> all;
    std::vector<Tree> trees;
    for (const NodeId root : topology_.switches) {
      trees.emplace_back();
      all.push_back(Look(root, &trees.back()));
      if (!all.back().switches.empty() && (!best || all.back().cost < all[*best].cost)) best = all.size() - 1;
    }
    if (best) all[*best].best = true;
    const Failure failure = best ? all[*best].failure : NoSwitch(all);
    if (candidates != nullptr) *candidates = std::move(all);
    if (!failure.ok()) return failure;
    return std::move(trees[*best]);
  }

 private:
  RootCandidate Look(NodeId root, Tree* tree) const {
    RootCandidate out{.root = root, .rate_gbps = 1e9};
    const SwitchOffer& offer = offers_[root];
    if (!offer.unusable.empty()) return out;
    tree->inner.push_back({.node = root});
    TreeInner& inner = tree->inner.front();
    for (uint32_t rank = 0; rank < rank_hosts_.size(); ++rank) {
      const auto edge = EdgeToHost(topology_, tables_, offers_, root, rank_hosts_[rank]);
      if (!edge) {
        out.unreached = rank_hosts_[rank];
        return out;
      }
      inner.children.push_back({true, rank, 0, edge->port, edge->ingress_port});
      inner.hop_us = std::max(inner.hop_us, edge->delay_us);
      out.rate_gbps = std::min(out.rate_gbps, edge->rate_gbps);
      out.cost.depth_links = std::max(out.cost.depth_links, edge->links);
      out.cost.down += edge->down_links;
    }
    tree->depth_links = out.cost.depth_links;
    tree->down_links = out.cost.down;
    tree->delay_us = out.delay_us = inner.hop_us;
    tree->rate_gbps = out.rate_gbps;
    const auto degree = static_cast<uint32_t>(inner.children.size());
    out.switches = {{root, degree}};
    out.common = offer.abilities;
    out.cost.lacking = offer.lacks.empty() ? 0 : 1;
    out.cost.small = offer.small_payload ? 1 : 0;
    out.cost.overfull = degree > offer.max_children;
    out.cost.missing = offer.abilities.Lacking(Abilities::All()).Count();
    out.cost.switches = 1;
    out.cost.groups = offer.groups;
    out.cost.name = topology_.nodes[root].name;
    out.failure = Excludes(root, degree);
    return out;
  }

  // Why no group can have the switch.
  Failure Excludes(NodeId root, uint32_t degree) const {
    const std::string& name = topology_.nodes[root].name;
    const SwitchOffer& offer = offers_[root];
    if (!offer.lacks.empty()) {
      Failure failure = SwitchFailure(ErrorCode::kNoTree, name, offer.lacks);
      failure.brief = offer.lacks;
      return failure;
    }
    if (degree <= offer.max_children) return {};
    return SwitchFailure(ErrorCode::kNoResource, name,
                         fmt::format("{} would have {} children in this group; it takes at most {}", name,
                                     degree, offer.max_children));
  }

  // The switch that reaches most of the ranks in order, and the first that it does not reach.
  Failure NoSwitch(const std::vector<RootCandidate>& all) const {
    const RootCandidate* farthest = nullptr;
    uint32_t most = 0;
    for (const RootCandidate& candidate : all) {
      if (candidate.unreached == kNoNode) continue;
      const auto at = std::ranges::find(rank_hosts_, candidate.unreached);
      const auto reached = static_cast<uint32_t>(at - rank_hosts_.begin());
      if (farthest != nullptr && reached <= most) continue;
      farthest = &candidate;
      most = reached;
    }
    const std::string& first = topology_.nodes[rank_hosts_.front()].name;
    const bool reaches_any = farthest != nullptr && most > 0;
    const NodeId other = reaches_any ? farthest->unreached : rank_hosts_.back();
    const std::string& name = reaches_any ? topology_.nodes[farthest->root].name : "";
    Failure failure = SwitchFailure(
        ErrorCode::kNoTree, name,
        fmt::format("no switch is reached by all hosts by ordinary forwarding, as mode {} needs: {} and {} "
                    "have none in common{}",
                    NumeralOf(ModeInPool()), first, topology_.nodes[other].name, Unusable()));
    failure.brief = failure.message;
    return failure;
  }

  std::string Unusable() const {
    std::string out;
    for (const NodeId node : topology_.switches) {
      if (offers_[node].unusable.empty()) continue;
      out += fmt::format("{}{} ({})", out.empty() ? "; not usable: " : ", ", topology_.nodes[node].name,
                         offers_[node].unusable);
    }
    return out;
  }

  const Topology& topology_;
  const std::vector<Forwarding>& tables_;
  const std::vector<SwitchOffer>& offers_;
  const std::vector<NodeId>& rank_hosts_;
};

// What a frame from one node to the other crosses, over usable switches; false if it does not come there.
bool Passes(const Topology& topology, const std::vector<Forwarding>& tables,
            const std::vector<SwitchOffer>& offers, NodeId from, NodeId to, HostEdge* edge) {
  bool barred = false;
  uint32_t links = 0;
  for (NodeId at = from; at != to;) {
    const bool passes = topology.IsSwitch(at) ? offers[at].unusable.empty() : at == from;
    const std::optional<LinkEnd> out = passes ? WayOut(topology, tables, at, to) : std::nullopt;
    // A way longer than the number of nodes has met one twice.
    if (!out || ++links > topology.nodes.size()) return false;
    const Hop& hop = topology.nodes[at].hops[out->hop];
    const LinkEnd there = topology.Across(*out);
    if (hop.state == LinkState::kGone) return false;
    if (!topology.Carries(*out)) ++edge->down_links;
    // A router passes only what is for the switch behind it, port security what its own node sends.
    const Hop& back = topology.nodes[there.node].hops[there.hop];
    barred |= hop.next_hop_mac || back.next_hop_mac || hop.port_security || back.port_security;
    edge->delay_us += hop.delay_us;
    edge->rate_gbps = std::min(edge->rate_gbps, hop.rate_gbps);
    at = hop.peer;
  }
  edge->links = links;
  return (links == 1 || !barred) && (!topology.IsSwitch(to) || offers[to].unusable.empty());
}

}  // namespace

std::optional<HostEdge> EdgeToHost(const Topology& topology, const std::vector<Forwarding>& tables,
                                   const std::vector<SwitchOffer>& offers, NodeId at, NodeId host) {
  HostEdge back{.rate_gbps = 1e9}, edge{.rate_gbps = 1e9};
  if (!Passes(topology, tables, offers, host, at, &back) ||
      !Passes(topology, tables, offers, at, host, &edge))
    return std::nullopt;
  edge.rate_gbps = std::min(edge.rate_gbps, back.rate_gbps);
  edge.port = topology.nodes[at].hops[tables[at].HopTo(host)].port;
  edge.ingress_port = ArrivalPort(topology, tables, host, at);
  return edge;
}

Result<Tree> BuildOneSwitchTree(const Topology& topology, const std::vector<Forwarding>& tables,
                                const std::vector<SwitchOffer>& offers, const std::vector<NodeId>& rank_hosts,
                                std::vector<RootCandidate>* candidates) {
  return OneSwitch(topology, tables, offers, rank_hosts).Build(candidates);
}

}  // namespace epic::manager
