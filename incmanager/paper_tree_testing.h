// The network of the paper's evaluation (appendix L): 2,048 hosts, 384 switches, 5,120 links.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "incmanager/topology.h"

namespace epic::manager::testing {

inline constexpr int kPods = 16, kLeaves = 8, kHosts = 16, kCoresOfSpine = 16;

// 16 pods of 8 leaves and 8 spines; each spine has 16 cores. Links are as stated in a file; 100 Gbit/s, 1 us.
inline Topology PaperTree() {
  Topology topology{.name = "paper", .path_mtu = 4096};
  const auto add = [&](const std::string& name, bool is_host) {
    const auto id = static_cast<uint32_t>(topology.nodes.size());
    topology.nodes.push_back({.name = name,
                              .is_host = is_host,
                              .address = Ipv4{0x0a000001 + id},
                              .mac = {2, 0, 0, 0, static_cast<uint8_t>(id >> 8), static_cast<uint8_t>(id)}});
    if (!is_host) topology.switches.push_back(id);
    return id;
  };
  const auto link = [&](NodeId a, NodeId b) {
    const auto hop = [&](NodeId at) {
      const Node& node = topology.nodes[at];
      return Hop{.port = node.is_host ? "" : fmt::format("swp{}", node.hops.size() + 1),
                 .rate_gbps = 100,
                 .delay_us = 1,
                 .line = 1};
    };
    topology.Link(a, hop(a), b, hop(b));
  };
  std::vector<NodeId> cores, spines, leaves;
  for (int i = 0; i < kLeaves * kCoresOfSpine; ++i) cores.push_back(add(fmt::format("core{}", i), false));
  for (int i = 0; i < kPods * kLeaves; ++i) spines.push_back(add(fmt::format("spine{}", i), false));
  for (int i = 0; i < kPods * kLeaves; ++i) leaves.push_back(add(fmt::format("leaf{}", i), false));
  for (int pod = 0; pod < kPods; ++pod) {
    for (int i = 0; i < kLeaves; ++i) {
      const NodeId spine = spines[static_cast<size_t>(pod * kLeaves + i)];
      for (int j = 0; j < kLeaves; ++j) link(spine, leaves[static_cast<size_t>(pod * kLeaves + j)]);
      for (int j = 0; j < kCoresOfSpine; ++j) link(cores[static_cast<size_t>(i * kCoresOfSpine + j)], spine);
    }
  }
  for (int i = 0; i < kPods * kLeaves * kHosts; ++i)
    link(leaves[static_cast<size_t>(i / kHosts)], add(fmt::format("h{}", i), true));
  return topology;
}

}  // namespace epic::manager::testing
