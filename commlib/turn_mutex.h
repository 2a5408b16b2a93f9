// A mutex for a thread that polls under it: it lets go between two looks, and then others who wait have their
// turn. An ordinary mutex would mostly be locked again before the thread that it wakes has arrived.
#pragma once

#include <absl/base/thread_annotations.h>
#include <sched.h>

#include <atomic>
#include <mutex>

namespace epic::internal {

// As Mutex of base/mutex.h.
class ABSL_LOCKABLE TurnMutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    if (mutex_.try_lock()) return;
    ++waiting_;
    mutex_.lock();
    --waiting_;
  }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

  // For a function that clang looks at by itself, as a lambda, and that is called with the mutex held.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

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
