// A group's calls of EPIC, in the order in which they were made, and the threads that end them.
#pragma once

#include <epic/epic.h>
#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pytorch/work.h"

namespace epic::pytorch {

// Memory that a call reads or writes.
struct Span {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  bool written = false;
};

// A call to make: how it is posted, what it uses, and what is left to do when it has ended.
struct QueuedCall {
  std::function<Error(Communicator&, Request*)> post;
  std::vector<Span> spans;
  std::function<void()> finish;          // runs in the queue's thread if the call has gone well; may be empty
  std::chrono::milliseconds timeout{0};  // 0: the group's
  c10::intrusive_ptr<EpicWork> work;
};

// Every function may be called from any thread of the process that made the queue; in a child of fork nothing
// may be. All that blocks does so without Python's lock only if the caller has let go of it.
class CallQueue {
 public:
  // The result of a join: empty, or why not.
  struct Refusal {
    std::string message;
    bool for_others = false;  // others did not come: they know more
  };

  // Joins a group. `refusal` says whether that went well; if not, the queue is null.
  static std::shared_ptr<CallQueue> Join(const Options& options, Refusal* refusal);

  // Posts a call. False: a switch lacks its type or operation, on every rank, and nothing was sent. Throws
  // what else keeps it from being posted. Waits while too many calls are outstanding, or one that shares
  // memory with this one. A callback may make calls, and wait for them: another thread ends them meanwhile.
  bool Start(QueuedCall call);

  // Ends all calls of all ranks, unless this rank has left.
  void Abort(const std::string& reason);
  // No more calls: the thread leaves the group when all have ended and all ranks leave. Returns at once.
  void Leave();

  // Which way calls go, as `ask` asks the communicator; nothing if this rank has left.
  PathTaken Path(const std::function<PathTaken(const Communicator&)>& ask);

  // As Communicator's, of the calls that are started from now on.
  void SetQuantise(bool on);

  // At the end of the program: leaves all groups of the process, waits for other ranks for 30 s at most, then
  // aborts. `reason`: not empty if the program ends by an error, which ends the groups at once.
  static void LeaveAll(const std::string& reason);

  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;
  ~CallQueue();

 private:
  struct Outstanding {
    QueuedCall call;
    Request request;
  };

  CallQueue() = default;
  // With the lock held, or by the only thread: one more thread that ends calls when nobody does.
  void AddThread();
  void Run();
  // Waits for the oldest call and ends it. False: this rank leaves, and no call is left.
  bool EndOldest(std::unique_lock<std::mutex>* lock);
  void LeaveGroup();
  // A callback that makes a call may wait for it, so that its thread cannot be the one that ends it.
  void HandOnEnding();
  bool SharesMemory(const std::vector<Span>& spans) const;
  bool WaitLeft(std::chrono::steady_clock::time_point until);

  Communicator comm_;
  std::chrono::milliseconds timeout_{0};
  std::vector<std::thread> threads_;  // as many as callbacks have waited at a time, and one more

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Outstanding> calls_;
  std::thread::id ender_;  // which of them ends calls; none: the next that looks
  int idle_ = 0;           // of them, those that would
  int in_callbacks_ = 0;   // of them, those whose callbacks have made calls
  bool leaving_ = false;
  bool destroying_ = false;  // a thread is in Destroy, beside which nothing may be called, or behind it
  bool left_ = false;        // and no callback runs: the threads end
};

// "rank lost: rank 3 ...".
std::string TextOf(const Error& error);

}  // namespace epic::pytorch
