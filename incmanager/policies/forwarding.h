// Where a switch sends ordinary traffic: for every host and every other switch the port on a shortest path,
// and the ports of one spanning tree for broadcast and multicast, so that nothing loops on redundant paths.
// Pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "incmanager/topology.h"

namespace epic::manager {

// One switch's table.
struct Forwarding {
  // By destination NodeId: index into the switch's hops, or kNoHop for itself and what it cannot reach.
  std::vector<uint32_t> hop_to;
  std::vector<std::string> flood_ports;  // each once
  // Of multicast groups of ours, by their MAC: flood ports, each once. All others are flooded.
  std::map<Mac, std::vector<std::string>> group_ports;

  static constexpr uint32_t kNoHop = UINT32_MAX;

  uint32_t HopTo(NodeId target) const { return target < hop_to.size() ? hop_to[target] : kNoHop; }
  friend bool operator==(const Forwarding&, const Forwarding&) = default;
};

// That a switch sends frames for a node by this hop.
struct Way {
  NodeId to = kNoNode;
  NodeId at = kNoNode;
  uint32_t hop = Forwarding::kNoHop;
};

// What tables are to keep, so that a change of the network moves no more than it must.
struct ForwardingHistory {
  const std::vector<Forwarding>* tables = nullptr;  // those before; nothing if there are none
  // Of everybody who relies on the ports by which packets come in, the ways that were told when that began:
  // those over which frames pass are taken, also when there are shorter ones, or when others were taken
  // meanwhile. Where two contradict each other the first one counts.
  std::vector<const std::vector<Way>*> ways;
};

// The tables of all switches, by NodeId; a host's is empty. Paths never pass through hosts. They lead over
// links that are down, and through switches that pass nothing, only where there are no others, and then over
// as few as they can; over links that are gone never. Each of several shortest ways gets its share of the
// destinations, by a hash of switch, port and destination that is the same in every run: when one goes or
// comes, only what it takes or took moves. The spanning tree keeps what it can of the one before.
//
// detours: if given, set to whether a way is longer than it need be because it had to stay.
std::vector<Forwarding> ComputeForwarding(const Topology& topology, const ForwardingHistory& before = {},
                                          bool* detours = nullptr);

// The end of the link by which `at` sends a frame for another node: of a host its only one, of a switch that
// of its table; nothing if there is no way.
std::optional<LinkEnd> WayOut(const Topology& topology, const std::vector<Forwarding>& tables, NodeId at,
                              NodeId to);

// The nodes that a frame from `from` to `to` crosses, both ends included; empty if there is no way.
std::vector<NodeId> Walk(const Topology& topology, const std::vector<Forwarding>& tables, NodeId from,
                         NodeId to);

// The port of `to`, a switch, by which frames from `from` come in when they are forwarded by the tables;
// empty if there is no way. Not always the port that leads back: each direction chooses among equal paths by
// itself.
std::string ArrivalPort(const Topology& topology, const std::vector<Forwarding>& tables, NodeId from,
                        NodeId to);

}  // namespace epic::manager
