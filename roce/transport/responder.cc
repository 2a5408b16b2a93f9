// Requests in: order, access, memory.
#include <algorithm>
#include <cstring>

#include "roce/transport/queue_pair.h"

namespace epic::roce {
namespace {

bool IsSend(Opcode op) {
  return op <= Opcode::kRcSendOnlyImm || op == Opcode::kRcSendLastInv || op == Opcode::kRcSendOnlyInv;
}
bool IsWriteRequest(Opcode op) { return op >= Opcode::kRcWriteFirst && op <= Opcode::kRcWriteOnlyImm; }
bool IsAtomicRequest(Opcode op) { return op == Opcode::kRcCompareSwap || op == Opcode::kRcFetchAdd; }
bool IsRequest(Opcode op) { return op <= Opcode::kRcReadRequest || IsAtomicRequest(op) || IsSend(op); }
bool IsResponse(Opcode op) { return op >= Opcode::kRcReadResponseFirst && op <= Opcode::kRcAtomicAck; }

int32_t ReadPackets(uint32_t bytes, uint32_t mtu) {
  return std::max<int32_t>(1, static_cast<int32_t>((uint64_t{bytes} + mtu - 1) / mtu));
}

}  // namespace

PostResult QueuePair::PostRecv(const RecvWr& wr) {
  if (state_ == QpState::kReset) return PostResult::kBadState;
  if (config_.shared_receives || !IsWellFormed(wr)) return PostResult::kInvalid;
  if (rx_.recvs.full() || !HasRoom()) return PostResult::kFull;
  rx_.recvs.grow().Take(wr);
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
  // Those of other transports (UC, UD) are nothing to a reliable connection.
  if (!IsRequest(op) && !IsResponse(op)) return void(++counters_.bad_state);
  NoteCongestion(now, packet);
  if (IsRequest(op)) return OnRequest(now, packet, memory);
  if (state_ != QpState::kRtr) return OnResponse(now, packet, memory);
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
  const Opcode op = packet.bth.opcode;
  const Message kind = IsSend(op) ? Message::kSend : IsWriteRequest(op) ? Message::kWrite : Message::kNone;
  if (!InSequence(rx_.in, kind, op) || !LengthFits(packet, attr_.path_mtu))
    return RefuseRequest(kSyndromeNakInvalidRequest, WcStatus::kRemInvReqErr);
  Execute(now, packet, memory);
}

void QueuePair::Execute(Nanos now, const Packet& packet, Memory& memory) {
  const Opcode op = packet.bth.opcode;
  if (op == Opcode::kRcReadRequest) return ExecuteRead(packet, memory);
  if (IsAtomicRequest(op)) return ExecuteAtomic(packet, memory);
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
  const Placed placed = IsSend(op) ? PlaceSend(rx_.recvs.front().sges, packet, memory, &rx_.in)
                                   : PlaceWrite(packet, memory, &rx_.in);
  if (placed != Placed::kOk) return RefusePlaced(placed);
  const bool invalidated = !info.ieth || memory.Invalidate(packet.invalidate_rkey);
  rx_.epsn = rx_.epsn + 1;
  if (ends) {
    rx_.msn = (rx_.msn + 1) & Psn::kMask;
    rx_.in.message = Message::kNone;
    if (IsSend(op) && invalidated) CompleteRecv(packet, WcOpcode::kRecv, rx_.in.filled);
    if (IsWriteRequest(op) && info.imm)
      CompleteRecv(packet, WcOpcode::kRecvWriteImm, rx_.in.write.dma_length);
  }
  NoteTaken(now, packet, ends);
  if (invalidated) return;
  // The data is here, and as rdma_rxe has it that is acknowledged, now: in ERR none is held back any longer.
  // It is the receiver who learns of the error (9.9.3, class J).
  if (rx_.acks_held > 0) QueueAck();
  rx_.in.message = Message::kSend;
  EndRefused(kSyndromeNakInvalidRequest, WcStatus::kRemInvReqErr);
}

// Whether there is now a receive, from the shared receive queue.
bool QueuePair::TakeShared(Memory& memory) {
  if (!config_.shared_receives || !HasRoom()) return false;
  const std::optional<RecvWr> wr = memory.TakeSharedReceive();
  if (wr) rx_.recvs.grow().Take(*wr);
  return wr.has_value();
}

void QueuePair::RefusePlaced(Placed why) {
  switch (why) {
    case Placed::kTooLong:
      return RefuseRequest(kSyndromeNakInvalidRequest, WcStatus::kLocLenErr);
    case Placed::kOwnMemory:
      return RefuseRequest(kSyndromeNakRemoteOperational, WcStatus::kLocProtErr);
    case Placed::kNoAccess:
      return RefuseRequest(kSyndromeNakRemoteAccess, WcStatus::kRemAccessErr);
    case Placed::kInvalid:
    case Placed::kOk:
      return RefuseRequest(kSyndromeNakInvalidRequest, WcStatus::kRemInvReqErr);
  }
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
  const ReadRecord record{.first = rx_.epsn, .last = rx_.epsn + (packets - 1), .reth = reth, .original = 0};
  rx_.msn = (rx_.msn + 1) & Psn::kMask;
  if (!QueueRead(record, record.first, reth)) {
    rx_.msn = (rx_.msn - 1) & Psn::kMask;
    return;
  }
  NoteAnswered(record);
}

// A repetition: its effect has been had. A Send or Write is acknowledged again with the last PSN of its kind,
// as rdma_rxe's responder does: never with a later Read's, whose responses may be lost (queue_pair.h,
// ack_psn). A Read is executed again, from where the request says (9.7.5.1.5), an atomic never.
void QueuePair::OnDuplicate(const Packet& packet) {
  ++counters_.duplicates;
  if (IsAtomicRequest(packet.bth.opcode)) return RepeatAtomic(packet);
  if (packet.bth.opcode != Opcode::kRcReadRequest) return void(QueueAck());
  for (size_t i = rx_.reads.size(); i-- > 0;) {  // the newest of a PSN
    const ReadRecord& read = rx_.reads[i];
    const int32_t skipped = packet.bth.psn.DistanceFrom(read.first);
    if (read.opcode != packet.bth.opcode || skipped < 0 || read.last.DistanceFrom(packet.bth.psn) < 0)
      continue;
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
  completions_.push_back(ReceiveDone(rx_.recvs.front(), packet, opcode, bytes));
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
  const bool has_recv = rx_.in.message == Message::kSend || recv_status == WcStatus::kLocLenErr ||
                        recv_status == WcStatus::kLocProtErr;
  if (has_recv && !rx_.recvs.empty()) {
    completions_.push_back(
        {.wr_id = rx_.recvs.front().wr_id, .status = recv_status, .opcode = WcOpcode::kRecv});
    rx_.recvs.pop_front();
  }
  EnterError();
}

}  // namespace epic::roce
