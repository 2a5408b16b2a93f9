#include "sim/rc_nic.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "incengine/modules/transmit.h"

namespace epic::sim {

using roce::Opcode;

roce::Packet RcNic::MakePacket() const {
  roce::Packet p;
  p.src_ip = config_.local_ip;
  p.dst_ip = config_.remote_ip;
  p.udp_src_port = static_cast<uint16_t>(0xc000 | (Raw(config_.local_qpn) & 0x3fff));
  p.bth.dest_qp = config_.remote_qpn;
  return p;
}

void RcNic::PostSend(uint64_t wr_id, std::span<const uint8_t> data, std::optional<uint32_t> imm) {
  const auto packets =
      std::max<int64_t>(1, static_cast<int64_t>((data.size() + config_.path_mtu - 1) / config_.path_mtu));
  sends_.push_back({.wr_id = wr_id, .data = data, .imm = imm, .first = posted_, .packets = packets});
  posted_ += packets;
}

void RcNic::PostRecv(uint64_t wr_id, std::span<uint8_t> buffer) { recvs_.push_back({wr_id, buffer}); }

void RcNic::EmitPacket(const SendWr& wr, int64_t number) {
  const int64_t at = number - wr.first;
  const bool first = at == 0;
  const bool last = at == wr.packets - 1;
  roce::Packet p = MakePacket();
  if (first && last) {
    p.bth.opcode = wr.imm ? Opcode::kRcSendOnlyImm : Opcode::kRcSendOnly;
  } else if (first) {
    p.bth.opcode = Opcode::kRcSendFirst;
  } else {
    p.bth.opcode = !last ? Opcode::kRcSendMiddle : wr.imm ? Opcode::kRcSendLastImm : Opcode::kRcSendLast;
  }
  if (last && wr.imm) p.imm = *wr.imm;
  p.bth.psn = config_.send_psn + number;
  p.bth.ack_req = last || ++since_ack_req_ >= 66;
  if (p.bth.ack_req) since_ack_req_ = 0;
  const size_t begin = static_cast<size_t>(at) * config_.path_mtu;
  p.payload = wr.data.subspan(begin, std::min<size_t>(config_.path_mtu, wr.data.size() - begin));
  if (number < snd_max_) ++retransmitted_;
  out_.push_back(p);
}

void RcNic::Poll(Nanos now) {
  if (rnr_until_ >= 0 && now >= rnr_until_) {
    rnr_until_ = -1;
    snd_nxt_ = snd_una_;
  }
  if (now >= timer_at_) {
    ++timeouts_;
    timer_at_ = kNever;
    rnr_until_ = -1;
    snd_nxt_ = snd_una_;
    started_retry_ = true;
  }
  if (rnr_until_ >= 0) return;
  for (const SendWr& wr : sends_) {
    while (snd_nxt_ >= wr.first && snd_nxt_ < wr.first + wr.packets &&
           snd_nxt_ < snd_una_ + config_.max_outstanding) {
      EmitPacket(wr, snd_nxt_);
      ++snd_nxt_;
      snd_max_ = std::max(snd_max_, snd_nxt_);
    }
  }
  if (snd_una_ < snd_nxt_ && timer_at_ == kNever) timer_at_ = now + config_.timeout_ns;
}

void RcNic::CompleteThrough(int64_t acked, Nanos now) {
  if (acked < snd_una_) return;
  // rxe: an ACK beyond what was sent completes every pending send; the world must never do that to us.
  EPIC_CHECK(acked < snd_max_);
  snd_una_ = acked + 1;
  snd_nxt_ = std::max(snd_nxt_, snd_una_);
  timer_at_ = snd_una_ < snd_nxt_ ? now + config_.timeout_ns : kNever;
  while (!sends_.empty() && sends_.front().first + sends_.front().packets <= snd_una_) {
    completions_.push_back({.wr_id = sends_.front().wr_id});
    sends_.pop_front();
  }
}

void RcNic::OnAck(Nanos now, const roce::Packet& packet) {
  const int64_t named = snd_una_ + packet.bth.psn.DistanceFrom(config_.send_psn + snd_una_);
  const uint8_t syndrome = packet.aeth.syndrome;
  if (roce::IsAck(syndrome)) {
    if (named < snd_una_) return;
    started_retry_ = false;
    return CompleteThrough(named, now);
  }
  if (named < snd_una_ || snd_una_ == snd_max_) return;  // older, or nothing outstanding
  CompleteThrough(named - 1, now);
  if (roce::IsRnrNak(syndrome)) {
    rnr_until_ = now + engine::RnrTimerNanos(syndrome & 0x1f);
    timer_at_ = kNever;
  } else if (!started_retry_) {
    started_retry_ = true;
    snd_nxt_ = snd_una_;
  }
}

void RcNic::SendAeth(uint8_t syndrome, Psn psn) {
  roce::Packet p = MakePacket();
  p.bth.opcode = Opcode::kRcAck;
  p.bth.psn = psn;
  p.aeth = {.syndrome = syndrome, .msn = msn_};
  out_.push_back(p);
}

void RcNic::OnSend(const roce::Packet& packet) {
  const int32_t distance = packet.bth.psn.DistanceFrom(rq_psn_);
  if (distance < 0) return SendAeth(roce::kSyndromeAck, rq_psn_ - 1);
  if (distance > 0) {
    if (!nak_sent_) SendAeth(roce::kSyndromeNakSequence, rq_psn_);
    nak_sent_ = true;
    return;
  }
  if (recvs_.empty()) return SendAeth(roce::kSyndromeRnrNak | 14, rq_psn_);
  nak_sent_ = false;
  RecvWr& wr = recvs_.front();
  EPIC_CHECK(filled_ + packet.payload.size() <= wr.buffer.size());
  if (!packet.payload.empty())
    std::memcpy(wr.buffer.data() + filled_, packet.payload.data(), packet.payload.size());
  filled_ += static_cast<uint32_t>(packet.payload.size());
  rq_psn_ = rq_psn_ + 1;
  const roce::OpcodeInfo& info = roce::Info(packet.bth.opcode);
  if (info.last || info.only) {
    msn_ = (msn_ + 1) & Psn::kMask;
    completions_.push_back({.wr_id = wr.wr_id, .is_recv = true, .bytes = filled_});
    if (info.imm) completions_.back().imm = packet.imm;
    recvs_.pop_front();
    filled_ = 0;
  }
  if (packet.bth.ack_req) SendAeth(roce::kSyndromeAck, rq_psn_ - 1);
}

void RcNic::OnPacket(Nanos now, const roce::Packet& packet) {
  // rxe drops silently what is not from its peer.
  if (packet.src_ip != config_.remote_ip || packet.bth.dest_qp != config_.local_qpn) return;
  if (packet.bth.opcode == Opcode::kRcAck) {
    OnAck(now, packet);
  } else {
    OnSend(packet);
  }
}

Nanos RcNic::next_deadline() const { return rnr_until_ >= 0 ? std::min(rnr_until_, timer_at_) : timer_at_; }

}  // namespace epic::sim
