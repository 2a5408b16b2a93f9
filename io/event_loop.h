// One thread that waits for descriptors, timers and closures from other threads.
//
// After traffic the loop polls for a short time before it sleeps, because waking a sleeper costs more than a
// packet does (about 20 us against 2). How long adapts (base/spin.h); between polls the loop yields the core
// to whoever else is runnable.
//
// What makes no descriptor readable, as a ring that another process writes, is looked at in each turn. While
// nothing comes there the loop sleeps shortly and looks again, or, where its driver can tell, until it does.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/spin.h"
#include "base/timer_queue.h"
#include "base/types.h"

namespace epic::io {

class EventLoop {
 public:
  // spin_ns: upper bound of polling after traffic; 0 sleeps at once. Stops the process if the kernel has no
  // descriptors left.
  explicit EventLoop(Nanos spin_ns);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Calls on_ready on the loop's thread while the descriptor is readable or in error (level-triggered), with
  // the time when the loop woke. It returns whether there was traffic, after which polling is worth while.
  // The descriptor stays the caller's.
  void Watch(int fd, std::function<bool(Nanos now)> on_ready);
  // Also from within a callback, its own included.
  void Unwatch(int fd);
  // Calls on_ready also while the watched descriptor is writable; or no more.
  void WatchWritable(int fd, bool on);

  // What is looked at in each turn of the loop. Both are called on its thread.
  struct Polled {
    // Takes what has come; whether there was any.
    std::function<bool(Nanos now)> look;
    // Before a sleep: whether a descriptor that is watched tells of what comes from now on. What came before
    // is found by one more look.
    std::function<bool()> arm;
  };
  // By a key of the caller's choice.
  void Poll(uint64_t key, Polled polled);
  // Of those that are polled, from within its own look only.
  void EndPolling(uint64_t key) { polled_.erase(key); }

  // Calls on_timer when a timer set by SetTimer is due (at most a millisecond late, but for load). Setting a
  // timer that is set moves it.
  void OnTimer(std::function<void(Nanos now, uint64_t id)> on_timer) { on_timer_ = std::move(on_timer); }
  void SetTimer(uint64_t id, Nanos deadline) { timers_.Set(id, deadline); }

  // Calls back when what was ready, or due, at one look has been handled: for what callbacks have collected
  // on the way. One such call per loop.
  void AfterRound(std::function<void()> call) { after_round_ = std::move(call); }

  // Calls back every interval from now on. One such call per loop.
  void CallEvery(Nanos interval, std::function<void()> call);

  // Runs the closure soon on the loop's thread. From any thread; closures posted after Run has returned never
  // run.
  void Post(std::function<void()> closure);

  // Until Stop is called, which only the loop's thread may do (Post it from another one).
  void Run();
  void Stop() { stop_ = true; }

 private:
  static constexpr int kMaxEvents = 64;
  // While nothing tells of what is polled: the first sleep, and from one to the next twice as long up to
  // here. A wake-up costs some 5 us, so that a loop without traffic takes less than a hundredth of a core.
  static constexpr Nanos kFirstNap = 50 * kMicrosecond;
  static constexpr Nanos kLongestNap = kMillisecond;

  void RunPosted();
  // Whether there were any.
  bool RunTimers(Nanos now);
  bool Handle(int count, const epoll_event* events);
  bool LookAtPolled(Nanos now);
  // How long to sleep from now on. *traffic: there was some at the last look, and it is 0.
  Nanos BeforeSleep(Nanos now, bool* traffic);
  Nanos UntilDue(Nanos now) const;
  int Wait(Nanos ns, epoll_event* events) const;

  Spin spin_;
  int epoll_fd_;
  int wake_fd_;
  bool stop_ = false;
  std::map<int, std::function<bool(Nanos)>> watched_;
  std::map<uint64_t, Polled> polled_;
  Nanos nap_ = kFirstNap;  // the next one
  std::function<void(Nanos, uint64_t)> on_timer_;
  TimerQueue timers_;
  std::function<void()> after_round_ = [] {};
  std::function<void()> periodic_;
  Nanos periodic_interval_ = 0;
  Nanos periodic_at_ = kNever;

  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by mutex_
};

}  // namespace epic::io
