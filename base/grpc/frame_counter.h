// What passes from an HTTP/2 client to a server (RFC 9113), counted by frames: each makes work there, a call that is
// taken back at once as much as any other, however few bytes it has.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/grpc/first_words.h"
#include "base/types.h"

namespace epic {

class FrameCounter {
 public:
  // What a call costs: the server keeps it, and a thread perhaps, until all is done with it.
  static constexpr uint64_t kCall = 6;

  // Of the next bytes of a connection, which begins with the preface: how many frames begin in them; one that begins a call
  // counts as kCall.
  uint64_t Count(std::string_view bytes) {
    uint64_t frames = 0;
    while (!bytes.empty()) {
      if (skip_ == 0) {
        header_[got_++] = static_cast<uint8_t>(bytes.front());
        bytes.remove_prefix(1);
        if (got_ < kHttp2FrameHeader) continue;
        got_ = 0;
        skip_ = size_t{header_[0]} << 16 | size_t{header_[1]} << 8 | header_[2];
        frames += header_[3] == kHeaders ? kCall : 1;
        continue;
      }
      const size_t passed = std::min(skip_, bytes.size());
      skip_ -= passed;
      bytes.remove_prefix(passed);
    }
    return frames;
  }

 private:
  static constexpr uint8_t kHeaders = 1;
  size_t skip_ = kHttp2Preface.size();
  std::array<uint8_t, kHttp2FrameHeader> header_{};
  size_t got_ = 0;  // of the header
};

// How many frames somebody may still send: so many a second, and as many as in a quarter of it at once.
class FrameBudget {
 public:
  explicit FrameBudget(uint64_t a_second) : a_second_(static_cast<int64_t>(a_second)), left_(Most()) {}

  void Spend(uint64_t frames) { left_ -= static_cast<int64_t>(frames) * 1000; }
  // With what has come in until now. What has been spent beyond it is to be waited for.
  bool IsSpent(Nanos now) {
    const Nanos ms = (now - at_) / kMillisecond;
    at_ += ms * kMillisecond;
    left_ = std::min(Most(), left_ + a_second_ * std::min<Nanos>(ms, kMostMs));
    return left_ <= 0;
  }

  // Less than half of that is left.
  bool IsLow() const { return left_ < Most() / 2; }

 private:
  static constexpr Nanos kMostMs = 1'000'000;
  int64_t Most() const { return a_second_ * 250; }

  const int64_t a_second_;
  int64_t left_;  // thousandths of a frame: a millisecond may bring less than one
  Nanos at_ = 0;
};

}  // namespace epic
