#include "incmanager/policies/group_ports.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "incmanager/policies/flooding.h"

namespace epic::manager {

Mac MulticastMac(Ipv4 address) {
  const uint32_t raw = Raw(address);
  return {0x01,
          0x00,
          0x5e,
          static_cast<uint8_t>(raw >> 16 & 0x7f),
          static_cast<uint8_t>(raw >> 8),
          static_cast<uint8_t>(raw)};
}

FloodTree::FloodTree(const Topology& topology, const std::vector<Forwarding>& tables)
    : topology_(topology), places_(topology.nodes.size()) {
  std::map<NodeId, std::vector<LinkEnd>> links;
  for (const LinkEnd& link : FloodedLinks(topology, tables)) {
    links[link.node].push_back(link);
    links[topology.Across(link).node].push_back(topology.Across(link));
  }
  for (const NodeId start : topology.switches) {
    if (places_[start].root != kNoNode) continue;
    places_[start].root = start;
    std::deque<NodeId> queue{start};
    for (; !queue.empty(); queue.pop_front()) {
      const NodeId at = queue.front();
      for (const LinkEnd& link : links[at]) {
        const LinkEnd there = topology.Across(link);
        if (places_[there.node].root != kNoNode) continue;
        places_[there.node] = {start, places_[at].depth + 1, there};
        queue.push_back(there.node);
      }
    }
  }
}

// A link belongs to it if some of the hosts are below it, and others are not.
std::vector<LinkEnd> FloodTree::LinksAmong(const std::vector<NodeId>& hosts) const {
  std::vector<LinkEnd> links;
  std::map<NodeId, size_t> below;  // of the hosts, by switch; at a root all of its tree
  for (const NodeId host : std::set<NodeId>(hosts.begin(), hosts.end())) {
    if (topology_.Attached(host).state == LinkState::kGone) continue;
    links.push_back(topology_.AttachedEnd(host));
    NodeId at = topology_.Attached(host).peer;
    for (++below[at]; at != places_[at].root; ++below[at]) at = topology_.Across(places_[at].up).node;
  }
  for (const auto& [at, count] : below) {
    if (count < below.at(places_[at].root)) links.push_back(places_[at].up);
  }
  return links;
}

void FloodTree::SetGroupPorts(const std::vector<MulticastMembers>& groups,
                              std::vector<Forwarding>* tables) const {
  for (Forwarding& table : *tables) table.group_ports.clear();
  for (const MulticastMembers& group : groups) {
    std::set<LinkEnd> ends;
    for (const LinkEnd& link : LinksAmong(group.hosts)) {
      for (const LinkEnd& end : {link, topology_.Across(link)}) {
        // Of a switch that is new there may be no table yet.
        if (topology_.IsSwitch(end.node) && end.node < tables->size()) ends.insert(end);
      }
    }
    for (const LinkEnd& end : ends) {
      std::vector<std::string>& ports = (*tables)[end.node].group_ports[group.mac];
      // Several hosts may be behind one port.
      const std::string& port = topology_.nodes[end.node].hops[end.hop].port;
      if (std::ranges::find(ports, port) == ports.end()) ports.push_back(port);
    }
  }
  for (Forwarding& table : *tables) KeepWithinFloodPorts(&table);
}

std::vector<LinkEnd> FloodTree::WayBetween(NodeId from, NodeId to) const {
  NodeId here = topology_.Attached(from).peer;
  NodeId there = topology_.Attached(to).peer;
  if (places_[here].root != places_[there].root) return {};
  std::vector<LinkEnd> way{topology_.AttachedEnd(from), topology_.Across(topology_.AttachedEnd(to))};
  while (here != there) {
    const bool rises = places_[here].depth >= places_[there].depth;
    NodeId& lower = rises ? here : there;
    const LinkEnd up = places_[lower].up;
    way.push_back(rises ? up : topology_.Across(up));
    lower = topology_.Across(up).node;
  }
  return way;
}

// Whoever gets what the first host sends gets what any of them sends, and the contrary: all ways between two
// are parts of one tree, and what blocks a link blocks it both ways.
std::optional<Obstacle> FloodTree::FindObstacle(const std::vector<NodeId>& hosts) const {
  for (const NodeId to : hosts) {
    const NodeId from = hosts.front();
    if (to == from) continue;
    const std::vector<LinkEnd> way = WayBetween(from, to);
    if (way.empty()) return Obstacle{from, to, "no links join them", kNoNode};
    for (const LinkEnd& end : way) {
      if (std::string why = BlocksHosts(topology_, end); !why.empty())
        return Obstacle{from, to, std::move(why), kNoNode};
    }
  }
  return std::nullopt;
}

}  // namespace epic::manager
