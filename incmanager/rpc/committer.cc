#include "incmanager/rpc/committer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace epic::manager {

Committer::Committer(Store* store, const CommitTimes& times)
    : store_(store), times_(times), bounds_(store == nullptr ? BatchBounds{} : store->bounds()) {
  if (store_ != nullptr) thread_ = std::thread([this] { Loop(); });
}

Committer::~Committer() {
  if (store_ == nullptr) return;
  static_cast<void>(Stop());
  thread_.join();
}

bool Committer::Stop() {
  if (store_ == nullptr) return true;
  std::unique_lock lock(mutex_);
  stop_ = true;
  asked_.notify_all();
  while (!ended_) {
    if (IsHanging()) return false;
    answered_.wait_until(lock, busy_since_.value_or(Clock::now()) + times_.hangs_after);
  }
  return true;
}

bool Committer::IsHanging() const { return busy_since_ && Clock::now() - *busy_since_ >= times_.hangs_after; }

Status Committer::HowItHangs() const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(times_.hangs_after);
  return MakeStatus(StatusCode::kDeadlineExceeded,
                    fmt::format("its disk hangs: a write has not returned for {} s", seconds.count()));
}

Status Committer::Commit(Batch batch, Late late) {
  if (store_ == nullptr || batch.empty()) return absl::OkStatus();
  // Alone it would be in the way of those who are in its transaction.
  if (!bounds_.Has(SizeOf(batch), batch.size()))
    return MakeStatus(StatusCode::kInvalidArgument, "what is to be kept of this is too large");
  const auto waiter = std::make_shared<Waiter>();
  waiter->late = std::move(late);
  std::unique_lock lock(mutex_);
  if (stop_) return MakeStatus(StatusCode::kFailedPrecondition, "the manager ends");
  if (IsHanging()) {
    return MakeStatus(StatusCode::kFailedPrecondition, fmt::format("the manager's store does not answer: {}",
                                                                   std::string(HowItHangs().message())));
  }
  queue_.push_back({std::move(batch), waiter, nullptr});
  asked_.notify_all();
  if (answered_.wait_for(lock, times_.patience, [&waiter] { return waiter->done; })) return waiter->status;
  waiter->given_up = true;
  return MakeStatus(StatusCode::kDeadlineExceeded,
                    "the manager's store does not answer: its disk is too slow, or hangs");
}

void Committer::Post(Batch batch, Tried tried) {
  if (store_ == nullptr || (batch.empty() && !tried)) return;
  const std::lock_guard lock(mutex_);
  Batch part;
  size_t bytes = 0;
  for (RowChange& change : batch) {
    const size_t more = SizeOf(change);
    if (more > bounds_.bytes) {  // it would be in the way for ever
      lost_.push_back(fmt::format("row {} {} of {} bytes; a row has {} at most", Name(change.row.kind),
                                  change.row.key, more, bounds_.bytes));
      continue;
    }
    if (!bounds_.Has(bytes + more, part.size() + 1)) {
      queue_.push_back({std::exchange(part, {}), nullptr, nullptr});
      bytes = 0;
    }
    bytes += more;
    part.push_back(std::move(change));
  }
  queue_.push_back({std::move(part), nullptr, std::move(tried)});
  asked_.notify_all();
}

bool Committer::IsIdle() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty() && !busy_since_;
}

Status Committer::Health() const {
  const std::lock_guard lock(mutex_);
  return IsHanging() ? HowItHangs() : health_;
}

std::vector<std::string> Committer::TakeLost() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lost_, {});
}

Committer::Taken Committer::TakeSome() {
  Taken taken;
  size_t bytes = 0;
  const auto fits = [&](size_t more, size_t rows) {
    if (!taken.batch.empty() && !bounds_.Has(bytes + more, taken.batch.size() + rows)) return false;
    bytes += more;
    return true;
  };
  for (const auto& [row, value] : unkept_) {
    RowChange change{row, value};
    if (!fits(SizeOf(change), 1)) return taken;
    taken.batch.push_back(std::move(change));
  }
  while (!queue_.empty() && fits(SizeOf(queue_.front().batch), queue_.front().batch.size())) {
    Entry next = std::move(queue_.front());
    queue_.pop_front();
    // Who has gone before his turn came was told that nobody knows; so nothing of it is done.
    if (next.waiter != nullptr && next.waiter->given_up) next.batch.clear();
    taken.batch.insert(taken.batch.end(), next.batch.begin(), next.batch.end());
    taken.entries.push_back(std::move(next));
  }
  return taken;
}

void Committer::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto is_asked = [this] {
      return stop_ || std::ranges::any_of(queue_, [](const Entry& entry) { return entry.waiter != nullptr; });
    };
    if (health_.ok()) {
      asked_.wait(lock, [this] { return stop_ || !queue_.empty() || !unkept_.empty(); });
    } else {
      asked_.wait_for(lock, kAgain, is_asked);
    }
    const bool last = stop_;
    const size_t waiting = queue_.size();
    Taken taken = TakeSome();
    const size_t behind = waiting - taken.entries.size();
    if (!taken.batch.empty() || !taken.entries.empty()) {
      const Status status = taken.batch.empty() ? absl::OkStatus() : Write(&lock, taken.batch);
      // Those behind would fare alike, and what has failed stays in front of them.
      const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(status.ok() ? 0 : behind);
      std::move(queue_.begin(), end, std::back_inserter(taken.entries));
      queue_.erase(queue_.begin(), end);
      Finish(&lock, std::move(taken), status);
    }
    if (last && ((queue_.empty() && unkept_.empty()) || !health_.ok())) break;
  }
  busy_since_ = Clock::now();
  answered_.notify_all();
  lock.unlock();
  store_->Close();
  lock.lock();
  busy_since_.reset();
  ended_ = true;
  answered_.notify_all();
}

Status Committer::Write(std::unique_lock<std::mutex>* lock, const Batch& batch) {
  busy_since_ = Clock::now();
  answered_.notify_all();
  std::optional<std::set<RowKey>> stored;
  const bool knows = stored_.has_value();
  lock->unlock();
  const Status status = store_->Apply(batch);
  if (!status.ok() && !knows) {
    if (const StatusOr<Contents> rows = store_->Load(); rows.ok()) {
      stored.emplace();
      for (const auto& [row, value] : *rows) stored->insert(row);
    }
  }
  lock->lock();
  busy_since_.reset();
  health_ = status;
  if (status.ok() || !knows) stored_ = std::move(stored);
  return status;
}

void Committer::KeepLater(Batch batch) {
  for (RowChange& change : batch) {
    if (!change.value && stored_ && !stored_->contains(change.row)) {
      unkept_.erase(change.row);  // it never was there
    } else {
      unkept_[std::move(change.row)] = std::move(change.value);
    }
  }
}

void Committer::Finish(std::unique_lock<std::mutex>* lock, Taken taken, const Status& status) {
  std::vector<std::pair<Late, bool>> late;
  std::vector<Tried> tried;
  if (status.ok() && !unkept_.empty()) {
    for (const RowChange& change : taken.batch) unkept_.erase(change.row);
  }
  for (Entry& entry : taken.entries) {
    if (entry.waiter == nullptr) {
      if (entry.tried) tried.push_back(std::move(entry.tried));
      if (!status.ok()) KeepLater(std::move(entry.batch));
      continue;
    }
    entry.waiter->done = true;
    entry.waiter->status = status;
    if (entry.waiter->given_up)
      late.emplace_back(std::move(entry.waiter->late), status.ok() && !entry.batch.empty());
  }
  answered_.notify_all();
  lock->unlock();
  for (const auto& [call, kept] : late) call(kept);
  for (const Tried& call : tried) call(status);
  lock->lock();
}

}  // namespace epic::manager
