// The IncTree of a group (EPIC paper, section 3.1): which switches aggregate, and over which ports. A pure
// function.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "incmanager/failure.h"
#include "incmanager/policies/forwarding.h"
#include "incmanager/result.h"
#include "incmanager/topology.h"
#include "protocol/abilities.h"
#include "protocol/bounds.h"
#include "protocol/modes.h"

namespace epic::manager {

// What the policy needs to know of a switch. Nothing passes an unusable one. One that lacks something may
// forward a group's packets, as any switch does: only who aggregates must have what the group needs.
struct SwitchOffer {
  std::string unusable;        // why the switch cannot take part, as "its agent is lost"; empty if it can
  std::string lacks;           // why it cannot aggregate, as "type int8 is not in leaf1"; empty if it can
  bool small_payload = false;  // it cannot aggregate packets of the size that is asked for
  Abilities abilities = Abilities::All();  // that it has
  uint32_t max_children = kMaxChildren;
  uint32_t groups = 0;             // contexts that it holds already
  Mode mode = Mode::kUnspecified;  // in which it would have the group
  uint64_t arena_bytes = 0;        // of its memory; 0: it has not said
  uint64_t room = UINT64_MAX;      // bytes of it that the group may have
  std::string kept;                // what else there is to say of them, as "0.5 MiB are kept for tenants"
};

struct TreeChild {
  bool is_host = false;
  uint32_t rank = 0;         // of a host; the lowest rank below a switch
  uint32_t inner = 0;        // of a switch: index into Tree::inner
  std::string port;          // of the parent, towards the child
  std::string ingress_port;  // of the parent, by which the child's packets come
};

struct TreeInner {
  NodeId node = kNoNode;
  uint32_t parent = kNoParent;      // index into Tree::inner
  std::string parent_port;          // of this switch, towards the parent
  std::string parent_ingress_port;  // of this switch, by which the parent's packets come
  std::vector<TreeChild> children;  // by rank
  double hop_us = 0;                // one way over the slowest tree edge of this switch

  static constexpr uint32_t kNoParent = UINT32_MAX;
};

struct Tree {
  std::vector<TreeInner> inner;  // parents before children; [0] is the root
  uint32_t depth_links = 0;      // links from the root to its farthest host
  double delay_us = 0;           // one way from the root to its farthest host
  double rate_gbps = 0;          // of the slowest link
  uint32_t down_links = 0;       // that it crosses
};

// What is compared of two trees, in this order: the one that has less is better.
struct TreeCost {
  uint32_t down = 0;         // links that are down
  size_t lacking = 0;        // switches that lack something that is asked for
  bool overfull = false;     // a switch has more children than it takes
  size_t small = 0;          // switches that take smaller payloads than are asked for
  uint32_t depth_links = 0;  // from where the tree was looked for to its farthest host
  uint32_t missing = 0;      // types and operations that not all switches have
  size_t switches = 0;       // that aggregate
  uint32_t groups = 0;       // that the root holds already
  std::string name;          // of the root

  friend auto operator<=>(const TreeCost&, const TreeCost&) = default;
};

// A switch that aggregates.
struct Aggregator {
  NodeId node = kNoNode;
  uint32_t children = 0;
  // Where they are known: what the group would take of its memory, of so much that the group may have. 0:
  // not.
  uint64_t bytes = 0;
  uint64_t room = 0;
  uint32_t block = 0;  // that it would share with others, so that the bytes are taken already; 0: none
};

// What was found with the root at one switch: the best tree from there, if there is one.
struct RootCandidate {
  NodeId root = kNoNode;
  NodeId unreached = kNoNode;        // the first host that a usable switch does not reach
  std::vector<Aggregator> switches;  // of the tree, its root first; none: there is no tree from here
  double rate_gbps = 0;              // as in Tree
  double delay_us = 0;
  Abilities common;  // that all its switches have
  TreeCost cost;
  Failure failure;    // why no group can have the tree
  bool best = false;  // of all roots, whether a group can have it or not
};

// Builds the tree with its root at the lowest common switch: for each switch the shortest-path tree to the
// hosts, over links that are up if there are such, and that which passes the fewest switches that lack
// something or take smaller payloads. Of these it is the one whose switches (Tree::inner) lack nothing, are
// not overfull and take the payload; then the least deep; then that whose switches have most abilities in
// common; then that with fewest switches, then the least loaded root, then by name (TreeCost). A longer way
// is so gone for what the group needs, never for what it has not asked for. A switch with one child is left
// out, where ordinary forwarding between its neighbours stays on usable switches and crosses no router: a
// tree edge may span several links.
//
// rank_hosts: the host of each rank (ranks may share one), at least one; offers: by NodeId of the switch;
// tables: ComputeForwarding. candidates: if given, what was found at each switch is put there, by NodeId.
// Errors: kNoTree naming the host or switch in the way, or what is lacking where; kNoResource naming a switch
// with more children than it takes. A payload that the tree's switches do not take is no error here.
Result<Tree> BuildTree(const Topology& topology, const std::vector<Forwarding>& tables,
                       const std::vector<SwitchOffer>& offers, const std::vector<NodeId>& rank_hosts,
                       std::vector<RootCandidate>* candidates = nullptr);

}  // namespace epic::manager
