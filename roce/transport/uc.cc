#include "roce/transport/uc.h"

#include <array>

namespace epic::roce {
namespace {

bool HasRtrAttributes(const QpChange& c) { return c.remote_ip && c.remote_qpn && c.path_mtu && c.rq_psn; }

bool IsOfReliableOnly(const QpChange& c) {
  return c.max_dest_rd_atomic || c.min_rnr_timer || c.timeout || c.retry_cnt || c.rnr_retry ||
         c.max_rd_atomic;
}

// With a shared receive queue, the receive of the message that is arriving is all that the queue pair holds.
UcConfig Normal(UcConfig config) {
  if (config.shared_receives) config.recv_depth = 1;
  return config;
}

}  // namespace

UcQueuePair::UcQueuePair(const UcConfig& config)
    : config_(Normal(config)),
      sends_(config.send_depth),
      inline_bytes_(size_t{config.send_depth} * config.max_inline_bytes),
      recvs_(config_.recv_depth),
      completions_(size_t{config.send_depth} + config_.recv_depth) {
  attr_.local_ip = config.local_ip;
}

ModifyResult UcQueuePair::Modify(const QpChange& c) {
  const QpState to = c.state.value_or(state_);
  if (c.state && !IsTransition(state_, to)) return ModifyResult::kBadTransition;
  if (IsOfReliableOnly(c)) return ModifyResult::kAttributeNotNow;
  if (!InRange(c, 0)) return ModifyResult::kBadAttribute;
  const bool to_rtr = state_ == QpState::kInit && to == QpState::kRtr;
  const bool to_rts = state_ == QpState::kRtr && to == QpState::kRts;
  if ((to_rtr && !HasRtrAttributes(c)) || (to_rts && !c.sq_psn)) return ModifyResult::kMissingAttribute;
  // The addresses may be set again in SQD.
  const bool in_sqd = state_ == QpState::kSqd && to == QpState::kSqd;
  if (((c.remote_qpn || c.path_mtu || c.rq_psn) && !to_rtr) || (c.sq_psn && !to_rts) ||
      ((c.remote_ip || c.local_ip || c.traffic_class) && !to_rtr && !in_sqd))
    return ModifyResult::kAttributeNotNow;
  if (!IsOneVersion(c, attr_)) return ModifyResult::kBadAttribute;
  if ((to == QpState::kReset || to == QpState::kErr) && (c.remote_read || c.remote_write))
    return ModifyResult::kAttributeNotNow;
  TakeAttributes(c, &attr_);
  if (!c.state) return ModifyResult::kOk;
  if (to == QpState::kReset) {
    *this = UcQueuePair(config_);
    return ModifyResult::kOk;
  }
  if (to_rts) psn_ = attr_.sq_psn;
  state_ = to;
  if (to == QpState::kErr) EnterError();
  return ModifyResult::kOk;
}

bool UcQueuePair::Receives() const {
  return state_ != QpState::kReset && state_ != QpState::kInit && state_ != QpState::kErr;
}

// Every request that is posted has a place for its completion.
bool UcQueuePair::HasRoom(size_t ahead) const {
  return sends_.size() + recvs_.size() + completions_.size() + ahead < completions_.capacity();
}

PostResult UcQueuePair::CheckSend(const SendWr& wr, size_t ahead) const {
  if (state_ == QpState::kReset || state_ == QpState::kInit || state_ == QpState::kRtr)
    return PostResult::kBadState;
  if (sends_.size() + ahead >= sends_.capacity() || !HasRoom(ahead)) return PostResult::kFull;
  const bool known = wr.opcode < WrOpcode::kRead || IsLocal(wr.opcode);
  return known && IsWellFormed(wr, config_.max_inline_bytes) ? PostResult::kOk : PostResult::kInvalid;
}

PostResult UcQueuePair::PostSend(const SendWr& wr) {
  if (const PostResult result = CheckSend(wr); result != PostResult::kOk) return result;
  TakePosted(wr, attr_.path_mtu, config_.max_inline_bytes, &inline_bytes_, &sends_);
  if (state_ == QpState::kErr || state_ == QpState::kSqe) FlushSends(&sends_, &completions_);
  return PostResult::kOk;
}

PostResult UcQueuePair::PostRecv(const RecvWr& wr) {
  if (state_ == QpState::kReset) return PostResult::kBadState;
  if (config_.shared_receives || !IsWellFormed(wr)) return PostResult::kInvalid;
  if (recvs_.full() || !HasRoom()) return PostResult::kFull;
  recvs_.grow().Take(wr);
  if (state_ == QpState::kErr) FlushRecvs(&recvs_, &completions_);
  return PostResult::kOk;
}

bool UcQueuePair::IsForUs(const Packet& packet) const {
  return packet.src_ip == attr_.remote_ip && packet.dst_ip == attr_.local_ip &&
         packet.bth.dest_qp == config_.local_qpn && (packet.bth.pkey & 0x7fff) == 0x7fff &&
         IsUc(packet.bth.opcode);
}

void UcQueuePair::OnPacket(const Packet& packet, Memory& memory) {
  if (!IsForUs(packet)) return void(++counters_.not_ours);
  if (!Receives()) return void(++counters_.bad_state);
  const OpcodeInfo& info = Info(packet.bth.opcode);
  const bool starts = info.first || info.only;
  // A message may begin at any PSN, and ends the one in hand; what belongs to none is dropped (9.8.2.2).
  if (starts || packet.bth.psn != epsn_) GiveUp();
  const Opcode op = RcOf(packet.bth.opcode);
  const Message kind = op >= Opcode::kRcWriteFirst ? Message::kWrite : Message::kSend;
  if (!InSequence(in_, kind, packet.bth.opcode)) {
    GiveUp();
    return void(++counters_.out_of_sequence);
  }
  epsn_ = packet.bth.psn + 1;
  Execute(packet, kind, memory);
}

// The message in hand, if there is one, is as if it had never come.
void UcQueuePair::GiveUp() {
  if (in_.message == Message::kNone) return;
  in_.message = Message::kNone;
  ++counters_.cut_short;
}

// A packet that comes when it is due, of the message in hand or of a new one.
void UcQueuePair::Execute(const Packet& packet, Message kind, Memory& memory) {
  const OpcodeInfo& info = Info(packet.bth.opcode);
  const bool sends = kind == Message::kSend;
  if ((sends || info.imm) && !HasReceive(memory)) {
    GiveUp();
    return void(++counters_.no_recv);
  }
  Placed placed = Placed::kInvalid;
  if (LengthFits(packet, attr_.path_mtu) && (sends || attr_.remote_write)) {
    placed = sends ? PlaceSend(recvs_.front().sges, packet, memory, &in_) : PlaceWrite(packet, memory, &in_);
  }
  if (placed == Placed::kOwnMemory) {
    completions_.push_back(
        {.wr_id = recvs_.front().wr_id, .status = WcStatus::kLocProtErr, .opcode = WcOpcode::kRecv});
    recvs_.pop_front();
    return EnterError();
  }
  if (placed != Placed::kOk) {
    GiveUp();
    return void(++counters_.refused);
  }
  if (!info.last && !info.only) return;
  in_.message = Message::kNone;
  if (!sends && !info.imm) return;
  completions_.push_back(ReceiveDone(recvs_.front(), packet,
                                     sends ? WcOpcode::kRecv : WcOpcode::kRecvWriteImm,
                                     sends ? in_.filled : in_.write.dma_length));
  recvs_.pop_front();
}

bool UcQueuePair::HasReceive(Memory& memory) {
  if (!recvs_.empty()) return true;
  if (!config_.shared_receives || !HasRoom()) return false;
  const std::optional<RecvWr> wr = memory.TakeSharedReceive();
  if (wr) recvs_.grow().Take(*wr);
  return wr.has_value();
}

bool UcQueuePair::wants_poll() const {
  if (sends_.empty()) return false;
  return state_ == QpState::kRts || (state_ == QpState::kSqd && sent_ > 0);
}

void UcQueuePair::Poll(Memory& memory, PacketSink& sink, int budget) {
  std::array<uint8_t, kMaxPathMtu> scratch;
  for (; budget > 0 && wants_poll(); --budget) {
    const PostedSend& request = sends_.front();
    if (IsLocal(request.opcode)) {
      DoLocal(memory);
      continue;
    }
    Packet packet = PacketTo(attr_, config_.local_qpn);
    packet.bth.psn = psn_;
    if (!CutPacket(request, sent_, attr_.path_mtu, inline_bytes_, memory, scratch, &packet)) {
      // What the peer has of the message it gives up when the next one begins.
      FailSend(WcStatus::kLocProtErr);
      continue;
    }
    packet.bth.opcode = UcOf(packet.bth.opcode);
    psn_ = psn_ + 1;
    ++counters_.packets_sent;
    sink.Send(packet);
    if (++sent_ == request.packets) Complete(WcStatus::kSuccess);
  }
}

// The oldest send has ended.
void UcQueuePair::Complete(WcStatus status) {
  const PostedSend& request = sends_.front();
  if (request.signaled || status != WcStatus::kSuccess) {
    completions_.push_back({.wr_id = request.wr_id,
                            .status = status,
                            .opcode = DoneAs(request.opcode),
                            .bytes = request.length});
  }
  sends_.pop_front();
  sent_ = 0;
}

void UcQueuePair::FailSend(WcStatus status) {
  Complete(status);
  state_ = QpState::kSqe;
  FlushSends(&sends_, &completions_);
}

// Binds or invalidates. All before it has gone, and is complete: there is nothing for a fence to wait for.
void UcQueuePair::DoLocal(Memory& memory) {
  const PostedSend& request = sends_.front();
  const bool binds = request.opcode == WrOpcode::kBindMw;
  if (binds ? memory.Bind(request.bind) : memory.Invalidate(request.invalidate_rkey)) {
    Complete(WcStatus::kSuccess);
  } else {
    FailSend(binds ? WcStatus::kMwBindErr : WcStatus::kLocQpOpErr);
  }
}

void UcQueuePair::EnterError() {
  state_ = QpState::kErr;
  in_.message = Message::kNone;
  sent_ = 0;
  FlushSends(&sends_, &completions_);
  FlushRecvs(&recvs_, &completions_);
}

bool UcQueuePair::NextCompletion(Completion* out) {
  if (completions_.empty()) return false;
  *out = completions_.front();
  completions_.pop_front();
  return true;
}

}  // namespace epic::roce
