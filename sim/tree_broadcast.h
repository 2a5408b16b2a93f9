// A Broadcast down a tree of hosts, as libraries have it that do not multicast. It is no algorithm of the
// product: what figures of papers hold multicast against.
//
// The root is rank 0. A rank sends to its children what it has got whole: the message, or each segment of
// one. It sends segment by segment, each to one child after the other, over reliable connections, of which
// all are there and all have their receives. So there is no agreement, and nothing a rank waits for but data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/world.h"

namespace epic::sim {

enum class HostTree : uint8_t { kBinomial, kFourNomial, kBinaryHeap };

// "binomial", "4-nomial", "binary-heap"; nothing for another name.
std::optional<HostTree> HostTreeNamed(std::string_view name);

// By rank, in the order in which it sends to them: first those with the most ranks below them, of as many the
// lower ones. Rank r's parent is, in
// a k-nomial tree, r without its lowest digit to the base k that is not 0; in a heap, (r - 1) / 2.
std::vector<std::vector<int>> ChildrenIn(HostTree tree, int ranks);

class TreeRank;

class TreeBroadcast {
 public:
  // Most that a rank has under way, in bytes, or one segment: what is more waits, so that the first child has
  // its segment before the last one. It is more than a round trip at 56 Gbit/s takes.
  static constexpr uint64_t kMostUnderWay = 64 * 1024;

  // Of so many bytes among all ranks of a group of the world, which have no queue pairs to each other yet;
  // each on a host of its own. It begins when the world runs. A segment is cut to the message. The world is
  // borrowed.
  TreeBroadcast(World& world, int group, HostTree tree, uint64_t bytes, uint64_t segment_bytes);
  ~TreeBroadcast();
  TreeBroadcast(const TreeBroadcast&) = delete;
  TreeBroadcast& operator=(const TreeBroadcast&) = delete;

  // The rank has all of it.
  bool Has(int rank) const;
  // Every rank has the root's bytes, and no request has failed.
  bool IsRight() const;

 private:
  std::vector<std::unique_ptr<TreeRank>> ranks_;
};

}  // namespace epic::sim
