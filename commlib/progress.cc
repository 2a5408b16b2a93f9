#include "commlib/progress.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/signals_blocked.h"

namespace epic::internal {
namespace {

constexpr int kTickMs = 1000;

}  // namespace

Progress& Progress::Get() {
  static auto* progress = new Progress;
  return *progress;
}

bool Progress::Claim() {
  static std::atomic<pid_t> owner{0};
  const pid_t own = getpid();
  pid_t before = 0;
  return owner.compare_exchange_strong(before, own) || before == own;
}

Progress::Progress()
    : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)), wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  EPIC_CHECK(epoll_fd_ >= 0 && wake_fd_ >= 0);
  epoll_event event{.events = EPOLLIN, .data = {.fd = wake_fd_}};
  EPIC_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, &event) == 0);
}

void Progress::Add(const std::shared_ptr<Progressing>& comm, int channel_fd) {
  const std::lock_guard lock(mutex_);
  comms_[channel_fd] = comm;
  epoll_event event{.events = EPOLLONESHOT, .data = {.fd = channel_fd}};
  EPIC_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, channel_fd, &event) == 0);
  if (!started_) {
    started_ = true;
    const SignalsBlocked blocked;
    std::thread([this] { Run(); }).detach();
  }
  const uint64_t one = 1;  // the thread may be asleep without its tick
  EPIC_CHECK(write(wake_fd_, &one, sizeof one) == sizeof one);
}

void Progress::Remove(int channel_fd) {
  std::unique_lock lock(mutex_);
  if (comms_.erase(channel_fd) == 0) return;
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, channel_fd, nullptr);
  let_go_.wait(lock, [this] { return holders_ == 0; });
}

void Progress::Arm(int channel_fd) {
  epoll_event event{.events = EPOLLIN | EPOLLONESHOT, .data = {.fd = channel_fd}};
  epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, channel_fd, &event);
}

void Progress::OnReady(int channel_fd) {
  std::shared_ptr<Progressing> comm;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = comms_.find(channel_fd); found != comms_.end()) comm = found->second.lock();
    if (!comm) return;
    ++holders_;
  }
  comm->OnChannelReady();
  comm = nullptr;
  LetGo();
}

std::vector<std::shared_ptr<Progressing>> Progress::HoldAll() {
  std::vector<std::shared_ptr<Progressing>> comms;
  const std::lock_guard lock(mutex_);
  for (const auto& [fd, comm] : comms_) {
    if (auto strong = comm.lock()) comms.push_back(std::move(strong));
  }
  ++holders_;
  return comms;
}

std::vector<CallsInfo> Progress::CallsOfOthers(const Progressing* but) {
  std::vector<CallsInfo> calls;
  std::vector<std::shared_ptr<Progressing>> comms = HoldAll();
  for (const auto& comm : comms) {
    if (comm.get() != but) calls.push_back(comm->TellCalls());
  }
  comms.clear();
  LetGo();
  return calls;
}

void Progress::Tick() {
  std::vector<std::shared_ptr<Progressing>> comms = HoldAll();
  for (const auto& comm : comms) comm->OnTick();
  comms.clear();
  LetGo();
}

void Progress::LetGo() {
  const std::lock_guard lock(mutex_);
  --holders_;
  let_go_.notify_all();
}

void Progress::Run() {
  pthread_setname_np(pthread_self(), "epic-progress");
  auto next_tick = std::chrono::steady_clock::now();
  while (true) {
    bool idle = false;
    {
      const std::lock_guard lock(mutex_);
      idle = comms_.empty();
    }
    std::array<epoll_event, 16> events;
    const int count =
        epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), idle ? -1 : kTickMs);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == wake_fd_) {
        uint64_t wakes = 0;
        if (read(wake_fd_, &wakes, sizeof wakes) < 0) continue;
      } else {
        OnReady(fd);
      }
    }
    if (const auto now = std::chrono::steady_clock::now(); now >= next_tick) {
      next_tick = now + std::chrono::milliseconds(kTickMs);
      Tick();
    }
  }
}

}  // namespace epic::internal
