// RDMA Reads, and atomics with them, of all queue pairs together. What a Read asks for comes all at once, as
// fast as the peer sends: so the requester asks for no more than its own port can take in.
#include <algorithm>
#include <utility>

#include "softnic/core/nic.h"

namespace epic::softnic {

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
  const int64_t room = read_window_ - (reads_awaited_ - qp.reads_awaited);
  if (turn && room > qp.reads_awaited && std::exchange(qp.waits_to_read, false)) readers_.pop_front();
  rc.LimitReads(turn ? std::max<int64_t>(0, room) : 0);
}

// After anything that may have changed it.
void Nic::CountReads(uint32_t qpn, Qp& qp, const roce::QueuePair& rc) {
  reads_awaited_ += rc.reads_awaited() - std::exchange(qp.reads_awaited, rc.reads_awaited());
  if (rc.read_waits() && !std::exchange(qp.waits_to_read, true)) readers_.push_back(qpn);
  LetReadOn();
}

void Nic::ForgetReads(uint32_t qpn, Qp& qp) {
  reads_awaited_ -= std::exchange(qp.reads_awaited, 0);
  if (std::exchange(qp.waits_to_read, false)) std::erase(readers_, qpn);
  LetReadOn();
}

// The next in turn, if there is room, is looked at with the next Run; what it leaves is the next one's.
void Nic::LetReadOn() {
  if (readers_.empty() || reads_awaited_ >= read_window_) return;
  MarkDirty(readers_.front(), qps_.at(readers_.front()));
}

}  // namespace epic::softnic
