// QPNs of switch endpoints: unique per switch, counted up from kFirstQpn. A QPN that was given back stays
// unused for kQuarantine, longer than any packet of its former group lives in the network.
#pragma once

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
  static constexpr uint32_t kQpnsPerSwitch = 1u << 16;
  static constexpr Nanos kQuarantine = 10 * kSecond;

  explicit QpnPool(uint32_t switch_count) : switches_(switch_count) {}

  // Nothing if all of the switch's QPNs are used or in quarantine.
  std::optional<uint32_t> Take(NodeId node, Nanos now);
  void GiveBack(NodeId node, uint32_t qpn, Nanos now);

 private:
  struct Switch {
    uint32_t next = 0;
    std::unordered_set<uint32_t> used;               // quarantined ones included
    std::deque<std::pair<Nanos, uint32_t>> resting;  // until when; oldest first
  };
  std::vector<Switch> switches_;
};

}  // namespace epic::manager
