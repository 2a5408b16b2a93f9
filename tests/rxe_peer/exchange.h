// What two ends of one connection do to each other at the same time, whichever verbs they have: a list of
// Sends, Sends with immediate, Writes and Reads whose lengths and bytes both know. Each end checks everything
// that arrives.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

namespace epic::rxe_peer {

inline constexpr int kOperations = 64;
inline constexpr uint32_t kMaxBytes = 20000;
inline constexpr uint32_t kSlot = 20480;  // room for one operation
inline constexpr int kReceives = 4;       // posted at a time
inline constexpr int kOutstanding = 12;   // requests of one end
// An end posts no receives before it has sent so many RNR NAKs: more than one, for a loss may take some.
inline constexpr uint64_t kRefusals = 4;

enum class Op { kSend, kSendImm, kWrite, kRead };
inline Op OpOf(int k) { return k == kOperations - 1 ? Op::kSendImm : static_cast<Op>(k % 4); }
inline uint32_t BytesOf(int k) { return 1 + static_cast<uint32_t>(k) * 2654435761u % kMaxBytes; }
inline uint8_t Pattern(int side, int k, uint32_t at) {
  return static_cast<uint8_t>(side * 101 + k * 31 + static_cast<int>(at * 7 + (at >> 8)));
}

// One piece of memory, registered as a whole and open to the other end: what it sends, writes and lets read
// (slot k of kOut), what Reads bring (kIn), what the other end writes (kTarget), and receive buffers.
class Exchange {
 public:
  enum Area { kOut = 0, kIn = kOperations, kTarget = 2 * kOperations, kRecv = 3 * kOperations };
  static constexpr size_t kBytes = size_t{kSlot} * (3 * kOperations + kReceives);

  Exchange(int side, std::span<uint8_t> memory) : side_(side), memory_(memory) {
    for (int k = 0; k < kOperations; ++k) {
      for (uint32_t i = 0; i < BytesOf(k); ++i) memory_[OffsetOf(kOut, k) + i] = Pattern(side, k, i);
    }
  }

  static size_t OffsetOf(Area area, int slot) { return size_t{kSlot} * static_cast<size_t>(area + slot); }

  bool may_post() const { return posted_ < kOperations && posted_ - completed_ < kOutstanding; }
  int Post() { return posted_++; }
  // `rnr_naks_sent` of this connection up to now.
  bool may_receive(uint64_t rnr_naks_sent) const {
    return rnr_naks_sent >= kRefusals && recvs_posted_ - recvs_done_ < kReceives;
  }
  // The receive buffer to post.
  int PostReceive() { return recvs_posted_++ % kReceives; }

  // Own request k has completed.
  void OnCompleted(int k) {
    if (k != completed_++) Fail("completion out of order", k);
    if (OpOf(k) == Op::kRead) Check(kIn, k, k);
  }
  void OnReceived(uint32_t bytes, bool has_imm, uint32_t imm) {
    const int buffer = recvs_done_++ % kReceives;
    while (OpOf(expected_) == Op::kWrite || OpOf(expected_) == Op::kRead) {
      // A Write is there before anything that was sent after it.
      if (OpOf(expected_) == Op::kWrite) Check(kTarget, expected_, expected_);
      ++expected_;
    }
    const int k = expected_++;
    if (bytes != BytesOf(k)) Fail("wrong length", k);
    if (has_imm != (OpOf(k) == Op::kSendImm) || (has_imm && imm != static_cast<uint32_t>(k)))
      Fail("immediate", k);
    Check(kRecv, buffer, k);
  }

  bool done() const { return completed_ == kOperations && expected_ == kOperations; }
  int wrong() const { return wrong_; }
  void Fail(const char* what, int k) {
    ++wrong_;
    std::printf("side %d: %s at operation %d\n", side_, what, k);
  }

 private:
  void Check(Area area, int slot, int k) {
    for (uint32_t i = 0; i < BytesOf(k); ++i) {
      if (memory_[OffsetOf(area, slot) + i] != Pattern(1 - side_, k, i)) return Fail("wrong bytes", k);
    }
  }

  int side_;
  std::span<uint8_t> memory_;
  int posted_ = 0, completed_ = 0;
  int recvs_posted_ = 0, recvs_done_ = 0;
  int expected_ = 0;  // the other end's operation that shows next
  int wrong_ = 0;
};

}  // namespace epic::rxe_peer
