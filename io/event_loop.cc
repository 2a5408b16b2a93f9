#include "io/event_loop.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "io/clock.h"
#include "io/event_fd.h"

namespace epic::io {
namespace {

// Sleep is cut into pieces of at most this, which bounds the wait argument; a piece without events costs
// nothing.
constexpr Nanos kMaxSleep = 60 * kSecond;

}  // namespace

EventLoop::EventLoop(Nanos spin_ns)
    : spin_(spin_ns),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  EPIC_CHECK(epoll_fd_ >= 0 && wake_fd_ >= 0);
  Watch(wake_fd_, [this](Nanos) {
    RunPosted();
    return false;
  });
}

EventLoop::~EventLoop() {
  close(wake_fd_);
  close(epoll_fd_);
}

void EventLoop::Watch(int fd, std::function<bool(Nanos)> on_ready) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  EPIC_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0);
  watched_[fd] = std::move(on_ready);
}

void EventLoop::Unwatch(int fd) {
  if (watched_.erase(fd) > 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::WatchWritable(int fd, bool on) {
  epoll_event event{};
  event.events = on ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.fd = fd;
  EPIC_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event) == 0);
}

void EventLoop::Poll(uint64_t key, Polled polled) {
  // Of this thread, and of those that it starts: else the kernel lets a nap be longer by as much as the first
  // ones are.
  prctl(PR_SET_TIMERSLACK, 1);
  polled_[key] = std::move(polled);
}

void EventLoop::CallEvery(Nanos interval, std::function<void()> call) {
  periodic_ = std::move(call);
  periodic_interval_ = interval;
  periodic_at_ = MonotonicNow() + interval;
}

void EventLoop::Post(std::function<void()> closure) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(closure));
  }
  SignalEventFd(wake_fd_);
}

void EventLoop::RunPosted() {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(wake_fd_, &count, sizeof count);
  std::vector<std::function<void()>> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
  }
  for (const auto& closure : posted) closure();
}

void EventLoop::Run() {
  std::array<epoll_event, kMaxEvents> events;
  bool polls = false;
  Nanos now = MonotonicNow();
  while (!stop_) {
    bool traffic = false;
    const int count = Wait(polls ? 0 : BeforeSleep(now, &traffic), events.data());
    EPIC_CHECK(count >= 0 || errno == EINTR);
    if (count > 0) traffic |= Handle(count, events.data());
    if (!polled_.empty()) traffic |= LookAtPolled(MonotonicNow());
    if (traffic) nap_ = kFirstNap;
    now = MonotonicNow();
    if (RunTimers(now) || count > 0 || traffic) after_round_();
    polls = spin_.KeepPolling(now, traffic);
    if (polls && !traffic) sched_yield();
  }
}

bool EventLoop::RunTimers(Nanos now) {
  bool any = false;
  for (; const auto id = timers_.PopDue(now); any = true) on_timer_(now, *id);
  if (now < periodic_at_) return any;
  periodic_at_ = now + periodic_interval_;
  periodic_();
  return true;
}

bool EventLoop::Handle(int count, const epoll_event* events) {
  const Nanos now = MonotonicNow();
  bool traffic = false;
  for (int i = 0; i < count; ++i) {
    const auto it = watched_.find(events[i].data.fd);
    if (it == watched_.end()) continue;
    // A copy, because the callback may end its own watch.
    const auto on_ready = it->second;
    traffic |= on_ready(now);
  }
  return traffic;
}

bool EventLoop::LookAtPolled(Nanos now) {
  bool traffic = false;
  for (auto it = polled_.begin(); it != polled_.end();) {
    // A copy, because it may end its own polling.
    const auto look = (it++)->second.look;
    traffic |= look(now);
  }
  return traffic;
}

Nanos EventLoop::BeforeSleep(Nanos now, bool* traffic) {
  if (polled_.empty()) return UntilDue(now);
  bool told = true;
  for (auto& [key, polled] : polled_) told &= polled.arm();
  *traffic = LookAtPolled(now);
  if (*traffic) return 0;
  if (told) return UntilDue(now);
  const Nanos nap = nap_;
  nap_ = std::min(2 * nap_, kLongestNap);
  return std::min(nap, UntilDue(now));
}

Nanos EventLoop::UntilDue(Nanos now) const {
  return std::clamp<Nanos>(std::min(timers_.NextDeadline(), periodic_at_) - now, 0, kMaxSleep);
}

int EventLoop::Wait(Nanos ns, epoll_event* events) const {
  if (ns > 0 && ns <= kLongestNap && !polled_.empty()) {
    const timespec nap{0, ns};
    const int count = epoll_pwait2(epoll_fd_, events, kMaxEvents, &nap, nullptr);
    if (count >= 0 || errno == EINTR) return count;  // ENOSYS, or what a sandbox says in its place
  }
  return epoll_wait(epoll_fd_, events, kMaxEvents, static_cast<int>((ns + kMillisecond - 1) / kMillisecond));
}

}  // namespace epic::io
