// By which ports the frames of a multicast group of ours leave switches (docs/PROTOCOL-MULTICAST.md, section
// 6): of the flooding tree, those between its members' hosts. Pure functions.
#pragma once

#include <optional>
#include <vector>

#include "incmanager/policies/forwarding.h"
#include "incmanager/policies/reach.h"
#include "incmanager/topology.h"

namespace epic::manager {

// Who gets what is sent to a group's address.
struct MulticastMembers {
  Mac mac{};                  // that belongs to the address
  std::vector<NodeId> hosts;  // of its ranks; several may be the same
};

// The MAC address that belongs to an IPv4 multicast address: 01:00:5e and the lower 23 bits (RFC 1112, 6.4).
Mac MulticastMac(Ipv4 address);

// The flooding tree of some tables, or a tree for each part of a network that is not in one piece.
class FloodTree {
 public:
  // topology outlives it.
  FloodTree(const Topology& topology, const std::vector<Forwarding>& tables);

  // Sets the ports of these groups, whose MACs differ, and no others, in the tables of which this is the
  // flooding tree. A switch that is not between members has none. Nor is a port that does not flood: so a
  // frame to a group goes nowhere where a flooded one would not.
  void SetGroupPorts(const std::vector<MulticastMembers>& groups, std::vector<Forwarding>* tables) const;

  // The links that frames of a group take, with those to its hosts, by either of their ends; each once.
  std::vector<LinkEnd> LinksAmong(const std::vector<NodeId>& hosts) const;

  // The first two of these hosts between whom no datagrams to a group pass, and what is in the way: a router,
  // port security, or that no links join them.
  std::optional<Obstacle> FindObstacle(const std::vector<NodeId>& hosts) const;

 private:
  // Of a switch.
  struct Branch {
    NodeId root = kNoNode;  // of its tree
    uint32_t depth = 0;     // links to it
    LinkEnd up;             // its end of the link to its parent; of a root none
  };
  // The links that join two hosts, each by its end nearer to `from`; empty if there are none.
  std::vector<LinkEnd> WayBetween(NodeId from, NodeId to) const;

  const Topology& topology_;
  std::vector<Branch> places_;  // by NodeId
};

}  // namespace epic::manager
