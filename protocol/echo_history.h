// The last requests for an echo to one address, and which of them have been answered: what a witness says of
// a switch (docs/PROTOCOL-CONTROL.md, section 7.1). Values only.
#pragma once

#include <array>
#include <cstdint>

namespace epic {

class EchoHistory {
 public:
  // They are sent three times a second, and one that is late by 4 s is still of use.
  static constexpr uint32_t kRequests = 16;

  // A request is sent. Numbers are not 0.
  void OnRequest(uint32_t number) {
    for (uint32_t i = kRequests - 1; i > 0; --i) requests_[i] = requests_[i - 1];
    requests_[0] = {number, false};
  }
  // False if the number is none of the last requests'.
  bool OnEcho(uint32_t number) {
    for (Request& request : requests_) {
      if (request.number != number || number == 0) continue;
      request.answered = true;
      return true;
    }
    return false;
  }
  // The newest request that was answered: 1 is the last, 2 the one before; 0: none of the last kRequests.
  uint32_t Answered() const {
    for (uint32_t i = 0; i < kRequests; ++i) {
      if (requests_[i].answered) return i + 1;
    }
    return 0;
  }
  // 0: there was none.
  uint32_t last_number() const { return requests_[0].number; }

 private:
  struct Request {
    uint32_t number = 0;
    bool answered = false;
  };
  std::array<Request, kRequests> requests_{};  // the newest first
};

}  // namespace epic
