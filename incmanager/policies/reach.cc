#include "incmanager/policies/reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace epic::manager {
namespace {

class Walker {
 public:
  Walker(const Topology& topology, const std::vector<Forwarding>& tables,
         const std::vector<std::string>& stopped)
      : topology_(topology), tables_(tables), stopped_(stopped) {}

  // Adds the way to the footprint. Hosts at the same switch go on from there alike: each such way is looked
  // at once.
  std::optional<Obstacle> Go(NodeId from, NodeId to) {
    const NodeId first = topology_.Attached(from).peer;
    if (walked_.contains({from, kNoNode}) && walked_.contains({first, to})) return std::nullopt;
    LinkEnd at = topology_.AttachedEnd(from);
    for (;;) {
      if (const std::string why = BlocksHosts(topology_, at); !why.empty())
        return Obstacle{from, to, why, kNoNode};
      const LinkEnd there = topology_.Across(at);
      footprint_.links.insert(std::min(at, there));
      if (there.node == to) break;
      if (!stopped_[there.node].empty()) {
        const std::string& name = topology_.nodes[there.node].name;
        return Obstacle{from, to, fmt::format("{} is between them, and {}", name, stopped_[there.node]),
                        there.node};
      }
      footprint_.switches.insert(there.node);
      const uint32_t hop = tables_[there.node].hop_to[to];
      if (hop == Forwarding::kNoHop) return Obstacle{from, to, "no links join them", kNoNode};
      footprint_.ways_of_hosts.push_back({to, there.node, hop});
      at = {there.node, hop};
    }
    walked_.insert({from, kNoNode});
    walked_.insert({first, to});
    return std::nullopt;
  }

  Footprint Take() { return std::move(footprint_); }

 private:
  const Topology& topology_;
  const std::vector<Forwarding>& tables_;
  const std::vector<std::string>& stopped_;
  Footprint footprint_;
  // From a switch to a host, and from a host to its switch.
  std::set<std::pair<NodeId, NodeId>> walked_;
};

}  // namespace

std::string BlocksHosts(const Topology& topology, LinkEnd end) {
  const LinkEnd there = topology.Across(end);
  const Hop& here_hop = topology.nodes[end.node].hops[end.hop];
  const Hop& there_hop = topology.nodes[there.node].hops[there.hop];
  const auto names = [&] {
    return fmt::format("{} and {}", topology.nodes[end.node].name, topology.nodes[there.node].name);
  };
  if (here_hop.next_hop_mac || there_hop.next_hop_mac)
    return fmt::format("a router is between {}, which passes nothing for hosts", names());
  if (here_hop.port_security)
    return fmt::format("port security between {} passes their own addresses only", names());
  return {};
}

void Cross(const Topology& topology, const std::vector<Forwarding>& tables, LinkEnd from, NodeId to,
           Footprint* footprint, NodeId as_far_as) {
  for (size_t steps = 0; steps < topology.nodes.size(); ++steps) {
    const LinkEnd there = topology.Across(from);
    footprint->links.insert(std::min(from, there));
    if (there.node == to || there.node == as_far_as || !topology.IsSwitch(there.node)) return;
    footprint->switches.insert(there.node);
    const uint32_t hop = tables[there.node].hop_to[to];
    if (hop == Forwarding::kNoHop) return;
    footprint->ways.push_back({to, there.node, hop});
    from = {there.node, hop};
  }
}

std::variant<Footprint, Obstacle> ReachAmong(const Topology& topology, const std::vector<Forwarding>& tables,
                                             const std::vector<std::string>& stopped,
                                             const std::vector<NodeId>& hosts) {
  std::vector<NodeId> distinct;
  std::set<NodeId> seen;
  for (const NodeId host : hosts) {
    if (seen.insert(host).second) distinct.push_back(host);
  }
  Walker walker(topology, tables, stopped);
  for (size_t i = 0; i < distinct.size(); ++i) {
    for (size_t j = i + 1; j < distinct.size(); ++j) {
      if (const auto obstacle = walker.Go(distinct[i], distinct[j])) return *obstacle;
      if (const auto obstacle = walker.Go(distinct[j], distinct[i])) return *obstacle;
    }
  }
  return walker.Take();
}

}  // namespace epic::manager
