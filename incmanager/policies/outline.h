// Which switches of the paths from a root to hosts aggregate, and who hangs on whom: a tree without what
// costs time to look up, so that many can be compared (BuildTree).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "incmanager/policies/forwarding.h"
#include "incmanager/policies/paths.h"
#include "incmanager/policies/tree.h"
#include "incmanager/topology.h"

namespace epic::manager {

struct Outline {
  // A child of a switch: a host, with all its ranks, or a switch.
  struct Child {
    NodeId next = kNoNode;  // on the way to it
    NodeId node = kNoNode;
    uint32_t rank = 0;   // the lowest one below it
    uint32_t inner = 0;  // of a switch: index into inner
  };
  struct Inner {
    NodeId node = kNoNode;
    uint32_t parent = TreeInner::kNoParent;
    uint32_t begin = 0, end = 0;  // of its children in `children`
    uint32_t degree = 0;          // ranks of hosts, and switches
  };

  std::span<const Child> ChildrenOf(const Inner& at) const {
    return std::span(children).subspan(at.begin, at.end - at.begin);
  }

  std::vector<Inner> inner;     // parents before children; [0] is the root
  std::vector<Child> children;  // of each switch together, in the order of their lowest ranks
  uint32_t depth_links = 0;     // as in Tree
  uint32_t down_links = 0;
};

class Outliner {
 public:
  // As BuildTree has them; all of it must outlive the outliner.
  Outliner(const Topology& topology, const std::vector<Forwarding>& tables,
           const std::vector<SwitchOffer>& offers, const std::vector<NodeId>& rank_hosts);

  // Of paths that reach all hosts. Valid until the next call.
  const Outline& Of(const Paths& paths, NodeId root);

  // Of a rank's host, all its ranks.
  const std::vector<uint32_t>& RanksOf(NodeId host) const { return ranks_of_.at(host); }

 private:
  void Join(const Paths& paths, NodeId root);
  void AddChildren(uint32_t index);
  NodeId Contract(NodeId at, NodeId next) const;
  bool IsOnlyChild(NodeId child, NodeId parent) const {
    return first_[parent] == child && next_[child] == kNoNode;
  }
  bool Passes(NodeId from, NodeId to) const;
  bool Usable(NodeId id) const { return topology_.IsSwitch(id) && offers_[id].unusable.empty(); }

  const Topology& topology_;
  const std::vector<Forwarding>& tables_;
  const std::vector<SwitchOffer>& offers_;
  std::vector<NodeId> hosts_;  // each once, by its lowest rank
  std::map<NodeId, std::vector<uint32_t>> ranks_of_;

  // By NodeId: the nodes next on the paths, in the order of the lowest rank below them, which is UINT32_MAX
  // of those that lie between the root and no host.
  std::vector<NodeId> first_, last_, next_;
  std::vector<uint32_t> lowest_;
  Outline out_;
};

}  // namespace epic::manager
