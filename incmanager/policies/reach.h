// Which hosts reach each other by ordinary forwarding, and over what: the way of groups whose data go between
// the hosts (docs/DEPLOY.md, "Which path a group takes"). Pure functions.
#pragma once

#include <set>
#include <string>
#include <variant>
#include <vector>

#include "incmanager/policies/forwarding.h"
#include "incmanager/topology.h"

namespace epic::manager {

// The switches and links that a group's packets cross, also those between the ends of a tree edge.
struct Footprint {
  std::set<NodeId> switches;
  std::set<LinkEnd> links;  // by the end that compares less
  // The ways that ordinary forwarding takes there: between the ends of tree edges, which take packets by one
  // port only, and between hosts.
  std::vector<Way> ways;
  std::vector<Way> ways_of_hosts;
};

// Adds the way to a node that begins at this end of a link, or what of it lies before as_far_as. tables:
// ComputeForwarding.
void Cross(const Topology& topology, const std::vector<Forwarding>& tables, LinkEnd from, NodeId to,
           Footprint* footprint, NodeId as_far_as = kNoNode);

// Two hosts of which one does not reach the other.
struct Obstacle {
  NodeId from = kNoNode;
  NodeId to = kNoNode;
  std::string why;           // as "a router is between root and leaf2"
  NodeId culprit = kNoNode;  // a switch that is in the way; kNoNode if none is by itself
};

// Why the link lets no frames between hosts through that come from this end; empty if it does.
std::string BlocksHosts(const Topology& topology, LinkEnd end);

// What all hosts cross on their ways to all others, or the first two between whom there is no way: because of
// a switch that does not forward, of a router, of port security, or since there is no link. That a link has
// lost its carrier is not looked at here, as little as it is for trees: such a group ends by that verdict.
//
// stopped: by NodeId of the switch, why it does not forward, empty if it does. hosts: in the order in which
// they are judged; several may be the same, which needs no way.
std::variant<Footprint, Obstacle> ReachAmong(const Topology& topology, const std::vector<Forwarding>& tables,
                                             const std::vector<std::string>& stopped,
                                             const std::vector<NodeId>& hosts);

}  // namespace epic::manager
