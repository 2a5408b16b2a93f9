// How many of a rank's acknowledgements may be one (docs/HOST-INTERNALS.md, "Shared acknowledgements").
//
// A call whose data travel in its control message ends with its result, and a Barrier with its answer: nobody
// waits for the acknowledgement of what comes, as long as there is one before its sender's window is used up.
// Of other calls switches and senders do wait for it (RankCore::WantsAcks).
//
// Without a clock; a copy is a snapshot.
#pragma once

#include <algorithm>
#include <cstdint>

namespace epic {

class SharedAcks {
 public:
  // window_messages: W, what the switch may send without an acknowledgement.
  explicit SharedAcks(uint32_t window_messages)
      : most_(std::clamp<uint32_t>(window_messages / 2, 1, kMost)) {}

  // A call is made. wants_acks: somebody waits for its acknowledgements. alone: no other one is open.
  void Posted(bool wants_acks, bool alone) {
    if (wants_acks) {
      messages_ = 1;
    } else if (alone) {
      messages_ = most_;
    }
  }

  // Messages that one acknowledgement is for; 1: each has its own.
  uint32_t messages() const { return messages_; }

 private:
  static constexpr uint32_t kMost = 4;

  uint32_t most_;
  uint32_t messages_ = 1;
};

}  // namespace epic
