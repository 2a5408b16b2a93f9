// Where a switch sends ordinary traffic: for every host and every other switch the port on a shortest path,
// and the ports of one spanning tree for broadcast and multicast, so that nothing loops on redundant paths.
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "incmanager/topology.h"

namespace epic::manager {

// Links from each node to target, by NodeId; UINT32_MAX where there is no path. Paths never pass through
// hosts.
std::vector<uint32_t> Distances(const Topology& topology, NodeId target);

// One switch's table.
struct Forwarding {
  // By destination NodeId: index into the switch's hops, or kNoHop for itself and what it cannot reach.
  std::vector<uint32_t> hop_to;
  std::vector<std::string> flood_ports;

  static constexpr uint32_t kNoHop = UINT32_MAX;
};

// The tables of all switches, by NodeId. Equal-cost paths are spread by a hash of switch and destination,
// which is the same in every run.
std::vector<Forwarding> ComputeForwarding(const Topology& topology);

// The nodes that a frame from `from` to `to` crosses, both ends included; empty if there is no way.
std::vector<NodeId> Walk(const Topology& topology, const std::vector<Forwarding>& tables, NodeId from,
                         NodeId to);

// The port of `to`, a switch, by which frames from `from` come in when they are forwarded by the tables;
// empty if there is no way. Not always the port that leads back: each direction chooses among equal paths by
// itself.
std::string ArrivalPort(const Topology& topology, const std::vector<Forwarding>& tables, NodeId from,
                        NodeId to);

}  // namespace epic::manager
