// Responses in: what they complete, and what they make the requester repeat.
#include <algorithm>

#include "roce/rnr_timer.h"
#include "roce/transport/credits.h"
#include "roce/transport/queue_pair.h"

namespace epic::roce {

void QueuePair::ResetRetries() {
  tx_.retries_left = attr_.retry_cnt;
  tx_.rnr_retries_left = attr_.rnr_retry;
  tx_.excused = 0;
  tx_.started_retry = false;
}

// The oldest request has ended well, and with it what was done locally behind it.
void QueuePair::CompleteFront() {
  do {
    const SendEntry& entry = tx_.sends.front();
    if (entry.signaled) {
      completions_.push_back({.wr_id = entry.wr_id, .opcode = DoneAs(entry.opcode), .bytes = entry.length});
    }
    if (entry.requested) --tx_.reads_in_flight;
    tx_.sends.pop_front();
    if (tx_.cur > 0) --tx_.cur;
  } while (!tx_.sends.empty() && tx_.sends.front().done);
  // A request that memory refused behind others may be the oldest now: the next attempt settles it.
  if (tx_.cur == 0) tx_.stuck = false;
}

// Takes packets up to and with `acked` as acknowledged; acked < max. Stops at a Read or atomic whose data has
// not come, then false.
bool QueuePair::CompleteThrough(Nanos now, int64_t acked) {
  if (acked < tx_.una) return true;
  bool reached = true;
  const int64_t before = tx_.una;
  while (tx_.una <= acked) {
    const SendEntry& front = tx_.sends.front();
    const int64_t end = front.first + front.packets;
    if (IsReadOrAtomic(front.opcode)) {
      reached = false;
      break;
    }
    tx_.una = std::min(end, acked + 1);
    if (tx_.una == end) CompleteFront();
  }
  tx_.nxt = std::max(tx_.nxt, tx_.una);
  if (tx_.una != before) {
    const Nanos timeout = TimeoutNanos(attr_.timeout);
    const bool runs = tx_.una < tx_.nxt && tx_.rnr_until == kNever && timeout != kNever;
    tx_.timer_at = runs ? now + timeout : kNever;
  }
  return reached;
}

// A later acknowledgement says that responses to a Read or atomic got lost: "implied NAK" (9.7.5.2.4). One
// repetition until something comes.
void QueuePair::OnMissingReadResponse() {
  ++counters_.read_gaps;
  if (!tx_.started_retry) Retry();
}

// An acknowledgement of the last packet that was acknowledged may do nothing but bring credits. Those that
// were given stay: an older count, which comes late, takes none back.
void QueuePair::TakeCredits(const Aeth& aeth, int64_t named) {
  if (named < tx_.una - 1 || named >= tx_.max) return;
  const auto code = static_cast<uint8_t>(aeth.syndrome & 0x1f);
  if (code == kNoCreditCount) {
    tx_.message_limit = kNoLimit;
    return;
  }
  const int64_t completed =
      tx_.sends.empty() ? static_cast<int64_t>(tx_.posts) : tx_.sends.front().number - 1;
  // The MSN has 24 bits, as near to what has completed as they allow.
  const int64_t msn =
      completed + static_cast<int32_t>((aeth.msn - static_cast<uint32_t>(completed)) << 8) / 256;
  const int64_t limit = msn + CreditsOf(code);
  if (tx_.message_limit == kNoLimit || limit > tx_.message_limit) tx_.message_limit = limit;
}

void QueuePair::OnAck(Nanos now, int64_t named) {
  if (named < tx_.una) return void(++counters_.stale);
  if (named >= tx_.max) return void(++counters_.ack_beyond);
  const int64_t before = tx_.una;
  const bool reached = CompleteThrough(now, named);
  if (tx_.una != before) ResetRetries();
  if (!reached) OnMissingReadResponse();
}

// Any NAK acknowledges everything before the PSN it names (9.7.5.2.1).
void QueuePair::OnNak(Nanos now, uint8_t syndrome, int64_t named) {
  if (named < tx_.una || tx_.una == tx_.max) return void(++counters_.stale);
  if (named > tx_.max) return void(++counters_.ack_beyond);
  const int64_t before = tx_.una;
  const size_t pending = tx_.sends.size();
  const bool reached = CompleteThrough(now, named - 1);
  const bool rxe = config_.policy.one_retry_per_ack;
  if (rxe ? tx_.sends.size() != pending : tx_.una != before) ResetRetries();
  if (!reached) return OnMissingReadResponse();
  if (tx_.una == tx_.max) return;
  if (IsRnrNak(syndrome)) {
    ++counters_.rnr_naks_received;
    if (tx_.rnr_retries_left == 0) return FailSend(WcStatus::kRnrRetryExcErr);
    if (attr_.rnr_retry != 7) --tx_.rnr_retries_left;
    // The peer answers: it is not lost, and has retries of its own kind. rdma_rxe sends a sequence NAK behind
    // each RNR NAK; those that come after the wait would use up the others.
    tx_.retries_left = attr_.retry_cnt;
    tx_.excused = 0;
    tx_.rnr_until = now + RnrTimerNanos(syndrome & 0x1f);
    tx_.timer_at = kNever;
    return;
  }
  ++counters_.naks_received;
  switch (syndrome) {
    case kSyndromeNakSequence:
      // While an RNR NAK makes us wait, the repetition is coming anyway.
      if (tx_.rnr_until == kNever && !(rxe && tx_.started_retry)) Retry();
      return;
    case kSyndromeNakInvalidRequest:
      return FailSend(WcStatus::kRemInvReqErr);
    case kSyndromeNakRemoteAccess:
      return FailSend(WcStatus::kRemAccessErr);
    default:
      return FailSend(WcStatus::kRemOpErr);
  }
}

// The peer answers what was asked for before the last repetition, and that comes behind it: the time-out
// begins anew. Else a Read whose rest takes longer than all retries would fail for one loss. It ends, since
// only so much was asked for: a peer that says the same for ever is not waited for any longer than that.
void QueuePair::NoteLate(Nanos now) {
  if (tx_.reads_late == 0) return;
  --tx_.reads_late;
  if (tx_.timer_at != kNever) tx_.timer_at = now + TimeoutNanos(attr_.timeout);
}

// A response with data to packet `named` acknowledges all that is before it. False if there is no more to do.
bool QueuePair::TakeBefore(Nanos now, int64_t named) {
  if (named >= tx_.max) {
    ++counters_.ack_beyond;
    return false;
  }
  if (named < tx_.una) {
    ++counters_.stale;
    NoteLate(now);
    return false;
  }
  const int64_t before = tx_.una;
  const bool reached = CompleteThrough(now, named - 1);
  if (tx_.una != before) ResetRetries();
  if (reached) return true;
  NoteLate(now);
  OnMissingReadResponse();
  return false;
}

// The oldest request has had its response to packet `named`.
void QueuePair::TakeResponse(Nanos now, int64_t named) {
  const SendEntry& entry = tx_.sends.front();
  const int64_t end = entry.first + entry.packets;
  if (entry.requested) --tx_.reads_awaited;
  tx_.una = named + 1;
  tx_.nxt = std::max(tx_.nxt, tx_.una);
  ResetRetries();
  if (tx_.una == end) CompleteFront();
  const Nanos timeout = TimeoutNanos(attr_.timeout);
  tx_.timer_at = tx_.una < tx_.nxt && timeout != kNever ? now + timeout : kNever;
}

void QueuePair::OnReadResponse(Nanos now, const Packet& packet, int64_t named, Memory& memory) {
  if (!TakeBefore(now, named)) return;
  const SendEntry& entry = tx_.sends.front();
  if (entry.opcode != WrOpcode::kRead) return void(++counters_.bad_response);
  const OpcodeInfo& info = Info(packet.bth.opcode);
  if (info.aeth && !IsAck(packet.aeth.syndrome)) return void(++counters_.bad_response);
  // A repeated Read is answered from FIRST or ONLY on by specification, from MIDDLE or LAST on by rdma_rxe:
  // what counts is whether the data ends here.
  const uint64_t begin = static_cast<uint64_t>(named - entry.first) * attr_.path_mtu;
  const uint64_t want = std::min<uint64_t>(attr_.path_mtu, entry.length - begin);
  const bool ends = info.last || info.only;
  if (packet.payload.size() != want || ends != (named == entry.first + entry.packets - 1))
    return FailSend(WcStatus::kBadRespErr);
  if (!packet.payload.empty() && !Scatter(entry.sges, begin, packet.payload, memory))
    return FailSend(WcStatus::kLocProtErr);
  TakeResponse(now, named);
}

void QueuePair::OnResponse(Nanos now, const Packet& packet, Memory& memory) {
  const int64_t named = tx_.una + packet.bth.psn.DistanceFrom(SendPsn(tx_.una));
  if (Info(packet.bth.opcode).aeth && IsAck(packet.aeth.syndrome)) TakeCredits(packet.aeth, named);
  if (packet.bth.opcode == Opcode::kRcAtomicAck) return OnAtomicResponse(now, packet, named, memory);
  if (packet.bth.opcode != Opcode::kRcAck) return OnReadResponse(now, packet, named, memory);
  if (IsAck(packet.aeth.syndrome)) return OnAck(now, named);
  if (IsNak(packet.aeth.syndrome) || IsRnrNak(packet.aeth.syndrome))
    return OnNak(now, packet.aeth.syndrome, named);
  ++counters_.bad_response;
}

}  // namespace epic::roce
