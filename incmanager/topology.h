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
#include <cstddef>
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
// Of a file, and with those that are found.
inline constexpr size_t kMaxNodes = 4096;

// Of a link. One that is down is still known: ways lead over it only where there are no others, so that
// whatever has no other way is there at once when its carrier returns. No way leads over one that is gone; it
// keeps its place in the hops of both ends, for when it comes back.
enum class LinkState : uint8_t { kUp, kDown, kGone };

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
  uint32_t peer_hop = 0;  // the place of the link in the peer's hops
  LinkState state = LinkState::kUp;
  bool unheard = false;  // it is down though there are carriers: nobody has been heard there yet
  uint32_t line = 0;  // of the file that states the link; 0: it was found
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
  // In the order of the file. Of a host one is its link, the others are where it was before.
  std::vector<Hop> hops;
  uint32_t attached = 0;  // a host's link, in its hops
  bool passes = true;     // a switch that does not has stopped, or is lost: as if its links were down
  uint32_t line = 0;      // of the file that states the node; 0: it was found
  // Of a host: that it, or another one, is heard where the file has something else, in a sentence that names
  // both; empty: nothing is known against its place.
  std::string misplaced;
};

// What discovery is to leave out: a node, or what is at a port of a switch.
struct Forbidden {
  std::string node;
  std::string port;  // empty: all of the node
  uint32_t line = 0;
};

struct Topology {
  std::string name;
  uint32_t path_mtu = 0;  // largest RoCE path MTU that every link carries, in bytes
  // A node keeps its place, and a link its places in the hops of its ends, while the manager runs. In a
  // file's order, switches first; what is found later comes behind.
  std::vector<Node> nodes;
  std::vector<NodeId> switches;  // ascending
  std::string text;              // the file as it was read
  std::string source;            // its name
  bool discovery = false;        // what it does not state is found
  std::vector<Forbidden> forbidden;

  std::optional<NodeId> FindNode(const std::string& node_name) const;
  std::optional<NodeId> FindSwitch(const std::string& node_name) const;
  // By its name, or by its address: one that was found is named by its address until its ranks say its name.
  std::optional<NodeId> FindHost(const std::string& name_or_address) const;
  // Nothing for 0, which a node has that was a host.
  std::optional<NodeId> FindHostByAddress(Ipv4 address) const;
  std::optional<NodeId> FindSwitchByAddress(Ipv4 address) const;
  bool IsSwitch(NodeId id) const { return !nodes[id].is_host; }
  // A host's end of its link, and the link as it sees it.
  LinkEnd AttachedEnd(NodeId host) const { return {host, nodes[host].attached}; }
  const Hop& Attached(NodeId host) const { return nodes[host].hops[nodes[host].attached]; }
  // Whether frames pass: it is up, and so are the switches at its ends.
  bool Carries(LinkEnd end) const;
  // Where a switch's frames for a node go that leave by a port: to the router in that link, else to the node.
  Mac NextHopMac(NodeId from, const std::string& port, NodeId to) const;
  // The other end of a link.
  LinkEnd Across(LinkEnd end) const {
    const Hop& hop = nodes[end.node].hops[end.hop];
    return {hop.peer, hop.peer_hop};
  }
  // Joins two nodes, and returns a's end; each end is the last of its node's hops. The hops' peers are set
  // here.
  LinkEnd Link(NodeId a, Hop at_a, NodeId b, Hop at_b);
  // The node's end at a port; nothing if no link is there. Of several, what is not gone, then the first.
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
