// How many questions that wait for others, and hold a thread of the server's meanwhile, are asked at once.
#pragma once

#include <atomic>

#include "base/status.h"

namespace epic {

class Questions {
 public:
  // Of the threads that a server has (ServerBounds), the rest is for what is answered at once.
  static constexpr int kMost = 32;

  // One of them, for as long as it lives.
  class One {
   public:
    explicit One(Questions* of) : of_(of), number_(++of->now_) {}
    ~One() { --of_->now_; }
    One(const One&) = delete;
    One& operator=(const One&) = delete;
    // RESOURCE_EXHAUSTED if it is one too many.
    Status status() const {
      if (number_ <= kMost) return absl::OkStatus();
      return MakeStatus(StatusCode::kResourceExhausted, "as many questions as may wait for an answer; ask again");
    }

   private:
    Questions* const of_;
    const int number_;
  };

 private:
  std::atomic<int> now_ = 0;
};

}  // namespace epic
