#include "incmanager/policies/forwarding.h"

#include <algorithm>
#include <deque>

#include "base/check.h"

namespace epic::manager {
namespace {

// FNV-1a over both names: stable across runs and machines, unlike std::hash.
uint32_t Hash(const std::string& a, const std::string& b) {
  uint32_t hash = 2166136261u;
  for (const std::string* text : {&a, &b}) {
    for (const char c : *text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
    hash = (hash ^ 0xffu) * 16777619u;
  }
  return hash ^ hash >> 15;
}

// Marks the ports of a breadth-first spanning tree over the switches, and every port to a host.
void ComputeFloodPorts(const Topology& topology, std::vector<Forwarding>* tables) {
  std::vector<bool> seen(topology.switch_count, false);
  for (NodeId start = 0; start < topology.switch_count; ++start) {
    if (seen[start]) continue;
    seen[start] = true;
    std::deque<NodeId> queue{start};
    while (!queue.empty()) {
      const NodeId at = queue.front();
      queue.pop_front();
      for (const Hop& hop : topology.nodes[at].hops) {
        if (!topology.IsSwitch(hop.peer)) {
          (*tables)[at].flood_ports.push_back(hop.port);
        } else if (!seen[hop.peer]) {
          seen[hop.peer] = true;
          queue.push_back(hop.peer);
          (*tables)[at].flood_ports.push_back(hop.port);
          // With parallel links the one that was taken is the first that leads back.
          for (const Hop& back : topology.nodes[hop.peer].hops) {
            if (back.peer == at) {
              (*tables)[hop.peer].flood_ports.push_back(back.port);
              break;
            }
          }
        }
      }
    }
  }
}

// The same link as its other node sees it. Parallel links are in the same order, the file's, at both ends.
const Hop& OtherEnd(const Topology& topology, NodeId node, uint32_t hop) {
  const std::vector<Hop>& hops = topology.nodes[node].hops;
  const NodeId peer = hops[hop].peer;
  const auto to = [](NodeId id) { return [id](const Hop& h) { return h.peer == id; }; };
  auto parallel = std::count_if(hops.begin(), hops.begin() + hop, to(peer));
  const std::vector<Hop>& others = topology.nodes[peer].hops;
  auto end = std::find_if(others.begin(), others.end(), to(node));
  for (; parallel > 0; --parallel) end = std::find_if(end + 1, others.end(), to(node));
  EPIC_CHECK(end != others.end());
  return *end;
}

}  // namespace

std::vector<uint32_t> Distances(const Topology& topology, NodeId target) {
  std::vector<uint32_t> distance(topology.nodes.size(), UINT32_MAX);
  distance[target] = 0;
  std::deque<NodeId> queue{target};
  while (!queue.empty()) {
    const NodeId at = queue.front();
    queue.pop_front();
    if (at != target && !topology.IsSwitch(at)) continue;
    for (const Hop& hop : topology.nodes[at].hops) {
      if (distance[hop.peer] != UINT32_MAX) continue;
      distance[hop.peer] = distance[at] + 1;
      queue.push_back(hop.peer);
    }
  }
  return distance;
}

std::vector<Forwarding> ComputeForwarding(const Topology& topology) {
  std::vector<Forwarding> tables(topology.switch_count);
  for (Forwarding& table : tables) table.hop_to.assign(topology.nodes.size(), Forwarding::kNoHop);
  for (NodeId target = 0; target < topology.nodes.size(); ++target) {
    const std::vector<uint32_t> distance = Distances(topology, target);
    for (NodeId at = 0; at < topology.switch_count; ++at) {
      if (at == target || distance[at] == UINT32_MAX) continue;
      std::vector<uint32_t> shortest;
      const std::vector<Hop>& hops = topology.nodes[at].hops;
      for (uint32_t i = 0; i < hops.size(); ++i) {
        const bool passable = hops[i].peer == target || topology.IsSwitch(hops[i].peer);
        if (passable && distance[hops[i].peer] == distance[at] - 1) shortest.push_back(i);
      }
      const uint32_t hash = Hash(topology.nodes[at].name, topology.nodes[target].name);
      tables[at].hop_to[target] = shortest[hash % shortest.size()];
    }
  }
  ComputeFloodPorts(topology, &tables);
  return tables;
}

std::vector<NodeId> Walk(const Topology& topology, const std::vector<Forwarding>& tables, NodeId from,
                         NodeId to) {
  std::vector<NodeId> path{from};
  NodeId at = from;
  while (at != to) {
    // A walk longer than the number of nodes has met one twice.
    if (path.size() > topology.nodes.size()) return {};
    if (topology.IsSwitch(at)) {
      const uint32_t hop = tables[at].hop_to[to];
      if (hop == Forwarding::kNoHop) return {};
      at = topology.nodes[at].hops[hop].peer;
    } else if (at == from) {
      at = topology.nodes[at].hops.front().peer;
    } else {
      return {};
    }
    path.push_back(at);
  }
  return path;
}

std::string ArrivalPort(const Topology& topology, const std::vector<Forwarding>& tables, NodeId from,
                        NodeId to) {
  const std::vector<NodeId> path = Walk(topology, tables, from, to);
  if (path.size() < 2) return "";
  const Node& last = topology.nodes[path[path.size() - 2]];
  const uint32_t hop = last.is_host ? 0 : tables[path[path.size() - 2]].hop_to[to];
  return OtherEnd(topology, path[path.size() - 2], hop).port;
}

}  // namespace epic::manager
