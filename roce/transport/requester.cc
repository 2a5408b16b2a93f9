// Requests out.
#include <algorithm>
#include <array>
#include <cstring>

#include "roce/rnr_timer.h"
#include "roce/transport/queue_pair.h"

namespace epic::roce {
namespace {

// PSNs under way must stay far below half the number space, or they cannot be told apart (9.7.2).
constexpr int64_t kMaxPsnSpread = 1 << 22;

// Ethernet, IP, UDP, BTH and ICRC of a frame, for pacing.
constexpr int64_t kHeaderBytes = 58 + 20;

Opcode DataOpcode(WrOpcode op, bool first, bool last) {
  const bool imm = HasImm(op);
  if (IsWrite(op)) {
    if (first && last) return imm ? Opcode::kRcWriteOnlyImm : Opcode::kRcWriteOnly;
    if (first) return Opcode::kRcWriteFirst;
    return !last ? Opcode::kRcWriteMiddle : imm ? Opcode::kRcWriteLastImm : Opcode::kRcWriteLast;
  }
  if (first && last) return imm ? Opcode::kRcSendOnlyImm : Opcode::kRcSendOnly;
  if (first) return Opcode::kRcSendFirst;
  return !last ? Opcode::kRcSendMiddle : imm ? Opcode::kRcSendLastImm : Opcode::kRcSendLast;
}

}  // namespace

PostResult QueuePair::PostSend(const SendWr& wr) {
  if (state_ == QpState::kReset || state_ == QpState::kInit || state_ == QpState::kRtr)
    return PostResult::kBadState;
  if (tx_.sends.full() || !HasRoom()) return PostResult::kFull;
  const bool is_inline = !wr.inline_bytes.empty();
  const uint64_t length = is_inline ? wr.inline_bytes.size() : wr.sges.count <= kMaxSge ? wr.sges.bytes() : 0;
  if (wr.sges.count > kMaxSge || length > kMaxMessageBytes || wr.opcode > WrOpcode::kRead ||
      (is_inline && (length > config_.max_inline_bytes || wr.opcode == WrOpcode::kRead)) ||
      (wr.opcode == WrOpcode::kRead && attr_.max_rd_atomic == 0)) {
    return PostResult::kInvalid;
  }
  SendEntry entry;
  entry.wr = wr;
  entry.wr.inline_bytes = {};
  entry.length = static_cast<uint32_t>(length);
  entry.is_inline = is_inline;
  entry.first = tx_.posted;
  entry.packets = std::max<int64_t>(1, (static_cast<int64_t>(length) + attr_.path_mtu - 1) / attr_.path_mtu);
  if (is_inline) {
    // Entries leave in order: the one that used this slot before has left, or the queue would be full.
    entry.inline_at = static_cast<uint32_t>(tx_.posts % tx_.sends.capacity()) * config_.max_inline_bytes;
    std::ranges::copy(wr.inline_bytes, tx_.inline_bytes.begin() + entry.inline_at);
  }
  ++tx_.posts;
  entry.number = static_cast<int64_t>(tx_.posts);
  tx_.posted += entry.packets;
  tx_.sends.push_back(entry);
  if (state_ == QpState::kErr) FlushAll();
  return PostResult::kOk;
}

Packet QueuePair::MakePacket(Opcode opcode, Psn psn) const {
  Packet packet;
  packet.src_ip = attr_.local_ip;
  packet.dst_ip = attr_.remote_ip;
  // One port per queue pair, so that its packets stay on one path (annex A17.9.2).
  packet.udp_src_port = static_cast<uint16_t>(0xc000 | (Raw(config_.local_qpn) & 0x3fff));
  packet.tos = config_.policy.tos;
  packet.bth.opcode = opcode;
  packet.bth.dest_qp = attr_.remote_qpn;
  packet.bth.psn = psn;
  return packet;
}

void QueuePair::Emit(const Packet& packet, PacketSink& sink) {
  ++counters_.packets_sent;
  sink.Send(packet);
}

// Whether the responder has said that it has no receive for the message.
bool QueuePair::LacksCredit(const SendEntry& entry) const {
  const WrOpcode op = entry.wr.opcode;
  return (op == WrOpcode::kSend || HasImm(op)) && entry.number > tx_.message_limit;
}

// Whether a request may go out now, pacing aside.
bool QueuePair::MaySend() const {
  if (state_ != QpState::kRts && state_ != QpState::kSqd) return false;
  if (tx_.cur >= tx_.sends.size() || tx_.rnr_until != kNever || tx_.stuck) return false;
  const SendEntry& entry = tx_.sends[tx_.cur];
  const bool starts = tx_.nxt == entry.first;
  if (state_ == QpState::kSqd && starts && tx_.nxt >= tx_.max) return false;
  if (tx_.nxt >= tx_.una + window_) return false;
  // Without credit one packet at a time: its acknowledgement brings credits, or an RNR NAK (9.7.7.2).
  if (LacksCredit(entry) && tx_.nxt != tx_.una) return false;
  if (starts && entry.wr.fence && tx_.reads_in_flight > 0) return false;
  if (entry.wr.opcode != WrOpcode::kRead) return true;
  return tx_.reads_in_flight < attr_.max_rd_atomic &&
         (entry.first <= tx_.una || entry.first + entry.packets <= tx_.una + kMaxPsnSpread);
}

// False if memory refuses; else *sent is the payload's length.
bool QueuePair::EmitData(SendEntry& entry, Memory& memory, PacketSink& sink, uint32_t* sent) {
  const int64_t at = tx_.nxt - entry.first;
  const bool last = at == entry.packets - 1;
  const uint64_t begin = static_cast<uint64_t>(at) * attr_.path_mtu;
  const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(attr_.path_mtu, entry.length - begin));
  std::array<uint8_t, kMaxPathMtu> scratch;
  std::span<const uint8_t> payload;
  if (entry.is_inline) {
    payload = std::span(tx_.inline_bytes).subspan(entry.inline_at + begin, bytes);
  } else if (!Gather(entry.wr.sges, begin, bytes, memory, scratch, &payload)) {
    return false;
  }
  Packet packet = MakePacket(DataOpcode(entry.wr.opcode, at == 0, last), SendPsn(tx_.nxt));
  packet.payload = payload;
  packet.payload_stays = !entry.is_inline && payload.data() != scratch.data();
  // A window that was narrowed must not run empty before it is answered.
  const bool narrowed = window_ < config_.policy.max_outstanding;
  const int32_t every =
      std::min(config_.policy.ack_req_every, narrowed ? std::max(1, window_ * 2 / 3) : INT32_MAX);
  packet.bth.ack_req = last || LacksCredit(entry) || ++tx_.since_ack_req >= every;
  if (packet.bth.ack_req) tx_.since_ack_req = 0;
  const OpcodeInfo& info = Info(packet.bth.opcode);
  if (info.imm) packet.imm = entry.wr.imm;
  if (info.reth) packet.reth = {entry.wr.remote_address, entry.wr.rkey, entry.length};
  packet.bth.solicited = last && entry.wr.solicited && entry.wr.opcode != WrOpcode::kWrite;
  Emit(packet, sink);
  ++tx_.nxt;
  *sent = bytes;
  return true;
}

// A repeated Read asks only for the responses that are missing: from nxt on.
void QueuePair::EmitRead(SendEntry& entry, PacketSink& sink) {
  const uint64_t begin = static_cast<uint64_t>(tx_.nxt - entry.first) * attr_.path_mtu;
  Packet packet = MakePacket(Opcode::kRcReadRequest, SendPsn(tx_.nxt));
  packet.reth = {entry.wr.remote_address + begin, entry.wr.rkey, static_cast<uint32_t>(entry.length - begin)};
  packet.bth.ack_req = true;  // as rdma_rxe has it; the responses are the acknowledgement
  Emit(packet, sink);
  entry.requested = true;
  ++tx_.reads_in_flight;
  tx_.nxt = entry.first + entry.packets;
}

// Sends one request packet, if it may. False if not.
bool QueuePair::EmitRequest(Nanos now, Memory& memory, PacketSink& sink) {
  if (!MaySend()) return false;
  rate_.Advance(now, config_.policy.rate);
  if (now < rate_.next_send_at()) return false;
  SendEntry& entry = tx_.sends[tx_.cur];
  const int64_t number = tx_.nxt;
  uint32_t bytes = 0;
  if (entry.wr.opcode == WrOpcode::kRead) {
    EmitRead(entry, sink);
  } else if (!EmitData(entry, memory, sink, &bytes)) {
    tx_.stuck = true;
    if (tx_.cur == 0) FailSend(WcStatus::kLocProtErr);
    return false;
  }
  if (number < tx_.max) ++counters_.packets_repeated;
  rate_.OnSent(now, bytes + kHeaderBytes, config_.policy.rate);
  if (tx_.nxt == entry.first + entry.packets) ++tx_.cur;
  tx_.max = std::max(tx_.max, tx_.nxt);
  const Nanos timeout = TimeoutNanos(attr_.timeout);
  if (tx_.timer_at == kNever && timeout != kNever) tx_.timer_at = now + timeout;
  return true;
}

// Go-back-N: sending goes on from the oldest packet without acknowledgement.
void QueuePair::Rewind() {
  for (size_t i = 0; i <= tx_.cur && i < tx_.sends.size(); ++i) tx_.sends[i].requested = false;
  tx_.cur = 0;
  tx_.nxt = tx_.una;
  tx_.reads_in_flight = 0;
  tx_.stuck = false;
}

// Begins a repetition, or fails the oldest request when the retries are used up (9.9.2.1.1).
void QueuePair::Retry() {
  if (tx_.retries_left == 0) return FailSend(WcStatus::kRetryExcErr);
  if (!(config_.policy.retry_7_is_forever && attr_.retry_cnt == 7)) --tx_.retries_left;
  tx_.started_retry = true;
  Rewind();
}

void QueuePair::OnRequesterTimers(Nanos now) {
  if (now >= tx_.rnr_until) {
    tx_.rnr_until = kNever;
    Rewind();
  }
  if (now >= tx_.timer_at) {
    ++counters_.timeouts;
    tx_.timer_at = kNever;
    Retry();
  }
}

}  // namespace epic::roce
