#include "incmanager/policies/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>

namespace epic::manager {
namespace {

// What a tree of paths is to spare first.
enum class Spare : uint8_t { kLinks, kLacks };

// The tree of best paths from one root over usable switches.
struct Paths {
  std::vector<uint32_t> distance;  // in links, by NodeId; UINT32_MAX: not reached
  std::vector<NodeId> parent;
  std::vector<uint32_t> down_hop;  // index into the parent's hops
};

class Builder {
 public:
  Builder(const Topology& topology, const std::vector<Forwarding>& tables,
          const std::vector<SwitchOffer>& offers, const std::vector<NodeId>& rank_hosts)
      : topology_(topology), tables_(tables), offers_(offers), rank_hosts_(rank_hosts) {}

  std::variant<Tree, Failure> Build(std::vector<RootCandidate>* candidates) {
    std::optional<Found> best;
    for (const NodeId root : topology_.switches) {
      NodeId unreached = kNoNode;
      std::optional<Found> found = FindAt(root, &unreached);
      if (candidates != nullptr) candidates->push_back(Describe(root, unreached, found));
      if (found && (!best || found->cost < best->cost)) best = std::move(found);
    }
    if (!best) return NoTree();
    if (candidates != nullptr) std::ranges::find(*candidates, best->at, &RootCandidate::root)->best = true;
    if (Failure failure = Excludes(best->tree); !failure.ok()) return failure;
    return std::move(best->tree);
  }

 private:
  struct Found {
    NodeId at = kNoNode;
    Tree tree;
    TreeCost cost;
  };

  // The best tree with its root there, or above the switch that all ways from there go through. Nothing if
  // the switch is unusable, or does not reach a host, which is put into unreached.
  std::optional<Found> FindAt(NodeId root, NodeId* unreached) const {
    std::optional<Found> best;
    if (!Usable(root)) return best;
    for (const Spare spare : {Spare::kLinks, Spare::kLacks}) {
      const Paths paths = BestPaths(root, spare);
      *unreached = Unreached(paths);
      if (*unreached != kNoNode) break;
      Tree tree = Grow(paths, root);
      TreeCost cost = CostOf(tree);
      if (!best || cost < best->cost) best.emplace(Found{root, std::move(tree), std::move(cost)});
    }
    return best;
  }

  RootCandidate Describe(NodeId root, NodeId unreached, const std::optional<Found>& found) const {
    RootCandidate out{.root = root, .unreached = unreached};
    if (!found) return out;
    for (const TreeInner& inner : found->tree.inner)
      out.switches.push_back({inner.node, static_cast<uint32_t>(inner.children.size())});
    out.rate_gbps = found->tree.rate_gbps;
    out.delay_us = found->tree.delay_us;
    out.common = CommonOf(found->tree);
    out.cost = found->cost;
    out.failure = Excludes(found->tree);
    return out;
  }

  Abilities CommonOf(const Tree& tree) const {
    Abilities common = Abilities::All();
    for (const TreeInner& inner : tree.inner) common = common.With(offers_[inner.node].abilities);
    return common;
  }

  TreeCost CostOf(const Tree& tree) const {
    size_t lacking = 0;
    size_t small = 0;
    for (const TreeInner& inner : tree.inner) {
      const SwitchOffer& offer = offers_[inner.node];
      lacking += offer.lacks.empty() ? 0 : 1;
      small += offer.small_payload ? 1 : 0;
    }
    const NodeId top = tree.inner[0].node;
    return {tree.down_links,           lacking,
            Overfull(tree) != nullptr, small,
            tree.depth_links,          MissingIn(CommonOf(tree)),
            tree.inner.size(),         offers_[top].groups,
            topology_.nodes[top].name};
  }

  static uint32_t MissingIn(const Abilities& abilities) {
    return abilities.Lacking(Abilities::All()).Count();
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
    Failure failure = SwitchFailure(ErrorCode::kNoTree, culprit, "no tree: " + lacks);
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
                        fmt::format("no tree: {} (rank {}) hangs on {}, which cannot take part: {}",
                                    host.name, rank, name, why));
      failure.brief = why.find(name) == std::string::npos ? fmt::format("{}: {}", name, why) : why;
      return failure;
    }
    return {};
  }

  Failure NoTree() const {
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
    const NodeId cut_off = Unreached(BestPaths(topology_.Attached(first).peer, Spare::kLinks));
    const std::string why = fmt::format("no path over usable switches joins {} and {}; not usable: {}",
                                        topology_.nodes[first].name, topology_.nodes[cut_off].name,
                                        unusable.empty() ? "none" : unusable);
    Failure failure = SwitchFailure(ErrorCode::kNoTree, culprit, "no tree: " + why);
    failure.brief = why;
    return failure;
  }

  // What it takes to have this switch on a path behind this link, in the order in which paths are compared.
  using PathCost = std::array<uint32_t, 4>;
  PathCost CostOfPassing(const Hop& hop, Spare spare) const {
    const uint32_t down = hop.state == LinkState::kUp ? 0 : 1;
    if (!topology_.IsSwitch(hop.peer)) return {down};
    const SwitchOffer& offer = offers_[hop.peer];
    const uint32_t lacks = !offer.lacks.empty() || offer.small_payload ? 1 : 0;
    const uint32_t missing = MissingIn(offer.abilities);
    return spare == Spare::kLinks ? PathCost{down, 1, lacks, missing} : PathCost{down, lacks, 1, missing};
  }

  // Dijkstra's algorithm; of equal paths the first found, in the order of the hops.
  Paths BestPaths(NodeId root, Spare spare) const {
    const size_t count = topology_.nodes.size();
    Paths paths{std::vector<uint32_t>(count, UINT32_MAX), std::vector<NodeId>(count, kNoNode),
                std::vector<uint32_t>(count, 0)};
    std::vector<PathCost> costs(count, {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX});
    paths.distance[root] = 0;
    costs[root] = {};
    uint32_t found = 0;
    std::set<std::tuple<PathCost, uint32_t, NodeId>> queue{{costs[root], found, root}};
    while (!queue.empty()) {
      const auto [cost, order, at] = queue.extract(queue.begin()).value();
      if (cost != costs[at]) continue;  // a better path has been found since
      const std::vector<Hop>& hops = topology_.nodes[at].hops;
      for (uint32_t i = 0; i < hops.size(); ++i) {
        const NodeId peer = hops[i].peer;
        if (hops[i].state == LinkState::kGone || (topology_.IsSwitch(peer) && !Usable(peer))) continue;
        PathCost beyond = CostOfPassing(hops[i], spare);
        for (size_t part = 0; part < beyond.size(); ++part) beyond[part] += cost[part];
        if (beyond >= costs[peer]) continue;
        costs[peer] = beyond;
        paths.distance[peer] = paths.distance[at] + 1;
        paths.parent[peer] = at;
        paths.down_hop[peer] = i;
        if (topology_.IsSwitch(peer)) queue.insert({beyond, ++found, peer});
      }
    }
    return paths;
  }

  // The first rank's host that paths do not reach, or kNoNode.
  NodeId Unreached(const Paths& paths) const {
    for (const NodeId host : rank_hosts_) {
      if (paths.distance[host] == UINT32_MAX) return host;
    }
    return kNoNode;
  }

  Tree Grow(const Paths& paths, NodeId root) const {
    // Lowest rank below each node that lies between the root and a host.
    std::vector<uint32_t> lowest(topology_.nodes.size(), UINT32_MAX);
    std::vector<std::vector<NodeId>> children(topology_.nodes.size());
    Tree tree;
    tree.rate_gbps = 1e9;
    for (uint32_t rank = 0; rank < rank_hosts_.size(); ++rank) {
      const NodeId host = rank_hosts_[rank];
      double delay_us = 0;
      for (NodeId at = host; at != root; at = paths.parent[at]) {
        const Hop& hop = topology_.nodes[paths.parent[at]].hops[paths.down_hop[at]];
        delay_us += hop.delay_us;
        if (hop.state != LinkState::kUp && lowest[at] == UINT32_MAX) ++tree.down_links;
        tree.rate_gbps = std::min(tree.rate_gbps, hop.rate_gbps);
        if (lowest[at] != UINT32_MAX) continue;
        lowest[at] = rank;
        children[paths.parent[at]].push_back(at);  // in the order of the lowest rank
      }
      tree.depth_links = std::max(tree.depth_links, paths.distance[host]);
      tree.delay_us = std::max(tree.delay_us, delay_us);
    }
    while (children[root].size() == 1 && topology_.IsSwitch(children[root][0])) root = children[root][0];
    tree.inner.push_back({.node = root});
    for (uint32_t i = 0; i < tree.inner.size(); ++i) AddChildren(paths, children, lowest, i, &tree);
    return tree;
  }

  void AddChildren(const Paths& paths, const std::vector<std::vector<NodeId>>& children,
                   const std::vector<uint32_t>& lowest, uint32_t index, Tree* tree) const {
    const NodeId at = tree->inner[index].node;
    for (const NodeId child : children[at]) {
      const NodeId far = Contract(children, at, child);
      const std::string port = Port(paths, at, child, far);
      const std::string ingress = IngressPort(far, at, far == child, port);
      const double edge_us = Delay(paths, at, far);
      tree->inner[index].hop_us = std::max(tree->inner[index].hop_us, edge_us);
      if (!topology_.IsSwitch(far)) {
        for (uint32_t rank = 0; rank < rank_hosts_.size(); ++rank) {
          if (rank_hosts_[rank] == far) tree->inner[index].children.push_back({true, rank, 0, port, ingress});
        }
        continue;
      }
      const auto inner = static_cast<uint32_t>(tree->inner.size());
      const std::string up_port = UpPort(paths, at, far);
      tree->inner[index].children.push_back({false, lowest[far], inner, port, ingress});
      tree->inner.push_back({far, index, up_port, IngressPort(at, far, far == child, up_port), {}, edge_us});
    }
    std::sort(tree->inner[index].children.begin(), tree->inner[index].children.end(),
              [](const TreeChild& a, const TreeChild& b) { return a.rank < b.rank; });
  }

  // One way between a switch and what lies below it.
  double Delay(const Paths& paths, NodeId upper, NodeId lower) const {
    double delay_us = 0;
    for (NodeId at = lower; at != upper; at = paths.parent[at])
      delay_us += topology_.nodes[paths.parent[at]].hops[paths.down_hop[at]].delay_us;
    return delay_us;
  }

  bool ForwardingIsUsable(NodeId from, NodeId to) const {
    for (const auto& [a, b] : {std::pair{from, to}, std::pair{to, from}}) {
      const std::vector<NodeId> path = Walk(topology_, tables_, a, b);
      if (path.empty()) return false;
      for (const NodeId node : path) {
        if (!topology_.IsSwitch(node)) continue;
        if (!Usable(node)) return false;
        if (node == b) continue;
        if (!topology_.Carries({node, tables_[node].hop_to[b]})) return false;
        // A router passes only what is for the switch behind it, port security what its own node sends.
        const Hop& hop = topology_.nodes[node].hops[tables_[node].hop_to[b]];
        if (hop.next_hop_mac || hop.port_security) return false;
      }
    }
    return true;
  }

  // The node that becomes at's child: child itself, or what lies behind a chain of switches with one child
  // each.
  NodeId Contract(const std::vector<std::vector<NodeId>>& children, NodeId at, NodeId child) const {
    NodeId far = child;
    NodeId next = child;
    while (topology_.IsSwitch(next) && children[next].size() == 1) {
      // Two ranks on one host are two children of its switch.
      const NodeId behind = children[next][0];
      if (!topology_.IsSwitch(behind) && std::count(rank_hosts_.begin(), rank_hosts_.end(), behind) > 1)
        break;
      next = behind;
      if (ForwardingIsUsable(at, next)) far = next;
    }
    return far;
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
};

}  // namespace

std::variant<Tree, Failure> BuildTree(const Topology& topology, const std::vector<Forwarding>& tables,
                                      const std::vector<SwitchOffer>& offers,
                                      const std::vector<NodeId>& rank_hosts,
                                      std::vector<RootCandidate>* candidates) {
  return Builder(topology, tables, offers, rank_hosts).Build(candidates);
}

}  // namespace epic::manager
