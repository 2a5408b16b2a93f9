// Groups that are joined while the program goes on.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "mpi/core/join.h"
#include "mpi/group/group.h"

namespace epic::mpi {

// What has come of a join: the group if it went well, else null.
struct Joined {
  std::unique_ptr<Group> group;
  JoinResult result;
};

// A join under way. Shared by its communicator and its thread.
class Joining {
 public:
  // Null: it has not ended; else it is this object's until Take.
  const JoinResult* Ended() const {
    return has_ended_.load(std::memory_order_acquire) ? &joined_.result : nullptr;
  }
  // The group of a join that has ended.
  std::unique_ptr<Group> Take() { return std::move(joined_.group); }

 private:
  friend class Joins;
  std::atomic<bool> has_ended_ = false;
  Joined joined_;
  std::function<void(Joined)> given_up_;  // set: what becomes of the group
};

// A thread for each join, which ends when the join does: that has a bound of its own. Any thread may call.
class Joins {
 public:
  // Gives up soon after gives_up() is true.
  using Join = std::function<Joined(const std::function<bool()>& gives_up)>;

  // So many joins may be under way. Each is a session with the manager, and memory that is registered.
  static constexpr size_t kMost = 4;

  Joins() = default;
  ~Joins() { Wait(); }

  // False: none may be begun now.
  bool HasRoom();
  // Begins a join; `join` is called by a thread that takes none of the program's signals.
  std::shared_ptr<Joining> Begin(Join join);
  // Nobody waits for this one any more: `then` gets what comes of it, from any thread, now or later.
  void GiveUp(const std::shared_ptr<Joining>& joining, std::function<void(Joined)> then);
  // Returns when all joins have ended.
  void Wait();
  // The program ends: as Wait, but those that have not ended after so long, all together, give up.
  void End(std::chrono::milliseconds at_most);

 private:
  struct Thread {
    std::shared_ptr<Joining> joining;
    std::thread thread;
  };
  void Run(Joining* joining, const Join& join);
  std::list<Thread> TakeEnded();

  std::atomic<bool> give_up_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::list<Thread> threads_;
};

}  // namespace epic::mpi
