// A store whose writes the test completes by hand.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "incmanager/store/memory_store.h"

namespace epic::manager::testing {

// Thread-safe. A write begins when Apply is called, and waits for the test only while it holds.
class HandStore : public Store {
 public:
  StatusOr<Contents> Load() override {
    const std::lock_guard lock(mutex_);
    return kept_.Load();
  }
  Status Apply(const Batch& batch) override {
    std::unique_lock lock(mutex_);
    ++begun_;
    writing_ = batch;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !holds_ || answer_; });
    const bool fails = !fails_of_ || std::ranges::any_of(batch, [this](const auto& change) {
      return change.row.kind == *fails_of_;
    });
    const Status status = std::exchange(answer_, std::nullopt).value_or(fails ? failure_ : absl::OkStatus());
    writing_.reset();
    changed_.notify_all();
    return status.ok() ? kept_.Apply(batch) : status;
  }
  // A write as the others.
  void Close() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !holds_; });
  }
  std::string Place() const override { return "hand"; }
  bool Holds() const override { return holds_it_; }
  // From now on it is another one's.
  void Lose() { holds_it_ = false; }

  // From now on writes wait for Complete, or do not any more.
  void Hold(bool holds) {
    const std::lock_guard lock(mutex_);
    holds_ = holds;
    changed_.notify_all();
  }
  // How writes end that are not completed by hand; if `kind`, those with a row of that kind.
  void FailWith(const Status& status, std::optional<RowKind> kind = std::nullopt) {
    const std::lock_guard lock(mutex_);
    failure_ = status;
    fails_of_ = kind;
  }
  // Waits until so many writes have begun, in all.
  void AwaitBegun(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= count; });
  }
  // Waits for a write, and gives it.
  Batch AwaitWrite() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return writing_ && !answer_; });
    return *writing_;
  }
  // Of the write that waits, or the next one.
  void Complete(const Status& status = absl::OkStatus()) {
    const std::lock_guard lock(mutex_);
    answer_ = status;
    changed_.notify_all();
  }

  size_t begun() const {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  // What it has kept of batches, and what it had when so many were kept.
  size_t count() const {
    const std::lock_guard lock(mutex_);
    return kept_.count();
  }
  Contents After(size_t batches) const {
    const std::lock_guard lock(mutex_);
    return kept_.After(batches);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  MemoryStore kept_;
  std::optional<Batch> writing_;
  std::optional<Status> answer_;
  Status failure_;
  std::optional<RowKind> fails_of_;
  bool holds_ = false;
  std::atomic<bool> holds_it_ = true;
  size_t begun_ = 0;
};

}  // namespace epic::manager::testing
