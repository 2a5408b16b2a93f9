#include "incmanager/rpc/committer.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace epic::manager {

Committer::Committer(Store* store, std::chrono::nanoseconds patience) : store_(store), patience_(patience) {
  if (store_ != nullptr) thread_ = std::thread([this] { Loop(); });
}

Committer::~Committer() {
  if (store_ == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    asked_.notify_all();
  }
  thread_.join();
}

Status Committer::Commit(Batch batch, Late late) {
  if (store_ == nullptr || batch.empty()) return absl::OkStatus();
  // Alone it would be in the way of those who are in its transaction.
  if (SizeOf(batch) > Store::kMostBytes)
    return MakeStatus(StatusCode::kInvalidArgument, "what is to be kept of this is too large");
  const auto waiter = std::make_shared<Waiter>();
  waiter->late = std::move(late);
  std::unique_lock lock(mutex_);
  queue_.push_back({std::move(batch), waiter, nullptr});
  asked_.notify_all();
  if (answered_.wait_for(lock, patience_, [&waiter] { return waiter->done; })) return waiter->status;
  waiter->given_up = true;
  return MakeStatus(StatusCode::kDeadlineExceeded,
                    "the manager's store does not answer: its disk is too slow, or hangs");
}

void Committer::Post(Batch batch, std::function<void()> tried) {
  if (store_ == nullptr || (batch.empty() && !tried)) return;
  if (SizeOf(batch) > Store::kMostBytes) batch.clear();  // it would be in the way for ever
  const std::lock_guard lock(mutex_);
  queue_.push_back({std::move(batch), nullptr, std::move(tried)});
  asked_.notify_all();
}

bool Committer::IsIdle() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty() && !busy_;
}

Status Committer::Health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

std::deque<Committer::Entry> Committer::TakeSome() {
  std::deque<Entry> entries;
  size_t bytes = 0;
  while (!queue_.empty()) {
    Entry& next = queue_.front();
    const size_t more = SizeOf(next.batch);
    if (!entries.empty() && bytes + more > Store::kMostBytes) break;
    bytes += more;
    // Who has gone before his turn came was told that nobody knows; so nothing of it is done.
    if (next.waiter != nullptr && next.waiter->given_up) next.batch.clear();
    entries.push_back(std::move(next));
    queue_.pop_front();
  }
  return entries;
}

void Committer::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto is_asked = [this] {
      return stop_ || std::ranges::any_of(queue_, [](const Entry& entry) { return entry.waiter != nullptr; });
    };
    if (health_.ok()) {
      asked_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    } else {
      asked_.wait_for(lock, kAgain, is_asked);
    }
    const bool last = stop_;
    std::deque<Entry> entries = TakeSome();
    if (!entries.empty()) {
      busy_ = true;
      lock.unlock();
      Batch all;
      for (const Entry& entry : entries) all.insert(all.end(), entry.batch.begin(), entry.batch.end());
      const Status status = all.empty() ? absl::OkStatus() : store_->Apply(all);
      lock.lock();
      busy_ = false;
      if (!all.empty()) health_ = status;
      Finish(&lock, std::move(entries), status);
    }
    if (last && (queue_.empty() || !health_.ok())) return;
  }
}

void Committer::Finish(std::unique_lock<std::mutex>* lock, std::deque<Entry> entries, const Status& status) {
  std::vector<std::pair<Late, bool>> late;
  std::vector<std::function<void()>> tried;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->waiter == nullptr) {
      if (entry->tried) tried.push_back(std::exchange(entry->tried, nullptr));
      if (!status.ok()) queue_.push_front(std::move(*entry));
      continue;
    }
    entry->waiter->done = true;
    entry->waiter->status = status;
    if (entry->waiter->given_up)
      late.emplace_back(std::move(entry->waiter->late), status.ok() && !entry->batch.empty());
  }
  answered_.notify_all();
  lock->unlock();
  for (const auto& [call, kept] : late) call(kept);
  for (auto call = tried.rbegin(); call != tried.rend(); ++call) (*call)();
  lock->lock();
}

}  // namespace epic::manager
