// Joins that wait until the manager takes some, and how many there are of each address.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/address.h"
#include "incmanager/groups/group_life.h"

namespace epic::manager {

class HeldJoins {
 public:
  // Of a session that has none here.
  void Add(SessionId id, const JoinRequest& join) {
    if (joins_.emplace(id, join).second) ++of_[join.ip];
  }
  // Whether it had one here.
  bool Remove(SessionId id) {
    const auto join = joins_.find(id);
    if (join == joins_.end()) return false;
    const auto of = of_.find(join->second.ip);
    if (--of->second == 0) of_.erase(of);
    joins_.erase(join);
    return true;
  }
  bool Contains(SessionId id) const { return joins_.contains(id); }
  // Of ranks at this address.
  uint32_t CountOf(Ipv4 address) const {
    const auto of = of_.find(address);
    return of == of_.end() ? 0 : of->second;
  }
  // In the order of their sessions; none is left.
  std::map<SessionId, JoinRequest> Take() {
    of_.clear();
    return std::exchange(joins_, {});
  }

 private:
  std::map<SessionId, JoinRequest> joins_;
  std::map<Ipv4, uint32_t> of_;
};

}  // namespace epic::manager
