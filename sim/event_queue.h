// What is going to happen in a world, in order of time; what is due at one time happens in the order in which
// it was added. Actions and packets lie in pools, so that the queue moves small values only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "sim/clock.h"

namespace epic::sim {

// Values that keep their address until they are given back; one that is taken is as it was given back.
template <typename T>
class Pool {
 public:
  uint32_t Take() {
    if (free_.empty()) {
      items_.emplace_back();
      return static_cast<uint32_t>(items_.size() - 1);
    }
    const uint32_t number = free_.back();
    free_.pop_back();
    return number;
  }
  void GiveBack(uint32_t number) { free_.push_back(number); }
  T& operator[](uint32_t number) { return items_[number]; }

 private:
  std::deque<T> items_;
  std::vector<uint32_t> free_;
};

class EventQueue {
 public:
  using Action = std::function<void()>;

  struct Event {
    Picos time = 0;
    int64_t order = 0;
    bool is_packet = false;
    uint32_t number = 0;  // of the packet, or of the action in the queue's pool

    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  void AddAction(Picos time, Action action) {
    const uint32_t number = actions_.Take();
    actions_[number] = std::move(action);
    events_.push({.time = time, .order = order_++, .is_packet = false, .number = number});
  }
  void AddPacket(Picos time, uint32_t number) {
    events_.push({.time = time, .order = order_++, .is_packet = true, .number = number});
  }

  bool empty() const { return events_.empty(); }
  Picos next_time() const { return events_.top().time; }
  Event Pop() {
    const Event event = events_.top();
    events_.pop();
    return event;
  }
  // Of an event that was popped and is no packet; once.
  Action TakeAction(const Event& event) {
    actions_.GiveBack(event.number);
    return std::exchange(actions_[event.number], nullptr);
  }

 private:
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Pool<Action> actions_;
  int64_t order_ = 0;
};

}  // namespace epic::sim
