// QPNs of switch endpoints: unique per switch, in sets whose low byte, the tag, is the same, one set for all
// endpoints of a group. A switch with several cores divides groups among them by that byte (docs/PROTOCOL.md,
// section 1). Tags take turns, so that groups made one after the other are on different cores, however many
// there are. A QPN that was given back stays unused for kQuarantine, longer than any packet of its former
// group lives in the network.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/types.h"
#include "incmanager/topology.h"

namespace epic::manager {

class QpnPool {
 public:
  static constexpr uint32_t kFirstQpn = 0x100000;
  static constexpr uint32_t kTags = 256;
  static constexpr uint32_t kQpnsPerTag = 256;
  static constexpr uint32_t kQpnsPerSwitch = kTags * kQpnsPerTag;
  static constexpr Nanos kQuarantine = 10 * kSecond;

  // By NodeId of the switch.
  explicit QpnPool(size_t nodes) : switches_(nodes) {}
  // More nodes are known now.
  void Grow(size_t nodes) { switches_.resize(nodes); }

  // So many with one tag, or with this one; nothing if it, or no tag, has them left, neither used nor in
  // quarantine.
  std::optional<std::vector<uint32_t>> Take(NodeId node, size_t count, Nanos now,
                                            std::optional<uint8_t> tag = std::nullopt);
  void GiveBack(NodeId node, uint32_t qpn, Nanos now);
  // Of a switch, taken and not given back.
  size_t InUse(NodeId node) const { return switches_[node].used.size() - switches_[node].resting.size(); }

 private:
  struct Tag {
    uint32_t next = 0;   // QPNs of a tag are counted up, round and round
    uint32_t taken = 0;  // used or resting
  };
  struct Switch {
    // Not 0: the first group leaves it to core 0 to forward ordinary traffic.
    uint32_t next_tag = 1;
    std::array<Tag, kTags> tags{};
    std::unordered_set<uint32_t> used;               // quarantined ones included
    std::deque<std::pair<Nanos, uint32_t>> resting;  // until when; oldest first
  };
  static std::optional<std::vector<uint32_t>> TakeOf(Switch* at, uint32_t low_byte, size_t count);

  std::vector<Switch> switches_;
};

}  // namespace epic::manager
