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
  Push(std::move(group));
}

void Leavers::Keep(KeptGroup kept, std::chrono::milliseconds keep_for) {
  const std::lock_guard lock(mutex_);
  Push(kept_.Put(std::move(kept), std::chrono::steady_clock::now() + keep_for));
}

std::string Leavers::Offer(uint64_t members) {
  const std::lock_guard lock(mutex_);
  return kept_.Offer(members);
}

std::unique_ptr<Group> Leavers::Take(const std::string& name, int rank, int ranks) {
  const std::lock_guard lock(mutex_);
  return kept_.Take(name, rank, ranks);
}

// With the lock held; null: the thread has something to wait for.
void Leavers::Push(std::unique_ptr<Group> group) {
  if (group != nullptr) groups_.push_back(std::move(group));
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
    while (std::unique_ptr<Group> group = kept_.TakeOldest()) last.push_back(std::move(group));
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
    while (std::unique_ptr<Group> group = kept_.TakeExpired(std::chrono::steady_clock::now()))
      groups_.push_back(std::move(group));
    if (groups_.empty()) {
      if (ends_) return;
      const auto expiry = kept_.NextExpiry();
      if (expiry)
        changed_.wait_until(lock, *expiry);
      else
        changed_.wait(lock);
      continue;
    }
    std::unique_ptr<Group> group = std::move(groups_.front());
    groups_.pop_front();
    lock.unlock();
    group->Leave(kAtMost);
    group.reset();
    lock.lock();
  }
}

}  // namespace epic::mpi
