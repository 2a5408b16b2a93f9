// What switches say of their forwarding tables, beside what they were sent: by hashes, so that nobody sends a
// table to see whether it is there (docs/PROTOCOL-CONTROL.md, section 14). Sans-IO: what is sent, answers and
// reports come in.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>

#include "base/types.h"
#include "incmanager/topology.h"

namespace epic::manager {

class ToldTables {
 public:
  // The switch is sent a table with this hash. Answered by OnAnswer before the next one is sent.
  void OnSent(NodeId node, uint64_t hash) {
    Switch& at = switches_[node];
    at.sent = hash;
    at.under_way = true;
    at.told.reset();
  }
  void OnAnswer(Nanos now, NodeId node, bool ok) {
    Switch& at = switches_[node];
    at.under_way = false;
    at.answered = now;
    at.has.reset();
    if (ok) at.has = at.sent;
  }
  // The switch has said so, and knows of all that it was sent until as_of. True if it has another table than
  // it has acknowledged: somebody else has set it. Once for each such change.
  bool OnTold(NodeId node, uint64_t hash, Nanos as_of) {
    Switch& at = switches_[node];
    if (at.under_way || as_of <= at.answered) return false;
    at.told = hash;
    if (!at.has || *at.has == hash) return false;
    at.has.reset();
    return true;
  }
  // Its engine has started anew.
  void Forget(NodeId node) { switches_.erase(node); }
  // Whether it has said so of this table, and has been sent none since.
  bool Has(NodeId node, uint64_t hash) const {
    const auto at = switches_.find(node);
    return at != switches_.end() && at->second.told == hash;
  }

 private:
  struct Switch {
    uint64_t sent = 0;
    bool under_way = false;
    Nanos answered = std::numeric_limits<Nanos>::min();
    std::optional<uint64_t> has;   // acknowledged
    std::optional<uint64_t> told;  // since the last answer
  };
  std::map<NodeId, Switch> switches_;
};

}  // namespace epic::manager
