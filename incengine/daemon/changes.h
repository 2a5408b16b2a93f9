// A count of what has changed, for those who wait for the next change. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace epic::daemon {

class Changes {
 public:
  void Note() {
    {
      const std::lock_guard lock(mutex_);
      ++count_;
    }
    changed_.notify_all();
  }
  // Waits until at least so many have been noted, but not for longer than the timeout. Returns how many have.
  uint64_t Await(uint64_t number, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return count_ >= number; });
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t count_ = 0;
};

}  // namespace epic::daemon
