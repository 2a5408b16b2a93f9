// Calls that come later, on gRPC's threads: no thread of our own waits for them. Not thread-safe by itself:
// its owner's lock is held around each call of it, and is not while it calls.
#pragma once

#include <grpcpp/alarm.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace epic::internal {

class Alarms {
 public:
  // The owner's lock; both outlive this.
  explicit Alarms(std::mutex* mutex) : mutex_(mutex) {}

  // Calls what, unless it is stopped, or they are ended, before. Returns its number.
  uint64_t Ring(std::chrono::milliseconds after, std::function<void()> what) {
    ++open_;
    One* const one = &alarms_[++last_];
    one->alarm.Set(std::chrono::system_clock::now() + after,
                   [this, one, what = std::move(what)](bool is_time) {
                     if (is_time) what();
                     const std::lock_guard lock(*mutex_);
                     one->over = true;
                     --open_;
                     over_.notify_all();
                   });
    return last_;
  }
  // It may call all the same if it is about to. One that has called, or is stopped, may be stopped again.
  void Stop(uint64_t number) {
    if (const auto found = alarms_.find(number); found != alarms_.end()) found->second.alarm.Cancel();
  }
  // Gives free those that have called or been stopped. Not in such a call.
  void DropOver() {
    std::erase_if(alarms_, [](const auto& one) { return one.second.over; });
  }
  // That have not been given free.
  size_t size() const { return alarms_.size(); }
  // Nothing is called when this has returned. The lock is given back meanwhile.
  void End(std::unique_lock<std::mutex>* lock) {
    for (auto& [number, one] : alarms_) one.alarm.Cancel();
    over_.wait(*lock, [this] { return open_ == 0; });
  }

 private:
  struct One {
    grpc::Alarm alarm;
    bool over = false;
  };

  std::mutex* const mutex_;
  std::condition_variable over_;
  std::map<uint64_t, One> alarms_;  // by their numbers
  uint64_t last_ = 0;
  int open_ = 0;
};

}  // namespace epic::internal
