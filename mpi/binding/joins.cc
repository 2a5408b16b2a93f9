#include "mpi/binding/joins.h"

#include <algorithm>
#include <iterator>

#include "base/signals_blocked.h"

namespace epic::mpi {

// With the lock held.
std::list<Joins::Thread> Joins::TakeEnded() {
  std::list<Thread> ended;
  for (auto at = threads_.begin(); at != threads_.end();) {
    const auto next = std::next(at);
    if (at->joining->Ended() != nullptr) ended.splice(ended.end(), threads_, at);
    at = next;
  }
  return ended;
}

bool Joins::HasRoom() {
  std::list<Thread> ended;
  size_t under_way = 0;
  {
    const std::lock_guard lock(mutex_);
    ended = TakeEnded();
    under_way = threads_.size();
  }
  for (Thread& thread : ended) thread.thread.join();  // it has nothing left to do
  return under_way < kMost;
}

std::shared_ptr<Joining> Joins::Begin(Join join) {
  auto joining = std::make_shared<Joining>();
  const SignalsBlocked blocked;
  const std::lock_guard lock(mutex_);
  threads_.push_back(
      {joining, std::thread([this, joining, join = std::move(join)] { Run(joining.get(), join); })});
  return joining;
}

void Joins::Run(Joining* joining, const Join& join) {
  Joined joined = join([this] { return give_up_.load(); });
  std::function<void(Joined)> then;
  {
    const std::lock_guard lock(mutex_);
    then = std::move(joining->given_up_);
    if (!then) {
      joining->joined_ = std::move(joined);
      joining->has_ended_.store(true, std::memory_order_release);
      ended_.notify_all();
      return;
    }
  }
  then(std::move(joined));
  const std::lock_guard lock(mutex_);
  joining->has_ended_.store(true, std::memory_order_release);
  ended_.notify_all();
}

void Joins::GiveUp(const std::shared_ptr<Joining>& joining, std::function<void(Joined)> then) {
  {
    const std::lock_guard lock(mutex_);
    if (joining->Ended() == nullptr) {
      joining->given_up_ = std::move(then);
      return;
    }
  }
  then(std::move(joining->joined_));
}

void Joins::End(std::chrono::milliseconds at_most) {
  {
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, at_most, [this] {
      return std::ranges::all_of(threads_, [](const Thread& at) { return at.joining->Ended() != nullptr; });
    });
  }
  give_up_ = true;
  Wait();
}

void Joins::Wait() {
  for (;;) {
    std::list<Thread> last;
    {
      const std::lock_guard lock(mutex_);
      last.swap(threads_);
    }
    if (last.empty()) return;
    for (Thread& thread : last) thread.thread.join();
  }
}

}  // namespace epic::mpi
