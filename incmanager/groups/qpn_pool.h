// QPNs of switch endpoints: unique per switch, in sets whose low byte, the tag, is the same, one set for all
// endpoints of a group. A switch with several cores divides groups among them by that byte (docs/PROTOCOL.md,
// section 1). Tags take turns, so that groups made one after the other are on different cores, however many
// there are. A QPN that was given back stays unused for kQuarantine, longer than any packet of its former
// group lives in the network.
//
// Endpoints of groups whose switches bear hosts' addresses have QPNs of a range of their own, which no host may
// have, all with tag 0. One that passes a switch on its way to another must not be taken for that one's: no two
// switches have endpoints of one QPN for one host (docs/PROTOCOL-MODE-IV.md, section 3).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
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
  static constexpr uint32_t kFirstBorneQpn = 0xf00000;
  static constexpr uint32_t kBorneQpnsPerSwitch = 4096;
  static constexpr Nanos kQuarantine = 10 * kSecond;

  // By NodeId of the switch.
  explicit QpnPool(size_t nodes) : switches_(nodes) {}
  // More nodes are known now.
  void Grow(size_t nodes);

  // So many with one tag, or with this one; nothing if it, or no tag, has them left, neither used nor in
  // quarantine.
  std::optional<std::vector<uint32_t>> Take(NodeId node, size_t count, Nanos now,
                                            std::optional<uint8_t> tag = std::nullopt);
  // Of the range of borne addresses, for endpoints with these remote addresses (0: a switch's), in this order.
  // Nothing if they cannot all be had.
  std::optional<std::vector<uint32_t>> TakeBorne(NodeId node, const std::vector<Ipv4>& remotes, Nanos now);
  void GiveBack(NodeId node, uint32_t qpn, Nanos now);
  // Takes these, which a group of a former manager has; remotes as of TakeBorne, of QPNs of that range. False if one is
  // taken: then none is.
  bool Adopt(NodeId node, const std::vector<uint32_t>& qpns, const std::vector<Ipv4>& remotes);
  // Of a manager that starts: QPNs are counted from elsewhere than by the one before, whose last ones may rest; also of
  // nodes that are known later.
  void StartElsewhere(uint64_t seed);
  // Aborts if something does not hold that always does: what is used
  // is counted to its tag, or is one host's; what rests is used.
  void CheckInvariants() const;
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
    uint32_t next_borne = 0;                         // counted up like those of a tag
    std::map<uint32_t, Ipv4> borne;                  // used QPNs of that range, and the host that each is for
  };
  // Those whose rest is over can be used again.
  void EndRests(NodeId node, Nanos now);
  static std::optional<std::vector<uint32_t>> TakeOf(Switch* at, uint32_t low_byte, size_t count);
  void StartElsewhere(Switch* at);

  std::vector<Switch> switches_;
  std::optional<std::mt19937_64> random_;         // of a manager that starts
  std::set<std::pair<Ipv4, uint32_t>> borne_to_;  // hosts and QPNs, of all switches
};

}  // namespace epic::manager
