// Calls that come later, on gRPC's threads: no thread of our own waits for them. Not thread-safe by itself:
// its owner's lock is held around each call of it, and is not while it calls.
#pragma once

#include <grpcpp/alarm.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace epic::internal {

class Alarms {
 public:
  // The owner's lock; both outlive this.
  explicit Alarms(std::mutex* mutex) : mutex_(mutex) {}

  // Calls what, unless they are ended before.
  void Ring(std::chrono::milliseconds after, std::function<void()> what) {
    ++open_;
    alarms_.push_back(std::make_unique<grpc::Alarm>());
    alarms_.back()->Set(std::chrono::system_clock::now() + after,
                        [this, what = std::move(what)](bool is_time) {
                          if (is_time) what();
                          const std::lock_guard lock(*mutex_);
                          --open_;
                          over_.notify_all();
                        });
  }
  // Nothing is called when this has returned. The lock is given back meanwhile.
  void End(std::unique_lock<std::mutex>* lock) {
    for (const auto& alarm : alarms_) alarm->Cancel();
    over_.wait(*lock, [this] { return open_ == 0; });
  }

 private:
  std::mutex* const mutex_;
  std::condition_variable over_;
  std::vector<std::unique_ptr<grpc::Alarm>> alarms_;  // all that there were
  int open_ = 0;
};

}  // namespace epic::internal
