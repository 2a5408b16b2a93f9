// Writes to the store, on a thread of its own: whoever waits for a disk holds no lock of the manager's. What
// waits together is one transaction. State table: PROTOCOL-CONTROL.md, 15. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "incmanager/store/store.h"

namespace epic::manager {

struct CommitTimes {
  std::chrono::nanoseconds patience = std::chrono::seconds(10);  // of who waits for a transaction
  // A write that has not returned for so long hangs. Below patience: who is refused for that knows why.
  std::chrono::nanoseconds hangs_after = std::chrono::seconds(5);
};

class Committer {
 public:
  static constexpr auto kAgain = std::chrono::seconds(1);

  // store outlives it, and is closed when it ends; null: nothing is kept, and all is well at once.
  explicit Committer(Store* store, const CommitTimes& times = {});
  // As Stop, but waits until a write returns, however long that takes.
  ~Committer();
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  bool keeps() const { return store_ != nullptr; }
  // False when the store is another one's to write now, and with it all that is to be said.
  bool MayTell() const { return store_ == nullptr || store_->Holds(); }

  // Whether what was given up is kept after all.
  using Late = std::function<void(bool kept)>;

  // Waits until the batch is kept. With an error nothing of it is (FAILED_PRECONDITION: the store hangs, or
  // this has been stopped); but with DEADLINE_EXCEEDED nobody knows yet, and `late` is called when it is
  // known, on a thread of its own, without a lock. Else it is not called.
  Status Commit(Batch batch, Late late);
  // Does not wait; what cannot be kept is tried again until it is, a row as it was posted last. More than
  // the store's bounds are several transactions. tried: called when all of it has been tried once, or when
  // the store has failed while it waited for its turn, with that error; on a thread of its own, without a
  // lock; in the order in which they were posted. A write that hangs is no try.
  using Tried = std::function<void(const Status& kept)>;
  void Post(Batch batch, Tried tried = nullptr);
  // All that was posted has been tried, kept or not.
  bool IsIdle() const;
  // How the last transaction ended; DEADLINE_EXCEEDED if that of now hangs.
  Status Health() const;
  // Rows that were posted since the last call and will never be kept, as one alone is above
  // the store's bounds: a line for people of each.
  std::vector<std::string> TakeLost();
  // Takes nothing more, and tries once more to keep what has been posted. True when that is over, and the
  // store closed; false if a write hangs: then its thread is still in the store, and the process can only end
  // as a whole.
  bool Stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiter {
    bool done = false, given_up = false;
    Status status;
    Late late;
  };
  struct Entry {
    Batch batch;
    std::shared_ptr<Waiter> waiter;  // null: posted
    Tried tried;
  };
  // A transaction, and the entries that are in it, behind rows of unkept_.
  struct Taken {
    Batch batch;
    std::deque<Entry> entries;
  };

  void Loop();
  // What comes first of what waits, at most as much as a batch may have.
  Taken TakeSome();
  Status Write(std::unique_lock<std::mutex>* lock, const Batch& batch);
  void Finish(std::unique_lock<std::mutex>* lock, Taken taken, const Status& status);
  // It has been tried in vain.
  void KeepLater(Batch batch);
  bool IsHanging() const;
  Status HowItHangs() const;

  Store* const store_;
  const CommitTimes times_;
  const BatchBounds bounds_;
  mutable std::mutex mutex_;
  std::condition_variable asked_, answered_;
  std::deque<Entry> queue_;  // what has not been tried
  // What was posted and has been tried in vain; older than all in queue_. No more rows than those that are to
  // be kept and those that are in the store.
  std::map<RowKey, std::optional<std::string>> unkept_;
  // What the store has since it fails; nothing if that is not known, or it does not fail.
  std::optional<std::set<RowKey>> stored_;
  std::vector<std::string> lost_;
  std::optional<Clock::time_point> busy_since_;  // the store's: the thread is in it
  bool stop_ = false, ended_ = false;
  Status health_;
  std::thread thread_;
};

}  // namespace epic::manager
