// Which switches could be the root of a group's tree, and why it is this one: for people. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "incmanager/policies/tree.h"
#include "incmanager/topology.h"

namespace epic::manager {

// A switch as the root of a group's tree.
struct RootChoice {
  NodeId root = kNoNode;
  bool chosen = false;
  std::string why;                   // why it is not the group's; empty if it is
  std::vector<Aggregator> switches;  // of its tree, the root first; none: there is no tree from here
  uint32_t depth_links = 0;          // from this switch to the farthest host
  double rate_gbps = 0;              // of the slowest link
  uint64_t width_kbps = 0;           // what its group would have of links and switches; 0: not known
  double delay_us = 0;               // one way from this switch to the farthest host
};

// What BuildTree has found, in words: of a root that no group can have, what is in the way ("its agent is
// lost", "leaf1 would have 70 children in this group; it takes at most 64"); of all others the first thing in
// which the best one is better ("deeper: 3 links, leaf1 has 2"). In the order of the candidates. offers:
// those that BuildTree was given.
std::vector<RootChoice> ExplainRoots(const Topology& topology, const std::vector<SwitchOffer>& offers,
                                     const std::vector<RootCandidate>& candidates);

}  // namespace epic::manager
