#include "sim/tree.h"

#include <algorithm>
#include <cstddef>

namespace epic::sim {

TreeSpec Star(int ranks) {
  TreeSpec tree{.switch_parent = {-1}, .rank_switch = {}};
  tree.rank_switch.assign(static_cast<size_t>(ranks), 0);
  return tree;
}

TreeSpec FullTree(int levels, int fan) {
  TreeSpec tree{.switch_parent = {-1}, .rank_switch = {}};
  std::vector<int> level = {0};
  for (int l = 1; l < levels; ++l) {
    std::vector<int> next;
    for (const int parent : level) {
      for (int i = 0; i < fan; ++i) {
        next.push_back(static_cast<int>(tree.switch_parent.size()));
        tree.switch_parent.push_back(parent);
      }
    }
    level = next;
  }
  for (const int leaf : level)
    tree.rank_switch.insert(tree.rank_switch.end(), static_cast<size_t>(fan), leaf);
  return tree;
}

TreeSpec LeafSpine(int leaves, int spines, int fan) {
  TreeSpec tree = Star(0);
  for (int leaf = 1; leaf <= leaves; ++leaf) {
    tree.switch_parent.push_back(0);
    tree.rank_switch.insert(tree.rank_switch.end(), static_cast<size_t>(fan), leaf);
  }
  for (int spine = 1; spine < spines; ++spine) {
    const auto number = static_cast<int>(tree.switch_parent.size());
    tree.switch_parent.push_back(-1);
    for (int leaf = 1; leaf <= leaves; ++leaf) tree.more_links.emplace_back(leaf, number);
  }
  return tree;
}

TreeSpec UnevenTree() { return {.switch_parent = {-1, 0, 1}, .rank_switch = {0, 1, 2, 2, 2}}; }

TreeSpec InterleavedTree() { return {.switch_parent = {-1, 0, 0}, .rank_switch = {1, 2, 1, 2, 1}}; }

int DepthOf(const TreeSpec& tree) {
  int depth = 0;
  for (const int leaf : tree.rank_switch) {
    int here = 0;
    for (int at = leaf; at >= 0; at = tree.switch_parent[static_cast<size_t>(at)]) ++here;
    depth = std::max(depth, here);
  }
  return depth;
}

}  // namespace epic::sim
