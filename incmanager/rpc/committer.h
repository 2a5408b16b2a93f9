// Writes to the store, on a thread of its own: whoever waits for a disk holds no lock of the manager's. What
// waits together is one transaction. State table: PROTOCOL-CONTROL.md, 15. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "incmanager/store/store.h"

namespace epic::manager {

class Committer {
 public:
  // How long who waits is patient with a disk.
  static constexpr auto kPatience = std::chrono::seconds(10);
  static constexpr auto kAgain = std::chrono::seconds(1);

  // store outlives it; null: nothing is kept, and all is well at once.
  explicit Committer(Store* store, std::chrono::nanoseconds patience = kPatience);
  // Tries once more to keep what has been posted.
  ~Committer();
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  bool keeps() const { return store_ != nullptr; }

  // Whether what was given up is kept after all.
  using Late = std::function<void(bool kept)>;

  // Waits until the batch is kept. With an error nothing of it is; but with DEADLINE_EXCEEDED nobody knows
  // yet, and `late` is called when it is known, on a thread of its own, without a lock. Else it is not
  // called.
  Status Commit(Batch batch, Late late);
  // Does not wait; what cannot be kept is tried again until it is. tried: called when it has been tried once, whether or
  // not it is kept, on a thread of its own, without a lock; in the order in which they were posted.
  void Post(Batch batch, std::function<void()> tried = nullptr);
  // Nothing waits that was posted.
  bool IsIdle() const;
  // How the last transaction ended.
  Status Health() const;

 private:
  struct Waiter {
    bool done = false, given_up = false;
    Status status;
    Late late;
  };
  struct Entry {
    Batch batch;
    std::shared_ptr<Waiter> waiter;  // null: posted
    std::function<void()> tried;
  };

  void Loop();
  // What comes first of what waits, at most kMostBytes of it.
  std::deque<Entry> TakeSome();
  void Finish(std::unique_lock<std::mutex>* lock, std::deque<Entry> entries, const Status& status);

  Store* const store_;
  const std::chrono::nanoseconds patience_;
  mutable std::mutex mutex_;
  std::condition_variable asked_, answered_;
  std::deque<Entry> queue_;
  bool busy_ = false, stop_ = false;
  Status health_;
  std::thread thread_;
};

}  // namespace epic::manager
