// Responses out: acknowledgements, read responses, congestion notifications.
#include <algorithm>

#include "roce/transport/credits.h"
#include "roce/transport/queue_pair.h"

namespace epic::roce {

// Puts an acknowledgement or NAK in line; what waits is sent in order. False if there is no room, which a
// peer that keeps its limits does not bring about; then the request counts as lost.
bool QueuePair::QueueAeth(uint8_t syndrome, Psn psn) {
  // A later response acknowledges all before.
  rx_.acks_held = 0;
  rx_.ack_at = kNever;
  const bool held = config_.policy.hold_acks && IsAck(syndrome);
  const Response response{.syndrome = syndrome, .psn = psn, .msn = held ? rx_.ack_msn : rx_.msn};
  const bool replaces = IsAck(syndrome) && !rx_.responses.empty() &&
                        rx_.responses.back().kind == Answer::kAeth && IsAck(rx_.responses.back().syndrome);
  if (replaces) {
    rx_.responses.back() = response;
    return true;
  }
  // One place is kept for the NAK that comes before ERR.
  if (rx_.responses.size() + (IsNak(syndrome) ? 0 : 1) >= rx_.responses.capacity()) {
    ++counters_.no_room;
    return false;
  }
  rx_.responses.push_back(response);
  return true;
}

// Puts the responses to a Read in line, `part` of `whole`. False if there is no room.
bool QueuePair::QueueRead(const ReadRecord& whole, Psn from, const Reth& part) {
  for (size_t i = 0; i < rx_.responses.size(); ++i) {
    const Response& waiting = rx_.responses[i];
    // It has not got that far yet: the answer is coming.
    if (waiting.kind == Answer::kRead && waiting.first == whole.first && from.DistanceFrom(waiting.psn) >= 0)
      return true;
  }
  if (rx_.responses.size() + 1 >= rx_.responses.capacity()) {
    ++counters_.no_room;
    return false;
  }
  rx_.responses.push_back({.kind = Answer::kRead,
                           .psn = from,
                           .msn = rx_.msn,
                           .first = whole.first,
                           .last = whole.last,
                           .rkey = part.rkey,
                           .remaining = part.dma_length,
                           .address = part.virtual_address});
  return true;
}

// A Read or atomic was taken, and its answer is in line. That acknowledges all before; an answer to a
// repetition would not.
void QueuePair::NoteAnswered(const ReadRecord& record) {
  rx_.acks_held = 0;
  rx_.ack_at = kNever;
  // The requester keeps to max_dest_rd_atomic; of one that does not, the oldest is forgotten (as rdma_rxe).
  while (rx_.reads.size() >= attr_.max_dest_rd_atomic) rx_.reads.pop_front();
  rx_.reads.push_back(record);
  rx_.epsn = record.last + 1;
}

// The next packet of a Send or Write was taken.
void QueuePair::NoteTaken(Nanos now, const Packet& packet, bool ends) {
  if (config_.policy.hold_acks) {
    const bool due = rx_.ack_psn == rx_.epsn - 1;
    if (ends || !due || !config_.policy.within_messages) return;
  }
  rx_.ack_psn = rx_.epsn;
  if (packet.bth.ack_req) Acknowledge(now);
}

void QueuePair::Release(uint64_t messages, int64_t packets) {
  const Psn end = attr_.rq_psn + packets;
  if (end.DistanceFrom(rx_.ack_psn) <= 0) return;
  rx_.ack_psn = end;
  rx_.ack_msn = static_cast<uint32_t>(messages) & Psn::kMask;
  // What has come of the message behind it is due now as well.
  if (rx_.ack_msn == rx_.msn && config_.policy.within_messages) rx_.ack_psn = rx_.epsn;
  QueueAck();
}

void QueuePair::ShareAcks(int asked, Nanos delay) {
  config_.policy.ack_after = asked;
  config_.policy.ack_delay_ns = delay;
  if (rx_.acks_held >= asked) QueueAck();
}

// A packet that asked for an acknowledgement was taken.
void QueuePair::Acknowledge(Nanos now) {
  if (rx_.acks_held == 0) rx_.ack_at = now + config_.policy.ack_delay_ns;
  if (++rx_.acks_held >= config_.policy.ack_after) QueueAck();
}

// The region of the oldest response, a Read's, was deregistered since the request came. By specification a
// NAK takes the place of the response that is missing; here only of the first. In the middle of a Read
// rdma_rxe's check_ack() takes a NAK for its end, with the status success, and the rest of the buffer is as
// it was. So nothing more is sent, and the requester's retries run out.
void QueuePair::CutOffRead() {
  const Response read = rx_.responses.front();
  rx_.responses.clear();
  rx_.epsn = read.psn;
  if (read.psn == read.first) return RefuseRequest(kSyndromeNakRemoteAccess, WcStatus::kRemAccessErr);
  EndRefused(kSyndromeNakRemoteAccess, WcStatus::kRemAccessErr);
}

// Sends one packet of the oldest response.
void QueuePair::EmitResponse(Memory& memory, PacketSink& sink) {
  Response& response = rx_.responses.front();
  if (response.kind == Answer::kAtomic) return EmitAtomicResponse(response, sink);
  if (response.kind == Answer::kAeth) {
    Packet packet = MakePacket(Opcode::kRcAck, response.psn);
    packet.aeth = {.syndrome = response.syndrome, .msn = response.msn};
    if (config_.policy.give_credits && IsAck(response.syndrome)) {
      packet.aeth.syndrome = CreditCodeFor(rx_.recvs.size());
    }
    rx_.responses.pop_front();
    return Emit(packet, sink);
  }
  const uint32_t bytes = std::min(response.remaining, attr_.path_mtu);
  std::span<const uint8_t> payload;
  if (bytes > 0) {
    const auto source = memory.Map(Access::kRemoteRead, response.rkey, response.address, bytes);
    if (!source) return CutOffRead();
    payload = *source;
  }
  // By place in the whole Read, for rdma_rxe's sake: it takes a FIRST in the middle of a Read as an error. By
  // specification a repetition starts with FIRST or ONLY.
  const bool first = response.psn == response.first;
  const bool last = response.psn == response.last;
  const Opcode opcode = first && last ? Opcode::kRcReadResponseOnly
                        : first       ? Opcode::kRcReadResponseFirst
                        : last        ? Opcode::kRcReadResponseLast
                                      : Opcode::kRcReadResponseMiddle;
  Packet packet = MakePacket(opcode, response.psn);
  if (Info(opcode).aeth) packet.aeth = {.syndrome = kSyndromeAck, .msn = response.msn};
  packet.payload = payload;
  packet.payload_stays = true;
  response.psn = response.psn + 1;
  response.remaining -= bytes;
  response.address += bytes;
  if (last) rx_.responses.pop_front();
  Emit(packet, sink);
}

// A switch marked the packet (ECN: congestion experienced): the sender shall hear of it.
void QueuePair::NoteCongestion(Nanos now, const Packet& packet) {
  if ((packet.tos & 3) != 3 || rx_.cnp_due || now < rx_.cnp_allowed_at) return;
  rx_.cnp_due = true;
  rx_.cnp_allowed_at = now + config_.policy.cnp_interval_ns;
}

void QueuePair::Poll(Nanos now, Memory& memory, PacketSink& sink, int budget) {
  if (now >= rx_.ack_at) QueueAck();
  OnRequesterTimers(now);
  if (rx_.cnp_due && budget > 0) {
    rx_.cnp_due = false;
    ++counters_.cnps_sent;
    --budget;
    Emit(MakePacket(Opcode::kCnp, Psn(0)), sink);
  }
  while (budget > 0 && !rx_.responses.empty()) {
    EmitResponse(memory, sink);
    --budget;
  }
  while (budget > 0 && EmitRequest(now, memory, sink)) --budget;
}

Nanos QueuePair::next_deadline() const {
  if (rx_.cnp_due || !rx_.responses.empty()) return 0;
  const Nanos timers = std::min({rx_.ack_at, tx_.timer_at, tx_.rnr_until});
  return MaySend() ? std::min(timers, rate_.next_send_at()) : timers;
}

}  // namespace epic::roce
