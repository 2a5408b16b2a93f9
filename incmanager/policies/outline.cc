#include "incmanager/policies/outline.h"

#include <algorithm>
#include <optional>

namespace epic::manager {

Outliner::Outliner(const Topology& topology, const std::vector<Forwarding>& tables,
                   const std::vector<SwitchOffer>& offers, const std::vector<NodeId>& rank_hosts)
    : topology_(topology), tables_(tables), offers_(offers) {
  for (uint32_t rank = 0; rank < rank_hosts.size(); ++rank) {
    std::vector<uint32_t>& ranks = ranks_of_[rank_hosts[rank]];
    if (ranks.empty()) hosts_.push_back(rank_hosts[rank]);
    ranks.push_back(rank);
  }
}

const Outline& Outliner::Of(const Paths& paths, NodeId root) {
  out_.inner.clear();
  out_.children.clear();
  out_.depth_links = out_.down_links = 0;
  Join(paths, root);
  NodeId top = root;
  while (topology_.IsSwitch(first_[top]) && IsOnlyChild(first_[top], top)) top = first_[top];
  out_.inner.push_back({.node = top});
  for (uint32_t i = 0; i < out_.inner.size(); ++i) AddChildren(i);
  return out_;
}

void Outliner::Join(const Paths& paths, NodeId root) {
  for (std::vector<NodeId>* nodes : {&first_, &last_, &next_}) nodes->assign(topology_.nodes.size(), kNoNode);
  lowest_.assign(topology_.nodes.size(), UINT32_MAX);
  for (const NodeId host : hosts_) {
    out_.depth_links = std::max(out_.depth_links, paths.distance[host]);
    for (NodeId at = host; at != root && lowest_[at] == UINT32_MAX; at = paths.parent[at]) {
      lowest_[at] = ranks_of_.at(host).front();
      const NodeId parent = paths.parent[at];
      if (topology_.nodes[parent].hops[paths.down_hop[at]].state != LinkState::kUp) ++out_.down_links;
      (first_[parent] == kNoNode ? first_[parent] : next_[last_[parent]]) = at;
      last_[parent] = at;
    }
  }
}

void Outliner::AddChildren(uint32_t index) {
  const NodeId at = out_.inner[index].node;
  const auto begin = static_cast<uint32_t>(out_.children.size());
  uint32_t degree = 0;
  for (NodeId next = first_[at]; next != kNoNode; next = next_[next]) {
    const NodeId node = Contract(at, next);
    Outline::Child child{.next = next, .node = node, .rank = lowest_[node]};
    if (topology_.IsSwitch(node)) {
      ++degree;
      child.inner = static_cast<uint32_t>(out_.inner.size());
      out_.inner.push_back({.node = node, .parent = index});
    } else {
      degree += static_cast<uint32_t>(RanksOf(node).size());
    }
    out_.children.push_back(child);
  }
  out_.inner[index].begin = begin;
  out_.inner[index].end = static_cast<uint32_t>(out_.children.size());
  out_.inner[index].degree = degree;
}

// The node that becomes at's child: the next one itself, or what lies behind a chain of switches with one
// child each.
NodeId Outliner::Contract(NodeId at, NodeId next) const {
  NodeId far = next;
  while (topology_.IsSwitch(next) && IsOnlyChild(first_[next], next)) {
    next = first_[next];
    // Two ranks on one host are two children of its switch.
    if (!topology_.IsSwitch(next) && RanksOf(next).size() > 1) break;
    // Frames between them must stay on usable switches, and pass all links.
    if (Passes(at, next) && Passes(next, at)) far = next;
  }
  return far;
}

bool Outliner::Passes(NodeId from, NodeId to) const {
  NodeId at = from;
  // A way longer than the number of nodes has met one twice.
  for (size_t steps = 0; at != to; ++steps) {
    if (steps > topology_.nodes.size()) return false;
    const std::optional<LinkEnd> out = WayOut(topology_, tables_, at, to);
    if (!out) return false;
    const Hop& hop = topology_.nodes[at].hops[out->hop];
    if (topology_.IsSwitch(at)) {
      // A router passes only what is for the switch behind it, port security what its own node sends.
      if (!Usable(at) || !topology_.Carries(*out) || hop.next_hop_mac || hop.port_security) return false;
    } else if (at != from) {
      return false;
    }
    at = hop.peer;
  }
  return !topology_.IsSwitch(to) || Usable(to);
}

}  // namespace epic::manager
