// Requests out.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/silence.h"
#include "roce/rnr_timer.h"
#include "roce/transport/queue_pair.h"

namespace epic::roce {
namespace {

// PSNs under way must stay far below half the number space, or they cannot be told apart (9.7.2).
constexpr int64_t kMaxPsnSpread = 1 << 22;

// Ethernet, IP, UDP, BTH and ICRC of a frame, for pacing.
constexpr int64_t kHeaderBytes = 58 + 20;

}  // namespace

PostResult QueuePair::CheckSend(const SendWr& wr, size_t ahead) const {
  if (state_ == QpState::kReset || state_ == QpState::kInit || state_ == QpState::kRtr)
    return PostResult::kBadState;
  if (tx_.sends.size() + ahead >= tx_.sends.capacity() || !HasRoom(ahead)) return PostResult::kFull;
  if (!IsWellFormed(wr, config_.max_inline_bytes) || wr.opcode > WrOpcode::kSendInv ||
      (IsReadOrAtomic(wr.opcode) && attr_.max_rd_atomic == 0) ||
      (IsAtomic(wr.opcode) && (wr.sges.bytes() < kAtomicBytes || wr.remote_address % kAtomicBytes != 0))) {
    return PostResult::kInvalid;
  }
  return PostResult::kOk;
}

PostResult QueuePair::PostSend(const SendWr& wr) {
  if (const PostResult result = CheckSend(wr); result != PostResult::kOk) return result;
  SendEntry& entry = TakePosted(wr, attr_.path_mtu, config_.max_inline_bytes, &tx_.inline_bytes, &tx_.sends);
  entry.first = tx_.posted;
  // What is local is no message: it has the number of the next one.
  entry.number = static_cast<int64_t>(tx_.posts) + 1;
  if (!IsLocal(wr.opcode)) ++tx_.posts;
  tx_.posted += entry.packets;
  if (state_ == QpState::kErr) FlushAll();
  return PostResult::kOk;
}

Packet QueuePair::MakePacket(Opcode opcode, Psn psn) const {
  Packet packet = PacketTo(attr_, config_.local_qpn);
  packet.bth.opcode = opcode;
  packet.bth.psn = psn;
  return packet;
}

void QueuePair::Emit(const Packet& packet, PacketSink& sink) {
  ++counters_.packets_sent;
  sink.Send(packet);
}

// Whether the responder has said that it has no receive for the message.
bool QueuePair::LacksCredit(const SendEntry& entry) const {
  const WrOpcode op = entry.opcode;
  return (op == WrOpcode::kSend || op == WrOpcode::kSendInv || HasImm(op)) &&
         entry.number > tx_.message_limit;
}

// Whether a request may go out now, pacing aside.
bool QueuePair::MaySend() const {
  if (state_ != QpState::kRts && state_ != QpState::kSqd) return false;
  if (tx_.cur >= tx_.sends.size() || tx_.rnr_until != kNever || tx_.stuck) return false;
  const SendEntry& entry = tx_.sends[tx_.cur];
  const bool starts = tx_.nxt == entry.first;
  if (state_ == QpState::kSqd && starts && tx_.nxt >= tx_.max) return false;
  if (IsLocal(entry.opcode)) return !entry.fence || tx_.cur == 0;
  if (tx_.nxt >= tx_.una + window_) return false;
  // Without credit one packet at a time: its acknowledgement brings credits, or an RNR NAK (9.7.7.2).
  if (LacksCredit(entry) && tx_.nxt != tx_.una) return false;
  if (starts && entry.fence && tx_.reads_in_flight > 0) return false;
  return !IsReadOrAtomic(entry.opcode) || MayRead(entry);
}

bool QueuePair::MayRead(const SendEntry& entry) const {
  return tx_.reads_in_flight < attr_.max_rd_atomic && tx_.reads_awaited < read_window_ &&
         (entry.first <= tx_.una || entry.first + entry.packets <= tx_.una + kMaxPsnSpread);
}

// False if memory refuses; else *sent is the payload's length.
bool QueuePair::EmitData(SendEntry& entry, Memory& memory, PacketSink& sink, uint32_t* sent) {
  std::array<uint8_t, kMaxPathMtu> scratch;
  Packet packet = MakePacket(Opcode::kRcSendOnly, SendPsn(tx_.nxt));
  const int64_t at = tx_.nxt - entry.first;
  if (!CutPacket(entry, at, attr_.path_mtu, tx_.inline_bytes, memory, scratch, &packet)) return false;
  const bool last = at == entry.packets - 1;
  // A window that was narrowed must not run empty before it is answered.
  const bool narrowed = window_ < config_.policy.max_outstanding;
  const int32_t every =
      std::min(config_.policy.ack_req_every, narrowed ? std::max(1, window_ * 2 / 3) : INT32_MAX);
  packet.bth.ack_req = last || LacksCredit(entry) || ++tx_.since_ack_req >= every;
  if (packet.bth.ack_req) tx_.since_ack_req = 0;
  Emit(packet, sink);
  ++tx_.nxt;
  *sent = static_cast<uint32_t>(packet.payload.size());
  return true;
}

// A repeated Read asks only for the responses that are missing: from nxt on.
void QueuePair::EmitRead(SendEntry& entry, PacketSink& sink) {
  const uint64_t begin = static_cast<uint64_t>(tx_.nxt - entry.first) * attr_.path_mtu;
  Packet packet = MakePacket(Opcode::kRcReadRequest, SendPsn(tx_.nxt));
  packet.reth = {entry.remote_address + begin, entry.rkey, static_cast<uint32_t>(entry.length - begin)};
  packet.bth.ack_req = true;  // as rdma_rxe has it; the responses are the acknowledgement
  Emit(packet, sink);
  entry.requested = true;
  ++tx_.reads_in_flight;
  const int64_t packets = entry.first + entry.packets - tx_.nxt;
  tx_.reads_awaited += packets;
  tx_.reads_asked += packets;
  tx_.nxt += packets;
}

// Sends one request packet, or does what is local, if it may. False if not.
bool QueuePair::EmitRequest(Nanos now, Memory& memory, PacketSink& sink) {
  if (!MaySend()) return false;
  SendEntry& entry = tx_.sends[tx_.cur];
  if (IsLocal(entry.opcode)) return DoLocal(memory);
  rate_.Advance(now, config_.policy.rate);
  if (now < rate_.next_send_at()) return false;
  const int64_t number = tx_.nxt;
  uint32_t bytes = 0;
  if (entry.opcode == WrOpcode::kRead) {
    EmitRead(entry, sink);
  } else if (IsAtomic(entry.opcode)) {
    EmitAtomic(entry, sink);
  } else if (!EmitData(entry, memory, sink, &bytes)) {
    tx_.stuck = true;
    if (tx_.cur == 0) FailSend(WcStatus::kLocProtErr);
    return false;
  }
  if (number < tx_.max) ++counters_.packets_repeated;
  rate_.OnSent(now, bytes + kHeaderBytes, config_.policy.rate);
  if (tx_.nxt == entry.first + entry.packets) NextEntry();
  tx_.max = std::max(tx_.max, tx_.nxt);
  const Nanos timeout = TimeoutNanos(attr_.timeout);
  if (tx_.timer_at == kNever && timeout != kNever) tx_.timer_at = now + timeout;
  return true;
}

// Binds or invalidates. As of a request that memory refuses, the error is told when all before it has
// completed.
bool QueuePair::DoLocal(Memory& memory) {
  SendEntry& entry = tx_.sends[tx_.cur];
  const bool binds = entry.opcode == WrOpcode::kBindMw;
  entry.done = binds ? memory.Bind(entry.bind) : memory.Invalidate(entry.invalidate_rkey);
  if (!entry.done) {
    tx_.stuck = true;
    if (tx_.cur == 0) FailSend(binds ? WcStatus::kMwBindErr : WcStatus::kLocQpOpErr);
    return false;
  }
  const bool oldest = tx_.cur == 0;
  NextEntry();
  if (oldest) CompleteFront();
  return true;
}

// To the next entry that has packets, or is still to be done: what is local is never repeated.
void QueuePair::NextEntry() {
  do {
    ++tx_.cur;
  } while (tx_.cur < tx_.sends.size() && tx_.sends[tx_.cur].done);
}

// Go-back-N: sending goes on from the oldest packet without acknowledgement.
void QueuePair::Rewind() {
  for (size_t i = 0; i <= tx_.cur && i < tx_.sends.size(); ++i) tx_.sends[i].requested = false;
  tx_.cur = 0;
  tx_.nxt = tx_.una;
  tx_.reads_in_flight = 0;
  tx_.reads_late += std::exchange(tx_.reads_awaited, 0);
  tx_.stuck = false;
}

// Begins a repetition, or fails the oldest request when the retries are used up (9.9.2.1.1).
void QueuePair::Retry() {
  if (tx_.retries_left == 0) return FailSend(WcStatus::kRetryExcErr);
  if (!(config_.policy.retry_7_is_forever && attr_.retry_cnt == 7)) --tx_.retries_left;
  Repeat();
}

void QueuePair::Repeat() {
  tx_.started_retry = true;
  tx_.waited_at = waited_;
  Rewind();
}

// Whether a time-out that is noticed so late proves nothing. How long who asks had waited when the first of
// several began is not known.
bool QueuePair::IsExcused(Nanos late) const {
  const Nanos timeout = TimeoutNanos(attr_.timeout);
  if (timeout == kNever || (tx_.excused + 1) * timeout > kLongestSilence) return false;
  return HasMostlyWaited(timeout + late, std::max(late, tx_.started_retry ? waited_ - tx_.waited_at : 0));
}

void QueuePair::OnRequesterTimers(Nanos now) {
  if (now >= tx_.rnr_until) {
    tx_.rnr_until = kNever;
    Rewind();
  }
  if (now >= tx_.timer_at) {
    ++counters_.timeouts;
    if (!IsExcused(now - std::exchange(tx_.timer_at, kNever))) return Retry();
    ++tx_.excused;
    Repeat();
  }
}

}  // namespace epic::roce
