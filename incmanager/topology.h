// The network as its operator describes it: switches, hosts and the links between them, read from a YAML
// file.
//
//   name: tree-3-2
//   path_mtu: 4096
//   link: {rate_gbps: 10, delay_us: 20}
//   switches: [{name: root, address: 10.10.255.1, mac: "02:e0:00:00:00:01", ports: [swp1, swp2]}, ...]
//   hosts:    [{name: h0, address: 10.10.0.1, mac: "52:54:00:00:00:01"}, ...]
//   links:    [{a: "root:swp1", b: "leaf1:swp3"}, {a: "leaf1:swp1", b: "h0"}]
//
// A host with `source_guard: false` may also send with other addresses than its own, as one that routes must.
// A link may carry its own rate_gbps and delay_us. Where an IP router is in a link, a_next_hop_mac and
// b_next_hop_mac state the MAC to which that end sends: the router's port on its side. `port_security: true`
// says of a link that its ports pass frames with the addresses of their own node only.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace epic::manager {

using Mac = std::array<uint8_t, 6>;

// Index into Topology::nodes.
using NodeId = uint32_t;
inline constexpr NodeId kNoNode = UINT32_MAX;

// A link as seen from one of its ends.
struct Hop {
  NodeId peer = kNoNode;
  std::string port;  // of this node; empty at a host
  double rate_gbps = 0;
  double delay_us = 0;  // one way
  // Of the router in the link, as this end sees it; nothing where the peer's own MAC is reached.
  std::optional<Mac> next_hop_mac = std::nullopt;
  // A filter in the link lets each port send with the addresses of its own node only: nothing passes between
  // hosts there, nor between nodes farther apart than the link's ends.
  bool port_security = false;
};

// One end of a link: a node and the place of the link in its hops.
struct LinkEnd {
  NodeId node = kNoNode;
  uint32_t hop = 0;

  friend auto operator<=>(const LinkEnd&, const LinkEnd&) = default;
};

struct Node {
  std::string name;
  bool is_host = false;
  Ipv4 address{};
  Mac mac{};
  bool source_guard = false;  // a host's switch takes from it only frames with these addresses
  std::vector<Hop> hops;      // in the order of the file
};

struct Topology {
  std::string name;
  uint32_t path_mtu = 0;    // largest RoCE path MTU that every link carries, in bytes
  std::vector<Node> nodes;  // switches first, then hosts, each in the order of the file
  uint32_t switch_count = 0;
  std::string text;  // the file as it was read

  std::optional<NodeId> FindNode(const std::string& node_name) const;
  std::optional<NodeId> FindSwitch(const std::string& node_name) const;
  std::optional<NodeId> FindHostByAddress(Ipv4 address) const;
  std::optional<NodeId> FindSwitchByAddress(Ipv4 address) const;
  bool IsSwitch(NodeId id) const { return id < switch_count; }
  // Where a switch's frames for a node go that leave by a port: to the router in that link, else to the node.
  Mac NextHopMac(NodeId from, const std::string& port, NodeId to) const;
  // The other end of a link. Of parallel links the n-th of one node is the n-th of the other, as in the file.
  LinkEnd Across(LinkEnd end) const;
  // The node's end at a port; nothing if no link is there.
  std::optional<LinkEnd> EndAt(NodeId node, const std::string& port) const;
  // "leaf1:swp3"; of a host its name.
  std::string Describe(LinkEnd end) const;
};

// Errors: INVALID_ARGUMENT with "SOURCE:LINE: KEY: what is wrong" for bad YAML, missing or unknown keys,
// duplicate names, addresses or MACs, unknown nodes, ports used twice or not listed, next hops of hosts or
// with the MAC of a node that is not the link's other end, hosts without exactly one link.
StatusOr<Topology> ParseTopology(const std::string& text, const std::string& source);

// As ParseTopology; NOT_FOUND if the file cannot be read.
StatusOr<Topology> LoadTopology(const std::string& path);

// "10.0.0.1" and "02:e0:00:00:00:01"; nothing if text is not one.
std::optional<Ipv4> ParseIpv4(const std::string& text);
std::optional<Mac> ParseMac(const std::string& text);
std::string ToString(Ipv4 address);
std::string ToString(const Mac& mac);

}  // namespace epic::manager
