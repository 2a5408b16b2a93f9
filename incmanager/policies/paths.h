// The shortest paths from one switch to hosts, over switches that a tree may have: what BuildTree grows its
// trees from. Made once for a placement, and asked for many roots.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "incmanager/policies/tree.h"
#include "incmanager/topology.h"

namespace epic::manager {

// What a path is to spare first; links that are down it spares before all.
enum class Spare : uint8_t { kLinks, kLacks };

// The tree of best paths from one root.
struct Paths {
  std::vector<uint32_t> distance;  // in links, by NodeId; UINT32_MAX: not reached
  std::vector<NodeId> parent;
  std::vector<uint32_t> down_hop;  // index into the parent's hops
};

class PathFinder {
 public:
  // Paths to these hosts, and to switches; all of it must outlive the finder.
  PathFinder(const Topology& topology, const std::vector<SwitchOffer>& offers,
             const std::vector<NodeId>& hosts);

  // No switch lacks anything that is asked for, and all take the payload: whichever is spared first, paths
  // are the same.
  bool nothing_lacks() const { return nothing_lacks_; }

  // Of paths that cost the same the first found, in the order of the hops. Valid until the next call.
  const Paths& From(NodeId root, Spare spare);

  // By NodeId of a switch, links to the farthest of the hosts: no path is shorter. UINT32_MAX: a host is not
  // reached.
  std::vector<uint32_t> LeastDepths() const;

 private:
  // In the order in which paths are compared, two numbers of 32 bits in each: links that are down; links, and
  // switches that lack something, as spared; types and operations that are missing.
  using Cost = std::array<uint64_t, 2>;
  struct Step {
    NodeId to = kNoNode;
    uint32_t hop = 0;
    uint32_t down = 0;
  };
  struct Costs {
    Cost best{};                    // from the root
    std::array<Cost, 2> passing{};  // by Spare, without the link
  };
  struct Waiting {
    Cost cost{};
    uint32_t order = 0;
    NodeId at = kNoNode;
    friend auto operator<=>(const Waiting&, const Waiting&) = default;
  };

  std::vector<std::vector<Step>> steps_;  // by NodeId of a usable switch, to such and to the hosts
  std::vector<NodeId> members_;           // these switches, and the hosts
  std::vector<NodeId> attached_;          // switches of the hosts, each once
  bool nothing_lacks_ = true;
  Paths paths_;
  std::vector<Costs> places_;   // by NodeId
  std::vector<Waiting> queue_;  // a heap
};

}  // namespace epic::manager
