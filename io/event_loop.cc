#include "io/event_loop.h"

#include <sched.h>
#include <sys/eventfd.h>
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
    const int count = epoll_wait(epoll_fd_, events.data(), kMaxEvents, polls ? 0 : WaitMs(now));
    EPIC_CHECK(count >= 0 || errno == EINTR);
    const bool traffic = count > 0 && Handle(count, events.data());
    now = MonotonicNow();
    if (RunTimers(now) || count > 0) after_round_();
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

int EventLoop::WaitMs(Nanos now) const {
  const Nanos next = std::min(timers_.NextDeadline(), periodic_at_);
  const Nanos wait = std::clamp<Nanos>(next - now, 0, kMaxSleep);
  return static_cast<int>((wait + kMillisecond - 1) / kMillisecond);
}

}  // namespace epic::io
