// Topologies for tests: the shapes that the test bed has.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "incmanager/topology.h"

namespace epic::manager::testing {

// Collects names and links, gives out ports, addresses and MACs, and goes through the parser.
class TopologyBuilder {
 public:
  TopologyBuilder& Switch(const std::string& name) {
    switches_.push_back(name);
    return *this;
  }
  TopologyBuilder& Host(const std::string& name) {
    hosts_.push_back(name);
    return *this;
  }
  TopologyBuilder& Link(const std::string& a, const std::string& b, const std::string& more = "") {
    links_ += fmt::format("  - {{a: \"{}\", b: \"{}\"{}}}\n", End(a), End(b), more);
    return *this;
  }
  // A link with an IP router in the middle, whose ports have these MACs: towards a, towards b.
  TopologyBuilder& RoutedLink(const std::string& a, const std::string& b, const std::string& mac_at_a,
                              const std::string& mac_at_b) {
    return Link(a, b, fmt::format(", a_next_hop_mac: \"{}\", b_next_hop_mac: \"{}\"", mac_at_a, mac_at_b));
  }
  std::string Yaml() const {
    std::string text = "name: test\npath_mtu: 4096\nlink: {rate_gbps: 10, delay_us: 20}\nswitches:\n";
    for (size_t i = 0; i < switches_.size(); ++i) {
      text += fmt::format("  - {{name: {}, address: 10.10.255.{}, mac: \"02:e0:00:00:00:{:02x}\"}}\n",
                          switches_[i], i + 1, i + 1);
    }
    text += "hosts:\n";
    for (size_t i = 0; i < hosts_.size(); ++i) {
      text += fmt::format("  - {{name: {}, address: 10.10.0.{}, mac: \"52:54:00:00:00:{:02x}\"}}\n",
                          hosts_[i], i + 1, i + 1);
    }
    return text + "links:\n" + links_;
  }
  Topology Build() const {
    StatusOr<Topology> topology = ParseTopology(Yaml(), "test");
    EPIC_CHECK(topology.ok());
    return *topology;
  }

 private:
  std::string End(const std::string& name) {
    for (const std::string& host : hosts_) {
      if (host == name) return name;
    }
    return fmt::format("{}:swp{}", name, ++ports_[name]);
  }

  std::vector<std::string> switches_;
  std::vector<std::string> hosts_;
  std::map<std::string, int> ports_;
  std::string links_;
};

// Links from each node to target, by NodeId, not through hosts; UINT32_MAX where there is no way.
inline std::vector<uint32_t> Distances(const Topology& topology, NodeId target) {
  std::vector<uint32_t> distance(topology.nodes.size(), UINT32_MAX);
  distance[target] = 0;
  std::deque<NodeId> queue{target};
  for (; !queue.empty(); queue.pop_front()) {
    const NodeId at = queue.front();
    if (at != target && !topology.IsSwitch(at)) continue;
    for (uint32_t i = 0; i < topology.nodes[at].hops.size(); ++i) {
      const NodeId peer = topology.nodes[at].hops[i].peer;
      if (!topology.Carries({at, i}) || distance[peer] != UINT32_MAX) continue;
      distance[peer] = distance[at] + 1;
      queue.push_back(peer);
    }
  }
  return distance;
}

inline TopologyBuilder Star(int hosts) {
  TopologyBuilder builder;
  builder.Switch("s1");
  for (int i = 0; i < hosts; ++i) builder.Host(fmt::format("h{}", i)).Link("s1", fmt::format("h{}", i));
  return builder;
}

// One root, two leaves, two hosts each; the second leaf is not linked to the root.
inline TopologyBuilder Tree32ButOneLink() {
  TopologyBuilder builder;
  builder.Switch("root").Switch("leaf1").Switch("leaf2");
  for (const char* host : {"h0", "h1", "h2", "h3"}) builder.Host(host);
  return builder.Link("leaf1", "h0")
      .Link("leaf1", "h1")
      .Link("leaf2", "h2")
      .Link("leaf2", "h3")
      .Link("root", "leaf1");
}

// One root, two leaves, two hosts each.
inline TopologyBuilder Tree32() { return Tree32ButOneLink().Link("root", "leaf2"); }

// As Tree32, with a router between leaf2 and root; its ports are 02:f0:00:00:00:0a towards root and ...:0b.
inline TopologyBuilder RoutedTree32() {
  return Tree32ButOneLink().RoutedLink("root", "leaf2", "02:f0:00:00:00:0a", "02:f0:00:00:00:0b");
}

// Two leaves with two hosts each, and two spines that join them; the tree takes spine1 if both are as good.
inline TopologyBuilder TwoSpines() {
  TopologyBuilder builder;
  builder.Switch("spine1").Switch("spine2").Switch("leaf1").Switch("leaf2");
  for (const char* host : {"h0", "h1", "h2", "h3"}) builder.Host(host);
  for (const char* leaf : {"leaf1", "leaf2"}) builder.Link("spine1", leaf).Link("spine2", leaf);
  return builder.Link("leaf1", "h0").Link("leaf1", "h1").Link("leaf2", "h2").Link("leaf2", "h3");
}

// k = 4, with so many of its four pods: core1-4, agg1-8, edge1-8, h0-h15 if with all.
inline TopologyBuilder FatTree4(int pods = 4) {
  TopologyBuilder builder;
  for (int i = 1; i <= 4; ++i) builder.Switch(fmt::format("core{}", i));
  for (int i = 1; i <= 2 * pods; ++i) builder.Switch(fmt::format("agg{}", i));
  for (int i = 1; i <= 2 * pods; ++i) builder.Switch(fmt::format("edge{}", i));
  for (int i = 0; i < 4 * pods; ++i) builder.Host(fmt::format("h{}", i));
  for (int i = 0; i < 4 * pods; ++i) builder.Link(fmt::format("edge{}", i / 2 + 1), fmt::format("h{}", i));
  for (int pod = 0; pod < pods; ++pod) {
    for (int i = 0; i < 2; ++i) {
      const std::string agg = fmt::format("agg{}", pod * 2 + i + 1);
      for (int j = 0; j < 2; ++j) {
        builder.Link(agg, fmt::format("edge{}", pod * 2 + j + 1))
            .Link(fmt::format("core{}", i * 2 + j + 1), agg);
      }
    }
  }
  return builder;
}

}  // namespace epic::manager::testing
