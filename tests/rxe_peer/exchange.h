// What two ends of one connection do to each other at the same time, whichever verbs they have: a list of
// Sends, Sends with immediate, Writes, Reads, atomics on one number, and Writes by memory windows, each of
// which a Send then invalidates. Both know all lengths and bytes. Each end checks everything that arrives.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

namespace epic::rxe_peer {

inline constexpr int kOperations = 96;
inline constexpr uint32_t kMaxBytes = 20000;
inline constexpr uint32_t kSlot = 20480;  // room for one operation
inline constexpr int kReceives = 4;       // posted at a time
inline constexpr int kOutstanding = 12;   // requests of one end
// An end posts no receives before it has sent so many RNR NAKs: more than one, for a loss may take some.
inline constexpr uint64_t kRefusals = 4;

enum class Op { kSend, kSendImm, kWrite, kRead, kFetchAdd, kCompareSwap, kWindowWrite, kSendInv };
inline constexpr int kOps = 8;
inline Op OpOf(int k) { return k == kOperations - 1 ? Op::kSendImm : static_cast<Op>(k % kOps); }
inline bool IsWrite(Op op) { return op == Op::kWrite || op == Op::kWindowWrite; }
inline bool IsAtomic(Op op) { return op == Op::kFetchAdd || op == Op::kCompareSwap; }
// Its result comes here.
inline bool Brings(Op op) { return op == Op::kRead || IsAtomic(op); }
inline bool TakesReceive(Op op) { return op == Op::kSend || op == Op::kSendImm || op == Op::kSendInv; }
inline uint32_t BytesOf(int k) {
  return IsAtomic(OpOf(k)) ? 8 : 1 + static_cast<uint32_t>(k) * 2654435761u % kMaxBytes;
}
// A Write by a window and the Send that invalidates it follow each other. The window is the Write's target.
inline constexpr int kWindows = kOperations / kOps;
inline int WindowOf(int k) { return k / kOps; }
inline int WindowWriteOf(int window) { return window * kOps + static_cast<int>(Op::kWindowWrite); }

// Operands of atomic k: what is added; or what is stored, and what it must be in place of, which every second
// time it is not.
inline uint64_t OperandOf(int k) { return 0x0101010100000001u * static_cast<uint64_t>(k + 1); }
// What it finds, and so what the operations before it have left.
inline uint64_t FoundBy(int k) {
  uint64_t value = 0;
  for (int i = 0; i < k; ++i) {
    if (OpOf(i) == Op::kFetchAdd) value += OperandOf(i);
    if (OpOf(i) == Op::kCompareSwap && i / kOps % 2 == 0) value = OperandOf(i);
  }
  return value;
}
inline uint64_t ComparedBy(int k) { return FoundBy(k) + (k / kOps % 2 == 0 ? 0 : 1); }
inline uint8_t Pattern(int side, int k, uint32_t at) {
  return static_cast<uint8_t>(side * 101 + k * 31 + static_cast<int>(at * 7 + (at >> 8)));
}

// One piece of memory, registered as a whole and open to the other end: what it sends, writes and lets read
// (slot k of kOut), what Reads and atomics bring (kIn), what the other end writes (kTarget), receive buffers,
// and the number that the other end's atomics are on.
class Exchange {
 public:
  enum Area { kOut = 0, kIn = kOperations, kTarget = 2 * kOperations, kRecv = 3 * kOperations };
  static constexpr size_t kNumberAt = size_t{kSlot} * (3 * kOperations + kReceives);
  static constexpr size_t kBytes = kNumberAt + 8;
  using Windows = std::array<uint32_t, kWindows>;

  // windows: the keys of own ones.
  Exchange(int side, std::span<uint8_t> memory, const Windows& windows)
      : side_(side), memory_(memory), windows_(windows) {
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
    if (!IsAtomic(OpOf(k))) return;
    uint64_t found = 0;
    std::memcpy(&found, &memory_[OffsetOf(kIn, k)], sizeof found);
    if (found != FoundBy(k)) Fail("wrong number", k);
  }
  // invalidated: the key, of a Send that invalidates one.
  void OnReceived(uint32_t bytes, bool has_imm, uint32_t imm, uint32_t invalidated) {
    const int buffer = recvs_done_++ % kReceives;
    while (!TakesReceive(OpOf(expected_))) {
      // A Write is there before anything that was sent after it.
      if (IsWrite(OpOf(expected_))) Check(kTarget, expected_, expected_);
      ++expected_;
    }
    const int k = expected_++;
    if (bytes != BytesOf(k)) Fail("wrong length", k);
    if (has_imm != (OpOf(k) == Op::kSendImm) || (has_imm && imm != static_cast<uint32_t>(k)))
      Fail("immediate", k);
    if (OpOf(k) == Op::kSendInv && invalidated != windows_[static_cast<size_t>(WindowOf(k))])
      Fail("invalidated key", k);
    Check(kRecv, buffer, k);
  }

  bool done() const { return completed_ == kOperations && expected_ == kOperations; }
  // What all of the other end's atomics have left.
  void CheckNumber() {
    uint64_t number = 0;
    std::memcpy(&number, &memory_[kNumberAt], sizeof number);
    if (number != FoundBy(kOperations)) Fail("wrong number", kOperations);
  }
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
  Windows windows_;
  int posted_ = 0, completed_ = 0;
  int recvs_posted_ = 0, recvs_done_ = 0;
  int expected_ = 0;  // the other end's operation that shows next
  int wrong_ = 0;
};

}  // namespace epic::rxe_peer
