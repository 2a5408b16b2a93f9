#include "incmanager/policies/forwarding.h"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <utility>

#include "base/stable_hash.h"
#include "incmanager/policies/flooding.h"

namespace epic::manager {
namespace {

// What a link costs that is down: more than any way over links that are up.
constexpr uint32_t kDownCost = 1 << 16;
constexpr uint32_t kFar = UINT32_MAX;

// Every bit of the sum decides on every bit of the result.
uint64_t Mixed(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b * 0xc2b2ae3d27d4eb4fu + c;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

class Computer {
 public:
  Computer(const Topology& topology, const ForwardingHistory& before)
      : topology_(topology), before_(before), links_(topology.nodes.size()), hosts_(topology.nodes.size()) {
    for (const Node& node : topology.nodes) hashes_.push_back(StableHash(node.name));
    for (const NodeId at : topology.switches) {
      const std::vector<Hop>& hops = topology.nodes[at].hops;
      for (uint32_t i = 0; i < hops.size(); ++i) {
        if (hops[i].state == LinkState::kGone || !topology.IsSwitch(hops[i].peer)) continue;
        const bool up = topology.Carries({at, i});
        links_[at].push_back({i, hops[i].peer, up ? 1 : kDownCost, StableHash(hops[i].port)});
        if (!up) down_.push_back({at, hops[i].peer});
      }
    }
    for (NodeId host = 0; host < topology.nodes.size(); ++host) {
      const Node& node = topology.nodes[host];
      if (node.is_host && Raw(node.address) != 0 && topology.Attached(host).state != LinkState::kGone)
        hosts_[topology.Attached(host).peer].push_back(host);
    }
  }

  std::vector<Forwarding> Compute() {
    tables_.resize(topology_.nodes.size());
    for (const NodeId at : topology_.switches)
      tables_[at].hop_to.assign(topology_.nodes.size(), Forwarding::kNoHop);
    // All hosts of a switch are reached over it.
    for (const NodeId last : topology_.switches) {
      std::vector<uint32_t> cost(topology_.nodes.size(), kFar);
      cost[last] = 0;
      Spread(last, &cost);
      Point(last, cost);
    }
    for (const auto& [target, ways] : WaysByTarget()) Stay(target, ways);
    return std::move(tables_);
  }

  bool detours() const { return detours_; }

 private:
  struct Link {
    uint32_t hop = 0;
    NodeId peer = kNoNode;
    uint32_t cost = 0;
    uint64_t hash = 0;  // of the port
  };

  // From one switch, whose cost is known: over links that are up, and from there on over others.
  void Spread(NodeId from_here, std::vector<uint32_t>* cost) const {
    std::deque<NodeId> queue{from_here};
    while (!queue.empty()) {
      const NodeId at = queue.front();
      queue.pop_front();
      for (const Link& link : links_[at]) {
        if (link.cost != 1 || (*cost)[link.peer] != kFar) continue;
        (*cost)[link.peer] = (*cost)[at] + 1;
        queue.push_back(link.peer);
      }
    }
    Reached first;
    for (const auto& [from, to] : down_) {
      if ((*cost)[from] != kFar && (*cost)[to] == kFar) first.push({(*cost)[from] + kDownCost, to});
    }
    Reach(std::move(first), cost);
  }

  using Reached = std::priority_queue<std::pair<uint32_t, NodeId>, std::vector<std::pair<uint32_t, NodeId>>,
                                      std::greater<>>;
  void Reach(Reached queue, std::vector<uint32_t>* cost) const {
    while (!queue.empty()) {
      const auto [beyond, at] = queue.top();
      queue.pop();
      if ((*cost)[at] != kFar) continue;
      (*cost)[at] = beyond;
      for (const Link& link : links_[at]) {
        if ((*cost)[link.peer] == kFar) queue.push({beyond + link.cost, link.peer});
      }
    }
  }

  // The links of a switch that lie on shortest ways.
  void FindShortest(NodeId at, const std::vector<uint32_t>& cost, std::vector<Link>* shortest) const {
    shortest->clear();
    for (const Link& link : links_[at]) {
      if (cost[link.peer] != kFar && cost[link.peer] + link.cost == cost[at]) shortest->push_back(link);
    }
  }

  // That with the greatest hash: when another one comes or goes, the others keep what they have.
  uint32_t Choose(NodeId at, NodeId target, const std::vector<Link>& shortest) const {
    uint32_t chosen = shortest.front().hop;
    if (shortest.size() == 1) return chosen;
    uint64_t most = 0;
    for (const Link& link : shortest) {
      const uint64_t weight = Mixed(hashes_[at], hashes_[target], link.hash);
      if (weight <= most) continue;
      most = weight;
      chosen = link.hop;
    }
    return chosen;
  }

  // Sets the ways to a switch and to its hosts.
  void Point(NodeId last, const std::vector<uint32_t>& cost) {
    std::vector<Link> shortest;
    for (const NodeId at : topology_.switches) {
      std::vector<uint32_t>& hop_to = tables_[at].hop_to;
      if (at == last) {
        for (const NodeId host : hosts_[last]) hop_to[host] = topology_.Attached(host).peer_hop;
        continue;
      }
      if (cost[at] == kFar) continue;
      FindShortest(at, cost, &shortest);
      hop_to[last] = Choose(at, last, shortest);
      for (const NodeId host : hosts_[last]) hop_to[host] = Choose(at, host, shortest);
    }
  }

  // Of each who relies on ways to one target, by switch.
  using Ways = std::vector<std::map<NodeId, uint32_t>>;

  std::map<NodeId, Ways> WaysByTarget() const {
    std::map<NodeId, Ways> by_target;
    std::map<NodeId, size_t> last;  // whose ways were added to a target last
    for (size_t who = 0; who < before_.ways.size(); ++who) {
      for (const Way& way : *before_.ways[who]) {
        Ways& ways = by_target[way.to];
        const auto [added, is_first] = last.try_emplace(way.to, who);
        if (is_first || added->second != who) ways.emplace_back();
        added->second = who;
        ways.back().emplace(way.at, way.hop);
      }
    }
    return by_target;
  }

  // Keeps all of these ways to the target that frames pass, and has the others join them.
  void Stay(NodeId target, const Ways& ways) {
    const auto is_free = [&](const auto& way) { return tables_[way.first].HopTo(target) == way.second; };
    if (std::ranges::all_of(ways, [&](const auto& of) { return std::ranges::all_of(of, is_free); })) return;
    std::vector<uint32_t> cost(topology_.nodes.size(), kFar);
    std::deque<NodeId> kept;
    std::map<NodeId, uint32_t> stays;
    for (const auto& of : ways) {
      for (const auto& [from, first] : of) Keep(target, of, from, &cost, &kept, &stays);
    }
    if (kept.empty()) return;
    if (topology_.IsSwitch(target)) {
      cost[target] = 0;
      kept.push_front(target);
    }
    Join(target, kept, stays, &cost);
  }

  // The way from one switch, as far as it is not kept yet, if it ends.
  void Keep(NodeId target, const std::map<NodeId, uint32_t>& ways, NodeId from, std::vector<uint32_t>* cost,
            std::deque<NodeId>* kept, std::map<NodeId, uint32_t>* stays) const {
    std::vector<Way> way;
    NodeId at = from;
    while (at != target && (*cost)[at] == kFar) {
      const auto next = ways.find(at);
      if (next == ways.end() || !topology_.Carries({at, next->second}) || way.size() > ways.size()) return;
      way.push_back({target, at, next->second});
      at = topology_.nodes[at].hops[next->second].peer;
    }
    uint32_t length = at == target ? 0 : (*cost)[at];
    for (auto it = way.rbegin(); it != way.rend(); ++it) {
      (*cost)[it->at] = ++length;
      kept->push_back(it->at);
      stays->emplace(it->at, it->hop);
    }
  }

  void Join(NodeId target, const std::deque<NodeId>& kept, const std::map<NodeId, uint32_t>& stays,
            std::vector<uint32_t>* cost) {
    Reached first;
    for (const NodeId at : kept) {
      for (const Link& link : links_[at]) {
        if ((*cost)[link.peer] == kFar) first.push({(*cost)[at] + link.cost, link.peer});
      }
    }
    Reach(std::move(first), cost);
    std::vector<Link> shortest;
    for (const NodeId at : topology_.switches) {
      if (at == target) continue;
      uint32_t& hop = tables_[at].hop_to[target];
      const uint32_t freely = hop;
      if (const auto stay = stays.find(at); stay != stays.end()) {
        hop = stay->second;
      } else if ((*cost)[at] != kFar) {
        FindShortest(at, *cost, &shortest);
        hop = Choose(at, target, shortest);
      } else {
        hop = Forwarding::kNoHop;
      }
      detours_ |= hop != freely;
    }
  }

  const Topology& topology_;
  const ForwardingHistory& before_;
  std::vector<std::vector<Link>> links_;         // between switches, by NodeId
  std::vector<std::pair<NodeId, NodeId>> down_;  // of these, both ways
  std::vector<std::vector<NodeId>> hosts_;       // by their switch
  std::vector<uint64_t> hashes_;                 // of names
  std::vector<Forwarding> tables_;
  bool detours_ = false;
};

}  // namespace

std::vector<Forwarding> ComputeForwarding(const Topology& topology, const ForwardingHistory& before,
                                          bool* detours) {
  Computer computer(topology, before);
  std::vector<Forwarding> tables = computer.Compute();
  if (detours != nullptr) *detours = computer.detours();
  SetFloodPorts(topology, before.tables, &tables);
  return tables;
}

std::optional<LinkEnd> WayOut(const Topology& topology, const std::vector<Forwarding>& tables, NodeId at,
                              NodeId to) {
  if (!topology.IsSwitch(at)) return topology.AttachedEnd(at);
  const uint32_t hop = tables[at].HopTo(to);
  return hop == Forwarding::kNoHop ? std::nullopt : std::optional<LinkEnd>({at, hop});
}

std::vector<NodeId> Walk(const Topology& topology, const std::vector<Forwarding>& tables, NodeId from,
                         NodeId to) {
  std::vector<NodeId> path{from};
  NodeId at = from;
  while (at != to) {
    // A walk longer than the number of nodes has met one twice.
    if (path.size() > topology.nodes.size()) return {};
    if (!topology.IsSwitch(at) && at != from) return {};
    const std::optional<LinkEnd> out = WayOut(topology, tables, at, to);
    if (!out) return {};
    at = topology.Across(*out).node;
    path.push_back(at);
  }
  return path;
}

std::string ArrivalPort(const Topology& topology, const std::vector<Forwarding>& tables, NodeId from,
                        NodeId to) {
  const std::vector<NodeId> path = Walk(topology, tables, from, to);
  if (path.size() < 2) return "";
  const LinkEnd there = topology.Across(*WayOut(topology, tables, path[path.size() - 2], to));
  return topology.nodes[there.node].hops[there.hop].port;
}

}  // namespace epic::manager
