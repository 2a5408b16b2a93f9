// Requests in: order, access, memory.
#include <algorithm>
#include <cstring>

#include "roce/transport/queue_pair.h"

namespace epic::roce {
namespace {

bool IsSend(Opcode op) { return op <= Opcode::kRcSendOnlyImm; }
bool IsWriteRequest(Opcode op) { return op >= Opcode::kRcWriteFirst && op <= Opcode::kRcWriteOnlyImm; }
bool IsRequest(Opcode op) { return op <= Opcode::kRcReadRequest; }
bool IsResponse(Opcode op) { return op >= Opcode::kRcReadResponseFirst && op <= Opcode::kRcAck; }

int32_t ReadPackets(uint32_t bytes, uint32_t mtu) {
  return std::max<int32_t>(1, static_cast<int32_t>((uint64_t{bytes} + mtu - 1) / mtu));
}

}  // namespace

PostResult QueuePair::PostRecv(const RecvWr& wr) {
  if (state_ == QpState::kReset) return PostResult::kBadState;
  if (config_.shared_receives || wr.sges.count > kMaxSge || wr.sges.bytes() > UINT32_MAX)
    return PostResult::kInvalid;
  if (rx_.recvs.full() || !HasRoom()) return PostResult::kFull;
  rx_.recvs.push_back(wr);
  if (state_ == QpState::kErr) FlushAll();
  return PostResult::kOk;
}

void QueuePair::OnPacket(Nanos now, const Packet& packet, Memory& memory) {
  // rdma_rxe drops silently what is not from its peer; any source port and any MigReq is taken.
  if (packet.src_ip != attr_.remote_ip || packet.dst_ip != attr_.local_ip ||
      packet.bth.dest_qp != config_.local_qpn || (packet.bth.pkey & 0x7fff) != 0x7fff) {
    return void(++counters_.not_ours);
  }
  if (!Receives()) return void(++counters_.bad_state);
  const Opcode op = packet.bth.opcode;
  if (op == Opcode::kCnp) {
    ++counters_.cnps_received;
    return rate_.OnCnp(now, config_.policy.rate);
  }
  NoteCongestion(now, packet);
  if (IsRequest(op)) return OnRequest(now, packet, memory);
  if (IsResponse(op) && state_ != QpState::kRtr) return OnResponse(now, packet, memory);
  ++counters_.bad_state;
}

void QueuePair::OnRequest(Nanos now, const Packet& packet, Memory& memory) {
  const int32_t distance = packet.bth.psn.DistanceFrom(rx_.epsn);
  if (distance < 0) return OnDuplicate(packet);
  if (distance > 0) {
    ++counters_.out_of_sequence;
    // Once per gap (9.7.5.2.8), and not after an RNR NAK, which asks for the same PSN.
    if (!rx_.nak_sent && QueueAeth(kSyndromeNakSequence, rx_.epsn)) {
      rx_.nak_sent = true;
      ++counters_.naks_sent;
    }
    return;
  }
  rx_.nak_sent = false;
  if (!InSequence(packet) || !LengthFits(packet))
    return RefuseRequest(kSyndromeNakInvalidRequest, WcStatus::kRemInvReqErr);
  Execute(now, packet, memory);
}

// Whether the opcode may follow what came before (table 46).
bool QueuePair::InSequence(const Packet& packet) const {
  const OpcodeInfo& info = Info(packet.bth.opcode);
  const bool starts = info.first || info.only;
  switch (rx_.message) {
    case Message::kNone:
      return starts;
    case Message::kSend:
      return !starts && IsSend(packet.bth.opcode);
    case Message::kWrite:
      return !starts && IsWriteRequest(packet.bth.opcode);
  }
  return false;
}

// FIRST and MIDDLE are full, LAST is not empty (9.7.4.1.6).
bool QueuePair::LengthFits(const Packet& packet) const {
  const OpcodeInfo& info = Info(packet.bth.opcode);
  if (info.only) return packet.payload.size() <= attr_.path_mtu;
  if (info.last) return !packet.payload.empty() && packet.payload.size() <= attr_.path_mtu;
  return packet.payload.size() == attr_.path_mtu;
}

void QueuePair::Execute(Nanos now, const Packet& packet, Memory& memory) {
  const Opcode op = packet.bth.opcode;
  if (op == Opcode::kRcReadRequest) return ExecuteRead(packet, memory);
  const OpcodeInfo& info = Info(op);
  const bool ends = info.last || info.only;
  const bool consumes_recv = IsSend(op) || info.imm;
  if (IsWriteRequest(op) && !attr_.remote_write)
    return RefuseRequest(kSyndromeNakInvalidRequest, WcStatus::kRemInvReqErr);
  if (consumes_recv && rx_.recvs.empty() && !TakeShared(memory)) {
    const auto syndrome = static_cast<uint8_t>(kSyndromeRnrNak | (attr_.min_rnr_timer & 0x1f));
    if (QueueAeth(syndrome, rx_.epsn)) {
      rx_.nak_sent = true;
      ++counters_.rnr_naks_sent;
    }
    return;
  }
  if (IsSend(op) ? !ExecuteSend(packet, memory) : !ExecuteWrite(packet, memory)) return;
  rx_.epsn = rx_.epsn + 1;
  if (ends) {
    rx_.msn = (rx_.msn + 1) & Psn::kMask;
    rx_.message = Message::kNone;
    if (IsSend(op)) CompleteRecv(packet, WcOpcode::kRecv, rx_.filled);
    if (IsWriteRequest(op) && info.imm) CompleteRecv(packet, WcOpcode::kRecvWriteImm, rx_.write.dma_length);
  }
  NoteTaken(now, packet, ends);
}

// Whether there is now a receive, from the shared receive queue.
bool QueuePair::TakeShared(Memory& memory) {
  if (!config_.shared_receives || !HasRoom()) return false;
  const std::optional<RecvWr> wr = memory.TakeSharedReceive();
  if (wr) rx_.recvs.push_back(*wr);
  return wr.has_value();
}

bool QueuePair::ExecuteSend(const Packet& packet, Memory& memory) {
  if (rx_.message == Message::kNone) rx_.filled = 0;
  const SgeList& buffer = rx_.recvs.front().sges;
  if (rx_.filled + packet.payload.size() > buffer.bytes()) {
    RefuseRequest(kSyndromeNakInvalidRequest, WcStatus::kLocLenErr);
    return false;
  }
  if (!packet.payload.empty() && !Scatter(buffer, rx_.filled, packet.payload, memory)) {
    RefuseRequest(kSyndromeNakRemoteOperational, WcStatus::kLocProtErr);
    return false;
  }
  rx_.filled += static_cast<uint32_t>(packet.payload.size());
  rx_.message = Message::kSend;
  return true;
}

bool QueuePair::ExecuteWrite(const Packet& packet, Memory& memory) {
  const OpcodeInfo& info = Info(packet.bth.opcode);
  const auto bytes = static_cast<uint32_t>(packet.payload.size());
  if (info.reth) {
    // The key is checked for the whole message before its first byte is written (9.7.4.1.5), and again for
    // each packet, because it may be taken back meanwhile.
    const Reth& reth = packet.reth;
    if (reth.dma_length > kMaxMessageBytes || (info.first && reth.dma_length <= bytes)) {
      RefuseRequest(kSyndromeNakInvalidRequest, WcStatus::kRemInvReqErr);
      return false;
    }
    if (reth.dma_length != 0 &&
        !memory.Map(Access::kRemoteWrite, reth.rkey, reth.virtual_address, reth.dma_length)) {
      RefuseRequest(kSyndromeNakRemoteAccess, WcStatus::kRemAccessErr);
      return false;
    }
    rx_.write = reth;
    rx_.filled = 0;
  }
  const uint64_t after = uint64_t{rx_.filled} + bytes;
  const bool ends = info.last || info.only;
  if (ends ? after != rx_.write.dma_length : after >= rx_.write.dma_length) {
    RefuseRequest(kSyndromeNakInvalidRequest, WcStatus::kRemInvReqErr);
    return false;
  }
  if (bytes > 0) {
    const auto target =
        memory.Map(Access::kRemoteWrite, rx_.write.rkey, rx_.write.virtual_address + rx_.filled, bytes);
    if (!target) {
      RefuseRequest(kSyndromeNakRemoteAccess, WcStatus::kRemAccessErr);
      return false;
    }
    std::ranges::copy(packet.payload, target->begin());
  }
  rx_.filled += bytes;
  rx_.message = Message::kWrite;
  return true;
}

void QueuePair::ExecuteRead(const Packet& packet, Memory& memory) {
  const Reth& reth = packet.reth;
  if (!attr_.remote_read || attr_.max_dest_rd_atomic == 0 || reth.dma_length > kMaxMessageBytes)
    return RefuseRequest(kSyndromeNakInvalidRequest, WcStatus::kRemInvReqErr);
  if (reth.dma_length != 0 &&
      !memory.Map(Access::kRemoteRead, reth.rkey, reth.virtual_address, reth.dma_length)) {
    return RefuseRequest(kSyndromeNakRemoteAccess, WcStatus::kRemAccessErr);
  }
  const int32_t packets = ReadPackets(reth.dma_length, attr_.path_mtu);
  const ReadRecord record{.first = rx_.epsn, .last = rx_.epsn + (packets - 1), .reth = reth};
  rx_.msn = (rx_.msn + 1) & Psn::kMask;
  if (!QueueRead(record, record.first, reth)) {
    rx_.msn = (rx_.msn - 1) & Psn::kMask;
    return;
  }
  // The responses acknowledge all before; those to a repetition would not.
  rx_.acks_held = 0;
  rx_.ack_at = kNever;
  // The requester keeps to max_dest_rd_atomic; of one that does not, the oldest is forgotten (as rdma_rxe).
  while (rx_.reads.size() >= attr_.max_dest_rd_atomic) rx_.reads.pop_front();
  rx_.reads.push_back(record);
  rx_.epsn = rx_.epsn + packets;
}

// A repetition: its effect has been had. A Send or Write is acknowledged again with the last PSN of its kind,
// as rdma_rxe's responder does: never with a later Read's, whose responses may be lost (queue_pair.h,
// ack_psn). A Read is executed again, from where the request says (9.7.5.1.5).
void QueuePair::OnDuplicate(const Packet& packet) {
  ++counters_.duplicates;
  if (packet.bth.opcode != Opcode::kRcReadRequest) return void(QueueAck());
  for (size_t i = 0; i < rx_.reads.size(); ++i) {
    const ReadRecord& read = rx_.reads[i];
    const int32_t skipped = packet.bth.psn.DistanceFrom(read.first);
    if (skipped < 0 || read.last.DistanceFrom(packet.bth.psn) < 0) continue;
    const uint64_t offset = uint64_t{static_cast<uint32_t>(skipped)} * attr_.path_mtu;
    const Reth& reth = packet.reth;
    if (reth.rkey != read.reth.rkey || reth.virtual_address != read.reth.virtual_address + offset ||
        reth.dma_length + offset != read.reth.dma_length) {
      return void(++counters_.bad_duplicate);
    }
    QueueRead(read, packet.bth.psn, reth);
    return;
  }
  ++counters_.bad_duplicate;
}

void QueuePair::CompleteRecv(const Packet& packet, WcOpcode opcode, uint32_t bytes) {
  Completion completion{.wr_id = rx_.recvs.front().wr_id, .opcode = opcode, .bytes = bytes};
  completion.has_imm = Info(packet.bth.opcode).imm;
  completion.imm = completion.has_imm ? packet.imm : 0;
  completion.solicited = packet.bth.solicited;
  completions_.push_back(completion);
  rx_.recvs.pop_front();
}

// A fatal error of the peer's request (9.9.3, class A and C): NAK, an error completion for the receive that
// the message has or would have used, then the ERR state.
void QueuePair::RefuseRequest(uint8_t nak_syndrome, WcStatus recv_status) {
  if (QueueAeth(nak_syndrome, rx_.epsn)) ++counters_.naks_sent;
  EndRefused(nak_syndrome, recv_status);
}

void QueuePair::EndRefused(uint8_t nak_syndrome, WcStatus recv_status) {
  rx_.refused_with = nak_syndrome;
  const bool has_recv = rx_.message == Message::kSend || recv_status == WcStatus::kLocLenErr ||
                        recv_status == WcStatus::kLocProtErr;
  if (has_recv && !rx_.recvs.empty()) {
    completions_.push_back(
        {.wr_id = rx_.recvs.front().wr_id, .status = recv_status, .opcode = WcOpcode::kRecv});
    rx_.recvs.pop_front();
  }
  EnterError();
}

}  // namespace epic::roce
