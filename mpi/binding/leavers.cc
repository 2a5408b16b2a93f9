#include "mpi/binding/leavers.h"

#include <utility>
#include <vector>

#include "base/signals_blocked.h"

namespace epic::mpi {
namespace {

// All ranks free a communicator at about the same time; one that does not come has died or hangs.
constexpr std::chrono::seconds kAtMost(30);

}  // namespace

void Leavers::Leave(std::unique_ptr<Group> group) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(std::move(group));
  if (!thread_.joinable()) {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { Run(); });
  }
  changed_.notify_all();
}

void Leavers::Wait() {
  std::deque<std::unique_ptr<Group>> last;
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) return;
    ends_ = true;
    last.swap(groups_);
    changed_.notify_all();
  }
  std::vector<std::thread> threads;
  {
    const SignalsBlocked blocked;
    for (std::unique_ptr<Group>& group : last) {
      threads.emplace_back([&group] {
        group->Leave(kAtMost);
        group.reset();
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  thread_.join();
  ends_ = false;
}

void Leavers::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !groups_.empty(); });
    if (groups_.empty()) return;
    std::unique_ptr<Group> group = std::move(groups_.front());
    groups_.pop_front();
    lock.unlock();
    group->Leave(kAtMost);
    group.reset();
    lock.lock();
  }
}

}  // namespace epic::mpi
