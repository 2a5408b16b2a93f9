// The shapes of simulated networks.
#pragma once

#include <utility>
#include <vector>

namespace epic::sim {

// Switches and hosts, and the IncTree of a group with rank r on host r: switch 0 is the root.
struct TreeSpec {
  std::vector<int> switch_parent;  // per switch; -1 for the root, and for one that is in no group's tree
  std::vector<int> rank_switch;    // per host
  // Between switches, beside those of the tree: what hosts send to each other takes them as well.
  std::vector<std::pair<int, int>> more_links = {};
};

TreeSpec Star(int ranks);
// Every inner node has `fan` children, `levels` levels of switches: Tree(2, 2) is the paper's Tree-3-2.
TreeSpec FullTree(int levels, int fan);
// Three switches in a chain with one, one and three ranks.
TreeSpec UnevenTree();
// Switches from a host to the root, at most.
int DepthOf(const TreeSpec& tree);
// Every leaf, with `fan` hosts, is linked to every spine. Spine 0 is the root, the leaves follow, then the
// others.
TreeSpec LeafSpine(int leaves, int spines, int fan);
// Two leaves with the ranks on them by turns.
TreeSpec InterleavedTree();

}  // namespace epic::sim
