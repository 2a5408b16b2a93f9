// What two ends of an unreliable connection say to each other: a row of Sends and Writes with immediate data
// whose lengths and bytes follow from their number. Some get lost; each end counts those that arrive, and
// sees that they are whole and in order.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "tests/rxe_peer/ends.h"
#include "tests/rxe_peer/exchange.h"

namespace epic::rxe_peer {

class UcExchange {
 public:
  static constexpr int kMessages = 200;
  // Posted all the time: as many as may come while a program stands still.
  static constexpr int kReceives = kMessages;
  static constexpr uint32_t kMost = 8000;
  enum class Kind { kSend, kSendImm, kWriteImm };
  static Kind KindOf(int k) { return static_cast<Kind>(k % 3); }
  // Side 0 writes no more than a packet: rdma_rxe never recovers from a gap within a Write that comes to it.
  // It refuses each message that begins from then on, since it waits for the rest of that Write.
  static uint32_t BytesOf(int side, int k) {
    const bool short_write = side == 0 && KindOf(k) == Kind::kWriteImm;
    return 4 + static_cast<uint32_t>(k) * 2654435761u % ((short_write ? kPathMtu : kMost) - 4);
  }

  // One piece of memory: a message to send, a place for each Write of the other end's, receive buffers.
  static constexpr size_t kOut = 0, kTarget = kMost, kRecv = kTarget + size_t{kMost} * kMessages;
  static constexpr size_t kBytes = kRecv + size_t{kMost} * kReceives;
  static size_t TargetOf(int k) { return kTarget + size_t{kMost} * static_cast<size_t>(k); }
  static size_t ReceiveOf(int buffer) { return kRecv + size_t{kMost} * static_cast<size_t>(buffer); }

  UcExchange(int side, std::span<uint8_t> memory) : side_(side), memory_(memory) {}

  // Whether there is one more to send; one at a time. Its bytes are made.
  bool may_post() const { return posted_ == completed_ && posted_ < kMessages; }
  int Post() {
    const int k = posted_++;
    for (uint32_t i = 4; i < BytesOf(side_, k); ++i) memory_[kOut + i] = Pattern(side_, k, i);
    std::memcpy(memory_.data() + kOut, &k, sizeof k);
    return k;
  }
  uint32_t BytesOf(int k) const { return BytesOf(side_, k); }
  void OnCompleted() { ++completed_; }
  bool all_sent() const { return completed_ == kMessages; }

  // A message has come, of a Send into the buffer. Without immediate data its first bytes say which it is.
  void OnReceived(int buffer, uint32_t bytes, bool has_imm, uint32_t imm) {
    int k = static_cast<int>(imm);
    if (!has_imm) std::memcpy(&k, memory_.data() + ReceiveOf(buffer), sizeof k);
    if (k < 0 || k >= kMessages) return Fail("no such message", k);
    if (k <= last_) Fail("not in order", k);
    last_ = k;
    ++arrived_;
    if (has_imm != (KindOf(k) != Kind::kSend) || bytes != BytesOf(1 - side_, k))
      return Fail("kind or length", k);
    const uint8_t* const at =
        memory_.data() + (KindOf(k) == Kind::kWriteImm ? TargetOf(k) : ReceiveOf(buffer));
    for (uint32_t i = 4; i < bytes; ++i) {
      if (at[i] != Pattern(1 - side_, k, i)) return Fail("wrong bytes", k);
    }
  }
  int arrived() const { return arrived_; }
  int wrong() const { return wrong_; }

  // Says once that all were sent, and that all have come.
  void Tell() {
    if (all_sent() && !std::exchange(told_sent_, true)) std::printf("sent\n");
    if (arrived_ == kMessages && !std::exchange(told_all_, true)) std::printf("all\n");
    std::fflush(stdout);
  }

 private:
  void Fail(const char* what, int k) {
    ++wrong_;
    std::printf("side %d: %s at message %d\n", side_, what, k);
  }

  int side_;
  std::span<uint8_t> memory_;
  int posted_ = 0, completed_ = 0;
  int last_ = -1, arrived_ = 0, wrong_ = 0;
  bool told_sent_ = false, told_all_ = false;
};

}  // namespace epic::rxe_peer
