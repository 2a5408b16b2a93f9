// Timers by id, earliest first. Setting one that is set moves it; each fires once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/types.h"

namespace epic {

class TimerQueue {
 public:
  // Without memory (bad_alloc) one that is set stays as it is.
  void Set(uint64_t id, Nanos deadline) {
    const auto [it, fresh] = deadlines_.try_emplace(id, deadline);
    order_.insert({deadline, id});
    if (it->second == deadline) return;
    order_.erase({it->second, id});
    it->second = deadline;
  }

  // kNever if there is none.
  Nanos NextDeadline() const { return order_.empty() ? kNever : order_.begin()->first; }

  // Takes out the earliest timer that is due, if any.
  std::optional<uint64_t> PopDue(Nanos now) {
    if (NextDeadline() > now) return std::nullopt;
    const uint64_t id = order_.begin()->second;
    order_.erase(order_.begin());
    deadlines_.erase(id);
    return id;
  }

 private:
  std::map<uint64_t, Nanos> deadlines_;
  std::set<std::pair<Nanos, uint64_t>> order_;
};

}  // namespace epic
