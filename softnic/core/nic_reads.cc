// RDMA Reads, and atomics with them, of all queue pairs together. What a Read asks for comes all at once, as
// fast as the peer sends: so the requester asks for no more than its own port can take in.
//
// What a peer does not send must not keep the others' Reads back. So they are counted in rounds: while some
// wait and for a moment nothing came and none could be let on, or for longer in any case, what was asked for
// so far does not count any more. It may still come: for that the port has as many places again.
#include <algorithm>
#include <utility>

#include "softnic/core/nic.h"

namespace epic::softnic {
namespace {

// Each is counted when it is seen, the next one then begins: time in which nobody looked at the port, where
// the responses may lie, is one tick, however long it was.
constexpr Nanos kReadTick = kMillisecond;
// A peer that waits for a processor among others is silent for some milliseconds. Each round that is begun
// meanwhile puts another window in front of what it has to send, until requests time out in its queue.
constexpr int kIdleTicks = 16, kRoundTicks = 64;

}  // namespace

// No Read is begun while half as many packets of responses are awaited as the port has places for: the others
// are for one more Read and for what comes unasked. More than kMaxReadWindow at a time make nothing faster.
void Nic::SetPlaces(size_t places) {
  const size_t half = std::min<size_t>(places / 2, kMaxReadWindow);
  read_window_ = std::max<int64_t>(1, static_cast<int64_t>(half));
}

// Those that wait go first, each until the window is full or it has no more to ask for; who finds it full
// keeps its turn.
void Nic::LimitReads(uint32_t qpn, Qp& qp, roce::QueuePair& rc) {
  const bool turn = readers_.empty() || readers_.front() == qpn;
  const int64_t counted = ReadsCounted(qp);
  const int64_t room = read_window_ - (reads_awaited_ - counted);
  if (turn && room > counted && std::exchange(qp.waits_to_read, false)) {
    readers_.pop_front();
    idle_ticks_ = 0;
  }
  // What it has asked for in earlier rounds is nothing to this one.
  const int64_t earlier = std::max<int64_t>(0, rc.reads_awaited() - counted);
  rc.LimitReads(turn ? earlier + std::max<int64_t>(0, room) : 0);
}

// After anything that may have changed it. Responses come in the order in which they were asked for: what is
// awaited is what was asked for last.
void Nic::CountReads(uint32_t qpn, Qp& qp, const roce::QueuePair& rc) {
  const int64_t counted = ReadsCounted(qp);
  reads_awaited_ -= counted;
  if (std::exchange(qp.read_round, read_round_) != read_round_) qp.asked_before = qp.reads_asked;
  qp.reads_asked = rc.reads_asked();
  qp.reads_counted = std::min(rc.reads_awaited(), qp.reads_asked - qp.asked_before);
  reads_awaited_ += qp.reads_counted;
  if (qp.reads_counted < counted) idle_ticks_ = 0;
  if (rc.read_waits() && !std::exchange(qp.waits_to_read, true)) readers_.push_back(qpn);
  LetReadOn();
}

void Nic::ForgetReads(uint32_t qpn, Qp& qp) {
  reads_awaited_ -= ReadsCounted(qp);
  qp.reads_counted = qp.reads_asked = qp.asked_before = 0;
  if (std::exchange(qp.waits_to_read, false)) std::erase(readers_, qpn);
  LetReadOn();
}

// The next in turn, if there is room, is looked at with the next Run; what it leaves is the next one's.
void Nic::LetReadOn() {
  if (readers_.empty()) return;
  if (read_tick_at_ == kNever) {
    read_tick_at_ = now_ + kReadTick;
    idle_ticks_ = 0;
  }
  if (reads_awaited_ < read_window_) MarkDirty(readers_.front(), qps_.at(readers_.front()));
}

void Nic::OnReadTick() {
  read_tick_at_ = kNever;
  if (readers_.empty()) return;
  read_tick_at_ = now_ + kReadTick;
  ++idle_ticks_;
  ++round_ticks_;
  if (idle_ticks_ >= kIdleTicks || round_ticks_ >= kRoundTicks) {
    ++read_round_;
    reads_awaited_ = 0;
    idle_ticks_ = round_ticks_ = 0;
  }
  LetReadOn();
}

}  // namespace epic::softnic
