// A mutex for a thread that polls under it: it lets go between two looks, and then others who wait have their
// turn. An ordinary mutex would mostly be locked again before the thread that it wakes has arrived.
#pragma once

#include <sched.h>

#include <atomic>
#include <mutex>

namespace epic::internal {

// As std::mutex.
class TurnMutex {
 public:
  void lock() {
    if (mutex_.try_lock()) return;
    ++waiting_;
    mutex_.lock();
    --waiting_;
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

  // Of a thread that has just let go and will lock again: yields the core, again while others wait for their
  // turn. Bounded, since they may come all the time.
  void YieldTurn() const {
    int turns = kMaxTurns;
    do sched_yield();
    while (waiting_ > 0 && --turns > 0);
  }

 private:
  static constexpr int kMaxTurns = 100;

  std::mutex mutex_;
  std::atomic<int> waiting_ = 0;
};

}  // namespace epic::internal
