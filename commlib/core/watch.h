// Who makes progress on a communicator when completions come: one of the threads that wait for its calls, or
// the process's progress thread. The state table is in docs/HOST-INTERNALS.md, "Who makes progress"; this is
// it, without threads. Its owner calls it under the communicator's mutex and does what it says.
//
// What it is for: while calls are outstanding and the mutex is free, somebody watches the completion channel,
// or a waiting thread has been woken to do so.
#pragma once

#include <cstdint>

namespace epic {

class Watch {
 public:
  // Who waits for the channel.
  enum class Watcher : uint8_t {
    kNobody,
    kThread,  // the progress thread, which has been armed
    kWaiter,  // one of the waiting threads: it polls, or sleeps on the channel
  };
  // What a thread that stops making progress has to do.
  enum class Next : uint8_t {
    kNothing,
    kWakeFollowers,  // one of them takes over
    kRequestNotify,  // ask for an event, make progress once more (what came before makes none), ask again
    kArmThread,
  };

  // A thread wants to wait for something that has not happened. True: it leads, and calls Resign when it has
  // happened. False: it follows: it sleeps until it has happened or nobody leads, and calls FollowerWoke.
  bool Lead() {
    if (leads()) {
      ++followers_;
      return false;
    }
    watcher_ = Watcher::kWaiter;
    return true;
  }
  void FollowerWoke() { --followers_; }
  void Resign() { watcher_ = Watcher::kNobody; }

  // Of every thread that has made progress or waited, before it lets go of the mutex, but the one that leads.
  // `outstanding`: there are calls that have not ended.
  Next PassOn(bool outstanding) {
    if (leads() || watcher_ == Watcher::kThread || (followers_ == 0 && !outstanding)) return Next::kNothing;
    if (followers_ > 0) return Next::kWakeFollowers;
    if (RequestNotify()) return Next::kRequestNotify;
    watcher_ = Watcher::kThread;
    return Next::kArmThread;
  }

  // True if an event must be asked for: none has been since the last one came.
  bool RequestNotify() {
    const bool due = !notify_requested_;
    notify_requested_ = true;
    return due;
  }
  // Whoever slept on the channel has taken its events off.
  void OnEvents() { notify_requested_ = false; }
  // The progress thread was woken by the channel. True: it has to take the events off and make progress.
  // False: a waiting thread has taken over since it was armed, and does.
  bool OnThreadWoken() {
    if (watcher_ != Watcher::kThread) return false;
    watcher_ = Watcher::kNobody;
    return true;
  }

  bool leads() const { return watcher_ == Watcher::kWaiter; }
  Watcher watcher() const { return watcher_; }
  int followers() const { return followers_; }

 private:
  Watcher watcher_ = Watcher::kNobody;
  int followers_ = 0;
  bool notify_requested_ = false;
};

}  // namespace epic
