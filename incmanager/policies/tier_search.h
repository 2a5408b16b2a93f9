// The search behind Place (place.h): what of the graph lies above a group's hosts, and the widest tree with
// its root at one switch. Not for others.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "incmanager/policies/load.h"
#include "incmanager/policies/place.h"
#include "incmanager/policies/tree.h"
#include "incmanager/topology.h"

namespace epic::manager {

// What is not to be in the way.
struct Relaxed {
  bool all = false;
  std::set<Constraint> constraints;

  bool Contains(Constraint::Kind kind, NodeId node) const {
    return all || (!constraints.empty() && constraints.contains({.kind = kind, .node = node}));
  }
  bool ContainsLink(LinkEnd link) const {
    return all || (!constraints.empty() && constraints.contains({.link = link}));
  }
};

class TierSearch {
 public:
  // The arguments outlive it. rank_hosts: at least one.
  TierSearch(const Topology& topology, const Load& load, const std::vector<SwitchOffer>& offers,
             const PlaceRequest& request, const std::vector<uint32_t>& tiers, const Relaxed& relaxed);

  // The highest tier that anything above the hosts is in.
  uint32_t top_tier() const { return static_cast<uint32_t>(by_tier_.size()) - 1; }
  // The switches of a tier from which all hosts are reached, by NodeId.
  std::vector<NodeId> RootsAt(uint32_t tier) const;
  // The first rank whose host is not reached from there; nothing if all are.
  std::optional<uint32_t> Unreached(NodeId node) const;

  // No tree with this root is wider. Memory and children, which a tree of another width might need less of,
  // are not looked at.
  uint64_t WidestAt(NodeId root) {
    usable_ = most_usable_;
    return Descend(root, {});
  }
  // The widest tree with this root whose switches have the memory and take the children. why: if there is
  // none, what is in the way, first found; or what bytes_of said.
  std::optional<Placed> TreeAt(NodeId root, std::string* why, Failure* excluded);

  // What is in the way of this tree, hosts' links first, then by Tree::inner.
  std::vector<Constraint> InTheWayOf(const Placed& placed) const;

 private:
  // A link between tiers.
  struct Edge {
    NodeId lower = kNoNode;
    NodeId upper = kNoNode;
    uint32_t lower_hop = 0;
    uint32_t upper_hop = 0;
    uint64_t width = 0;
  };
  struct Leaf {
    NodeId node = kNoNode;
    std::vector<uint32_t> ranks;
  };

  LinkEnd Lesser(LinkEnd end) const { return std::min(end, topology_.Across(end)); }
  std::string LinkBlocked(LinkEnd lesser) const;
  std::string SwitchBlocked(NodeId node) const;
  bool LinkIsFree(LinkEnd lesser) const;
  bool LinkOk(LinkEnd lesser) const { return relaxed_.ContainsLink(lesser) || LinkIsFree(lesser); }
  bool SwitchOk(NodeId node) const {
    return relaxed_.Contains(Constraint::Kind::kAbility, node) || SwitchBlocked(node).empty();
  }
  uint64_t MostChildren(NodeId node) const {
    return relaxed_.Contains(Constraint::Kind::kChildren, node) ? UINT64_MAX : offers_[node].max_children;
  }
  bool Covers(NodeId node) const;
  void Climb();
  void AddEdges(NodeId lower, std::vector<NodeId>* above);
  uint64_t WidthAt(NodeId node, uint32_t root_tier, uint64_t usable_bytes) const;
  uint64_t Sustained(NodeId node, double path_us, double hop_us, uint64_t children,
                     uint64_t usable_bytes) const;
  // Where a block is not to be in the way, nor is what it sustains: it is not known which that would be.
  bool BlockIsRelaxed(NodeId node) const {
    return request_.policy == Policy::kTemporal && (relaxed_.Contains(Constraint::Kind::kMemory, node) ||
                                                    relaxed_.Contains(Constraint::Kind::kDuty, node));
  }
  bool IsRelaxed(const Constraint& constraint) const {
    return relaxed_.Contains(constraint.kind, constraint.node) || BlockIsRelaxed(constraint.node);
  }
  bool SustainOk(NodeId node, uint64_t width) const {
    return width >= request_.rate_kbps || relaxed_.Contains(Constraint::Kind::kSustain, node) ||
           BlockIsRelaxed(node);
  }
  BlockWish WishAt(NodeId node, uint64_t bytes, uint32_t root_tier) const;
  std::variant<BlockChoice, Constraint> MemoryAt(const Placed& placed, size_t inner) const;
  struct Memory {
    bool all_give = true;
    bool some_give_less = false;  // than usable_ had
  };
  Memory GiveMemory(Placed* placed, std::vector<bool>* without, std::string* why);
  uint64_t Descend(NodeId root, const std::vector<bool>& without);
  std::optional<std::vector<const Edge*>> Join(NodeId root, uint64_t width, const std::vector<bool>& without,
                                               Constraint* overfull);
  Placed Grow(NodeId root, const std::vector<const Edge*>& up) const;
  uint64_t WidthOf(const Placed& placed) const;
  Constraint NoMemory(NodeId node, uint64_t needed) const;
  Constraint TooSlow(NodeId node, uint64_t width) const;
  Constraint TooManyChildren(NodeId node, uint64_t children) const;

  const Topology& topology_;
  const Load& load_;
  const std::vector<SwitchOffer>& offers_;
  const PlaceRequest& request_;
  const std::vector<uint32_t>& tiers_;
  const Relaxed& relaxed_;

  std::vector<Leaf> leaves_;           // by NodeId
  std::vector<uint32_t> ranks_at_;     // by NodeId
  uint64_t hosts_width_ = UINT64_MAX;  // of the narrowest link of a host
  double hosts_us_ = 0;                // delay of the slowest
  std::vector<std::vector<NodeId>> by_tier_;
  std::vector<double> tier_us_;  // delay of the slowest link from this tier to the next
  std::vector<Edge> edges_;
  std::vector<std::vector<uint32_t>> up_, down_;  // by NodeId: indices of edges
  std::vector<double> hop_us_;                    // by NodeId: delay of the slowest of its links here
  // By NodeId: the bytes by which a switch's width is counted until it is known what it gives for a tree, and
  // those that are left of them when that is known.
  std::vector<uint64_t> most_usable_, usable_;
  size_t words_ = 0;              // of a set of leaves
  std::vector<uint64_t> covers_;  // by NodeId: the leaves that are reached from there
  std::vector<uint64_t> best_;    // by NodeId: Descend's; 0: not reached
};

}  // namespace epic::manager
