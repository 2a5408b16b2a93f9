#include "incmanager/policies/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "incmanager/policies/outline.h"
#include "incmanager/policies/paths.h"

namespace epic::manager {
namespace {

class Builder {
 public:
  Builder(const Topology& topology, const std::vector<Forwarding>& tables,
          const std::vector<SwitchOffer>& offers, const std::vector<NodeId>& rank_hosts)
      : topology_(topology),
        tables_(tables),
        offers_(offers),
        rank_hosts_(rank_hosts),
        finder_(topology, offers, rank_hosts),
        outliner_(topology, tables, offers, rank_hosts) {}

  Result<Tree> Build(std::vector<RootCandidate>* candidates) {
    std::optional<Found> best = candidates == nullptr ? Best() : BestOfAll(candidates);
    if (!best) return NoTree();
    Tree tree = Grow(*best);
    if (Failure failure = Excludes(tree); !failure.ok()) return failure;
    return tree;
  }

 private:
  struct Found {
    NodeId at = kNoNode;
    Spare spare{};
    TreeCost cost;
  };

  std::optional<Found> BestOfAll(std::vector<RootCandidate>* candidates) {
    std::optional<Found> best;
    for (const NodeId root : topology_.switches) {
      NodeId unreached = kNoNode;
      std::optional<Found> found = FindAt(root, &unreached);
      candidates->push_back(Describe(root, unreached, found));
      if (found && (!best || found->cost < best->cost)) best = std::move(found);
    }
    if (best) std::ranges::find(*candidates, best->at, &RootCandidate::root)->best = true;
    return best;
  }

  // The same one. Roots that are too far from a host for a tree better than the best so far are not looked
  // at: in a large network that is most of them.
  std::optional<Found> Best() {
    const std::vector<uint32_t> depths = finder_.LeastDepths();
    std::vector<NodeId> roots = topology_.switches;
    std::ranges::stable_sort(roots, {}, [&](NodeId root) { return depths[root]; });
    std::optional<Found> best;
    for (const NodeId root : roots) {
      if (depths[root] == UINT32_MAX) break;
      if (best && TreeCost{.depth_links = depths[root]} > best->cost) break;
      NodeId unreached = kNoNode;
      std::optional<Found> found = FindAt(root, &unreached);
      if (!found) continue;
      if (!best || std::tie(found->cost, found->at) < std::tie(best->cost, best->at)) best = std::move(found);
    }
    return best;
  }

  // The best tree with its root there, or above the switch that all ways from there go through. Nothing if
  // the switch is unusable, or does not reach a host, which is put into unreached.
  std::optional<Found> FindAt(NodeId root, NodeId* unreached) {
    std::optional<Found> best;
    if (!Usable(root)) return best;
    for (const Spare spare : {Spare::kLinks, Spare::kLacks}) {
      if (spare == Spare::kLacks && finder_.nothing_lacks()) break;
      const Paths& paths = finder_.From(root, spare);
      *unreached = Unreached(paths);
      if (*unreached != kNoNode) break;
      TreeCost cost = CostOf(outliner_.Of(paths, root));
      if (!best || cost < best->cost) best.emplace(Found{root, spare, std::move(cost)});
    }
    return best;
  }

  RootCandidate Describe(NodeId root, NodeId unreached, const std::optional<Found>& found) {
    RootCandidate out{.root = root, .unreached = unreached};
    if (!found) return out;
    const Tree tree = Grow(*found);
    out.common = Abilities::All();
    for (const TreeInner& inner : tree.inner) {
      out.switches.push_back({inner.node, static_cast<uint32_t>(inner.children.size())});
      out.common = out.common.With(offers_[inner.node].abilities);
    }
    out.rate_gbps = tree.rate_gbps;
    out.delay_us = tree.delay_us;
    out.cost = found->cost;
    out.failure = Excludes(tree);
    return out;
  }

  TreeCost CostOf(const Outline& outline) const {
    const NodeId top = outline.inner[0].node;
    TreeCost cost{.down = outline.down_links,
                  .depth_links = outline.depth_links,
                  .switches = outline.inner.size(),
                  .groups = offers_[top].groups,
                  .name = topology_.nodes[top].name};
    Abilities common = Abilities::All();
    for (const Outline::Inner& inner : outline.inner) {
      const SwitchOffer& offer = offers_[inner.node];
      cost.lacking += offer.lacks.empty() ? 0 : 1;
      cost.small += offer.small_payload ? 1 : 0;
      cost.overfull |= inner.degree > offer.max_children;
      common = common.With(offer.abilities);
    }
    cost.missing = common.Lacking(Abilities::All()).Count();
    return cost;
  }

  // Why no group can have the tree.
  Failure Excludes(const Tree& tree) const {
    if (Failure failure = CheckLacks(tree); !failure.ok()) return failure;
    const TreeInner* inner = Overfull(tree);
    if (inner == nullptr) return {};
    const std::string& name = topology_.nodes[inner->node].name;
    return SwitchFailure(ErrorCode::kNoResource, name,
                         fmt::format("{} would have {} children in this group; it takes at most {}", name,
                                     inner->children.size(), offers_[inner->node].max_children));
  }

  // Names every switch of the tree that cannot aggregate what the group needs.
  Failure CheckLacks(const Tree& tree) const {
    std::string lacks;
    std::string culprit;
    for (const TreeInner& inner : tree.inner) {
      const SwitchOffer& offer = offers_[inner.node];
      if (offer.lacks.empty()) continue;
      if (culprit.empty()) culprit = topology_.nodes[inner.node].name;
      lacks += (lacks.empty() ? "" : "; ") + offer.lacks;
    }
    if (lacks.empty()) return {};
    Failure failure = SwitchFailure(ErrorCode::kNoTree, culprit, lacks);
    failure.brief = lacks;
    return failure;
  }

  bool Usable(NodeId id) const { return topology_.IsSwitch(id) && offers_[id].unusable.empty(); }

  // The commonest refusal deserves the clearest words: a host's own switch cannot take part.
  Failure CheckAttached() const {
    for (uint32_t rank = 0; rank < rank_hosts_.size(); ++rank) {
      const Node& host = topology_.nodes[rank_hosts_[rank]];
      const NodeId at = topology_.Attached(rank_hosts_[rank]).peer;
      if (Usable(at)) continue;
      const std::string& name = topology_.nodes[at].name;
      const std::string& why = offers_[at].unusable;
      Failure failure =
          SwitchFailure(ErrorCode::kNoTree, name,
                        fmt::format("{} (rank {}) hangs on {}, which cannot take part: {}",
                                    host.name, rank, name, why));
      failure.brief = why.find(name) == std::string::npos ? fmt::format("{}: {}", name, why) : why;
      return failure;
    }
    return {};
  }

  Failure NoTree() {
    if (Failure failure = CheckAttached(); !failure.ok()) return failure;
    std::string unusable;
    std::string culprit;
    for (const NodeId id : topology_.switches) {
      if (Usable(id)) continue;
      if (culprit.empty()) culprit = topology_.nodes[id].name;
      unusable += fmt::format("{}{} ({})", unusable.empty() ? "" : ", ", topology_.nodes[id].name,
                              offers_[id].unusable);
    }
    const NodeId first = rank_hosts_.front();
    const NodeId cut_off = Unreached(finder_.From(topology_.Attached(first).peer, Spare::kLinks));
    const std::string why = fmt::format("no path over usable switches joins {} and {}; not usable: {}",
                                        topology_.nodes[first].name, topology_.nodes[cut_off].name,
                                        unusable.empty() ? "none" : unusable);
    Failure failure = SwitchFailure(ErrorCode::kNoTree, culprit, why);
    failure.brief = why;
    return failure;
  }

  // The first rank's host that paths do not reach, or kNoNode.
  NodeId Unreached(const Paths& paths) const {
    for (const NodeId host : rank_hosts_) {
      if (paths.distance[host] == UINT32_MAX) return host;
    }
    return kNoNode;
  }

  Tree Grow(const Found& found) {
    const Paths& paths = finder_.From(found.at, found.spare);
    const Outline& outline = outliner_.Of(paths, found.at);
    Tree tree{
        .inner = {}, .depth_links = outline.depth_links, .rate_gbps = 1e9, .down_links = outline.down_links};
    for (const NodeId host : rank_hosts_) {
      double delay_us = 0;
      for (NodeId at = host; at != found.at; at = paths.parent[at]) {
        const Hop& hop = topology_.nodes[paths.parent[at]].hops[paths.down_hop[at]];
        delay_us += hop.delay_us;
        tree.rate_gbps = std::min(tree.rate_gbps, hop.rate_gbps);
      }
      tree.delay_us = std::max(tree.delay_us, delay_us);
    }
    for (const Outline::Inner& inner : outline.inner)
      tree.inner.push_back({.node = inner.node, .parent = inner.parent});
    for (uint32_t i = 0; i < tree.inner.size(); ++i) AddChildren(paths, outline, i, &tree);
    return tree;
  }

  void AddChildren(const Paths& paths, const Outline& outline, uint32_t index, Tree* tree) const {
    TreeInner& inner = tree->inner[index];
    const NodeId at = inner.node;
    for (const Outline::Child& child : outline.ChildrenOf(outline.inner[index])) {
      const bool neighbours = child.node == child.next;
      const std::string port = Port(paths, at, child.next, child.node);
      const std::string ingress = IngressPort(child.node, at, neighbours, port);
      const double edge_us = Delay(paths, at, child.node);
      inner.hop_us = std::max(inner.hop_us, edge_us);
      if (!topology_.IsSwitch(child.node)) {
        for (const uint32_t rank : outliner_.RanksOf(child.node))
          inner.children.push_back({true, rank, 0, port, ingress});
        continue;
      }
      inner.children.push_back({false, child.rank, child.inner, port, ingress});
      TreeInner& below = tree->inner[child.inner];
      below.parent_port = UpPort(paths, at, child.node);
      below.parent_ingress_port = IngressPort(at, child.node, neighbours, below.parent_port);
      below.hop_us = edge_us;
    }
    std::ranges::sort(inner.children, {}, &TreeChild::rank);
  }

  // One way between a switch and what lies below it.
  double Delay(const Paths& paths, NodeId upper, NodeId lower) const {
    double delay_us = 0;
    for (NodeId at = lower; at != upper; at = paths.parent[at])
      delay_us += topology_.nodes[paths.parent[at]].hops[paths.down_hop[at]].delay_us;
    return delay_us;
  }

  // at's port towards far: that of the link if they are neighbours, else that of at's forwarding table.
  std::string Port(const Paths& paths, NodeId at, NodeId child, NodeId far) const {
    const uint32_t hop = far == child ? paths.down_hop[child] : tables_[at].hop_to[far];
    return topology_.nodes[at].hops[hop].port;
  }

  std::string UpPort(const Paths& paths, NodeId at, NodeId far) const {
    if (paths.parent[far] != at) return topology_.nodes[far].hops[tables_[far].hop_to[at]].port;
    return topology_.nodes[far].hops[topology_.nodes[at].hops[paths.down_hop[far]].peer_hop].port;
  }

  // The port of `to` by which packets of `from` come, the other end of an edge, whose own port leads there.
  // Of neighbours both ends take the same link.
  std::string IngressPort(NodeId from, NodeId to, bool neighbours, const std::string& port) const {
    return neighbours ? port : ArrivalPort(topology_, tables_, from, to);
  }

  const TreeInner* Overfull(const Tree& tree) const {
    for (const TreeInner& inner : tree.inner) {
      if (inner.children.size() > offers_[inner.node].max_children) return &inner;
    }
    return nullptr;
  }

  const Topology& topology_;
  const std::vector<Forwarding>& tables_;
  const std::vector<SwitchOffer>& offers_;
  const std::vector<NodeId>& rank_hosts_;
  PathFinder finder_;
  Outliner outliner_;
};

}  // namespace

Result<Tree> BuildTree(const Topology& topology, const std::vector<Forwarding>& tables,
                       const std::vector<SwitchOffer>& offers, const std::vector<NodeId>& rank_hosts,
                       std::vector<RootCandidate>* candidates) {
  return Builder(topology, tables, offers, rank_hosts).Build(candidates);
}

}  // namespace epic::manager
