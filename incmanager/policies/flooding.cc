#include "incmanager/policies/flooding.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <string>

namespace epic::manager {
namespace {

bool Floods(const Topology& topology, const std::vector<Forwarding>& tables, LinkEnd end) {
  if (end.node >= tables.size()) return false;
  const std::vector<std::string>& ports = tables[end.node].flood_ports;
  return std::ranges::find(ports, topology.nodes[end.node].hops[end.hop].port) != ports.end();
}

class Spanner {
 public:
  explicit Spanner(const Topology& topology)
      : topology_(topology), root_(topology.nodes.size()), ports_(topology.nodes.size()) {
    std::iota(root_.begin(), root_.end(), 0u);
  }

  void Keep(const std::vector<Forwarding>& former) {
    for (const LinkEnd& link : FloodedLinks(topology_, former)) {
      if (topology_.Carries(link)) Join(link);
    }
  }

  // Breadth first, so that the tree is not deep.
  void Grow(bool over_down) {
    std::vector<bool> seen(topology_.nodes.size(), false);
    for (const NodeId start : topology_.switches) {
      if (seen[start]) continue;
      seen[start] = true;
      std::deque<NodeId> queue{start};
      while (!queue.empty()) {
        const NodeId at = queue.front();
        queue.pop_front();
        const std::vector<Hop>& hops = topology_.nodes[at].hops;
        for (uint32_t i = 0; i < hops.size(); ++i) {
          if (!topology_.IsSwitch(hops[i].peer) || hops[i].state == LinkState::kGone) continue;
          if (!over_down && !topology_.Carries({at, i})) continue;
          Join({at, i});
          if (seen[hops[i].peer]) continue;
          seen[hops[i].peer] = true;
          queue.push_back(hops[i].peer);
        }
      }
    }
  }

  // In the order of the hops.
  void Set(std::vector<Forwarding>* tables) const {
    for (const NodeId at : topology_.switches) {
      std::vector<std::string>& ports = (*tables)[at].flood_ports;
      ports.clear();
      const std::vector<Hop>& hops = topology_.nodes[at].hops;
      for (uint32_t i = 0; i < hops.size(); ++i) {
        const bool floods = topology_.IsSwitch(hops[i].peer) ? std::ranges::count(ports_[at], i) != 0
                                                             : hops[i].state != LinkState::kGone;
        // Several hosts may be behind one port.
        if (floods && std::ranges::find(ports, hops[i].port) == ports.end()) ports.push_back(hops[i].port);
      }
    }
  }

 private:
  NodeId RootOf(NodeId node) {
    while (root_[node] != node) node = root_[node] = root_[root_[node]];
    return node;
  }

  void Join(LinkEnd end) {
    const LinkEnd there = topology_.Across(end);
    const NodeId a = RootOf(end.node);
    const NodeId b = RootOf(there.node);
    if (a == b) return;
    root_[std::max(a, b)] = std::min(a, b);
    ports_[end.node].push_back(end.hop);
    ports_[there.node].push_back(there.hop);
  }

  const Topology& topology_;
  std::vector<NodeId> root_;                  // of those that are joined, a tree of its own
  std::vector<std::vector<uint32_t>> ports_;  // hops of the tree, by switch
};

}  // namespace

std::vector<LinkEnd> FloodedLinks(const Topology& topology, const std::vector<Forwarding>& tables) {
  std::vector<LinkEnd> links;
  for (const NodeId at : topology.switches) {
    const std::vector<Hop>& hops = topology.nodes[at].hops;
    for (uint32_t i = 0; i < hops.size(); ++i) {
      const LinkEnd end{at, i};
      const LinkEnd there = topology.Across(end);
      if (hops[i].state == LinkState::kGone || !topology.IsSwitch(there.node) || there < end) continue;
      if (Floods(topology, tables, end) && Floods(topology, tables, there)) links.push_back(end);
    }
  }
  return links;
}

void KeepWithinFloodPorts(Forwarding* table) {
  for (auto& [mac, ports] : table->group_ports) {
    std::erase_if(ports, [table](const std::string& port) {
      return std::ranges::find(table->flood_ports, port) == table->flood_ports.end();
    });
  }
}

void SetFloodPorts(const Topology& topology, const std::vector<Forwarding>* former,
                   std::vector<Forwarding>* tables) {
  Spanner spanner(topology);
  if (former != nullptr) spanner.Keep(*former);
  spanner.Grow(false);
  spanner.Grow(true);
  spanner.Set(tables);
}

}  // namespace epic::manager
