#include "roce/transport/ud.h"

#include <algorithm>
#include <array>
#include <utility>

#include "roce/icrc.h"
#include "roce/transport/message.h"
#include "roce/view.h"
#include "roce/view_ipv6.h"
#include "roce/wire.h"

namespace epic::roce {
namespace {

constexpr uint32_t kPrivilegedQkey = 0x80000000;

// The IPv6 header of the packet, or the IPv4 header in the last 20 of 40 bytes. Of that, identification and
// flags are not known here; the checksum is right for what is written, because rdma-core tells the header's
// version by it.
std::array<uint8_t, kGrhBytes> HeaderOf(const Packet& packet) {
  std::array<uint8_t, kGrhBytes> header{};
  const size_t udp_bytes =
      8 + Info(packet.bth.opcode).header_bytes + (packet.payload.size() + 3) / 4 * 4 + kIcrcBytes;
  if (!packet.dst_ip.is_v4()) {
    Ipv6Header{.traffic_class = packet.tos,
               .flow_label = packet.flow_label,
               .payload_length = static_cast<uint16_t>(udp_bytes),
               .hop_limit = packet.ttl,
               .src = packet.src_ip,
               .dst = packet.dst_ip}
        .Write(header.data());
    return header;
  }
  uint8_t* const ip = header.data() + 20;
  ip[0] = 0x45;
  ip[1] = packet.tos;
  StoreBe16(static_cast<uint16_t>(20 + udp_bytes), ip + 2);
  ip[8] = packet.ttl;
  ip[9] = 17;
  StoreBe32(Raw(packet.src_ip.v4()), ip + 12);
  StoreBe32(Raw(packet.dst_ip.v4()), ip + 16);
  StoreBe16(InternetChecksum({ip, 20}), ip + 10);
  return header;
}

// With a shared receive queue, the queue pair holds one receive at most.
UdConfig Normal(UdConfig config) {
  if (config.shared_receives) config.recv_depth = 1;
  return config;
}

}  // namespace

UdQueuePair::UdQueuePair(const UdConfig& config)
    : config_(Normal(config)),
      sends_(config.send_depth),
      inline_bytes_(size_t{config.send_depth} * config.max_inline_bytes),
      recvs_(config_.recv_depth),
      completions_(size_t{config.send_depth} + config_.recv_depth) {}

ModifyResult UdQueuePair::Modify(QpState to, std::optional<uint32_t> qkey, std::optional<Psn> sq_psn) {
  if (!IsTransition(state_, to)) return ModifyResult::kBadTransition;
  const bool begins = state_ == QpState::kReset && to == QpState::kInit;
  const bool to_rts = state_ == QpState::kRtr && to == QpState::kRts;
  const bool drains = state_ == QpState::kRts && to == QpState::kSqd;
  if ((begins && !qkey) || (to_rts && !sq_psn)) return ModifyResult::kMissingAttribute;
  const bool takes_qkey = to != QpState::kReset && to != QpState::kErr && !drains;
  if ((qkey && !takes_qkey) || (sq_psn && !to_rts)) return ModifyResult::kAttributeNotNow;
  if (to == QpState::kReset) {
    UdQueuePair fresh(config_);
    fresh.groups_ = std::move(groups_);
    *this = std::move(fresh);
    return ModifyResult::kOk;
  }
  if (qkey) qkey_ = *qkey;
  if (sq_psn) psn_ = *sq_psn;
  state_ = to;
  if (to == QpState::kErr) {
    FlushSends();
    FlushRecvs();
  }
  return ModifyResult::kOk;
}

bool UdQueuePair::Attach(Ip group) {
  if (!group.is_multicast()) return false;
  if (IsAttached(group)) return true;
  if (groups_.size() == kMaxMulticastGroups) return false;
  groups_.push_back(group);
  return true;
}

bool UdQueuePair::IsAttached(Ip group) const { return std::ranges::find(groups_, group) != groups_.end(); }

bool UdQueuePair::Detach(Ip group) { return std::erase(groups_, group) > 0; }

bool UdQueuePair::HasRoom(size_t ahead) const {
  return sends_.size() + recvs_.size() + completions_.size() + ahead < completions_.capacity();
}

PostResult UdQueuePair::CheckSend(const SendWr& wr, size_t ahead) const {
  if (state_ == QpState::kReset || state_ == QpState::kInit || state_ == QpState::kRtr)
    return PostResult::kBadState;
  if (!wr.sges.whole() || (wr.opcode != WrOpcode::kSend && wr.opcode != WrOpcode::kSendImm))
    return PostResult::kInvalid;
  if (!wr.ud || wr.ud->ip.is_v4() != wr.ud->from.value_or(config_.local_ip).is_v4())
    return PostResult::kInvalid;
  const bool is_inline = !wr.inline_bytes.empty();
  const uint64_t length = is_inline ? wr.inline_bytes.size() : wr.sges.bytes();
  if (length > config_.mtu || (is_inline && length > config_.max_inline_bytes)) return PostResult::kInvalid;
  if (sends_.size() + ahead >= sends_.capacity() || !HasRoom(ahead)) return PostResult::kFull;
  return PostResult::kOk;
}

PostResult UdQueuePair::PostSend(const SendWr& wr) {
  if (const PostResult result = CheckSend(wr); result != PostResult::kOk) return result;
  const bool is_inline = !wr.inline_bytes.empty();
  const uint64_t length = is_inline ? wr.inline_bytes.size() : wr.sges.bytes();
  SendEntry& entry = sends_.grow();
  entry.wr_id = wr.wr_id;
  entry.signaled = wr.signaled;
  entry.solicited = wr.solicited;
  entry.has_imm = HasImm(wr.opcode);
  entry.is_inline = is_inline;
  entry.imm = wr.imm;
  entry.length = static_cast<uint32_t>(length);
  entry.to = *wr.ud;
  if (is_inline) {
    entry.inline_at = static_cast<uint32_t>(sends_.back_place()) * config_.max_inline_bytes;
    std::ranges::copy(wr.inline_bytes, inline_bytes_.begin() + entry.inline_at);
  } else {
    entry.sges.Take(wr.sges);
  }
  if (state_ == QpState::kErr || state_ == QpState::kSqe) FlushSends();
  return PostResult::kOk;
}

PostResult UdQueuePair::PostRecv(const RecvWr& wr) {
  if (state_ == QpState::kReset) return PostResult::kBadState;
  if (config_.shared_receives || !IsWellFormed(wr)) return PostResult::kInvalid;
  if (recvs_.full() || !HasRoom()) return PostResult::kFull;
  recvs_.grow().Take(wr);
  if (state_ == QpState::kErr) FlushRecvs();
  return PostResult::kOk;
}

bool UdQueuePair::IsForUs(const Packet& packet) const {
  if ((packet.bth.pkey & 0x7fff) != 0x7fff) return false;
  if (packet.dst_ip.is_multicast()) return packet.bth.dest_qp == kMulticastQpn && IsAttached(packet.dst_ip);
  return (config_.any_address || packet.dst_ip == config_.local_ip) &&
         packet.bth.dest_qp == config_.local_qpn;
}

// A datagram that does not fit, or has the wrong Q_Key, is dropped in silence (9.8.2.1, 9.9.3 class D).
void UdQueuePair::OnPacket(const Packet& packet, Memory& memory) {
  const OpcodeInfo& info = Info(packet.bth.opcode);
  if (!info.deth || !IsForUs(packet)) return void(++counters_.not_ours);
  if (state_ == QpState::kReset || state_ == QpState::kInit || state_ == QpState::kErr)
    return void(++counters_.bad_state);
  if (packet.deth.qkey != qkey_) return void(++counters_.bad_qkey);
  if (!HasReceive(memory)) return void(++counters_.no_recv);
  const RecvWr& recv = recvs_.front();
  const uint64_t bytes = kGrhBytes + packet.payload.size();
  if (bytes > recv.sges.bytes()) return void(++counters_.too_long);
  Completion completion{.wr_id = recv.wr_id,
                        .opcode = WcOpcode::kRecv,
                        .has_imm = info.imm,
                        .solicited = packet.bth.solicited,
                        .over_ipv6 = !packet.dst_ip.is_v4(),
                        .imm = info.imm ? packet.imm : 0,
                        .bytes = static_cast<uint32_t>(bytes),
                        .src_qpn = packet.deth.src_qp};
  const auto header = HeaderOf(packet);
  const bool written = Scatter(recv.sges, 0, header, memory) &&
                       (packet.payload.empty() || Scatter(recv.sges, kGrhBytes, packet.payload, memory));
  if (!written) completion.status = WcStatus::kLocProtErr;
  recvs_.pop_front();
  completions_.push_back(completion);
  if (written) return;
  state_ = QpState::kErr;
  FlushSends();
  FlushRecvs();
}

bool UdQueuePair::HasReceive(Memory& memory) {
  if (!recvs_.empty()) return true;
  if (!config_.shared_receives || !HasRoom()) return false;
  const std::optional<RecvWr> wr = memory.TakeSharedReceive();
  if (wr) recvs_.grow().Take(*wr);
  return wr.has_value();
}

bool UdQueuePair::Emit(const SendEntry& entry, Memory& memory, PacketSink& sink) {
  std::array<uint8_t, kMaxPathMtu> scratch;
  Packet packet;
  if (entry.is_inline) {
    packet.payload = std::span(inline_bytes_).subspan(entry.inline_at, entry.length);
  } else if (!Gather(entry.sges, 0, entry.length, memory, scratch, &packet.payload)) {
    return false;
  }
  packet.payload_stays = !entry.is_inline && packet.payload.data() != scratch.data();
  packet.src_ip = entry.to.from.value_or(config_.local_ip);
  packet.dst_ip = entry.to.ip;
  packet.udp_src_port = static_cast<uint16_t>(0xc000 | (Raw(config_.local_qpn) & 0x3fff));
  packet.tos = entry.to.traffic_class;
  packet.ttl = entry.to.hop_limit;
  packet.bth.opcode = entry.has_imm ? Opcode::kUdSendOnlyImm : Opcode::kUdSendOnly;
  packet.bth.solicited = entry.solicited;
  packet.bth.dest_qp = entry.to.ip.is_multicast() ? kMulticastQpn : entry.to.qpn;
  packet.bth.psn = psn_;
  psn_ = psn_ + 1;
  // A Q_Key with its top bit set stands for the queue pair's own (10.2.5).
  const bool own = (entry.to.qkey & kPrivilegedQkey) != 0;
  packet.deth = {.qkey = own ? qkey_ : entry.to.qkey, .src_qp = config_.local_qpn};
  packet.imm = entry.has_imm ? entry.imm : 0;
  ++counters_.packets_sent;
  sink.Send(packet);
  return true;
}

void UdQueuePair::Poll(Memory& memory, PacketSink& sink, int budget) {
  for (; budget > 0 && wants_poll(); --budget) {
    const SendEntry& entry = sends_.front();
    Completion completion{.wr_id = entry.wr_id, .opcode = WcOpcode::kSend, .bytes = entry.length};
    const bool sent = Emit(entry, memory, sink);
    if (!sent) completion.status = WcStatus::kLocProtErr;
    if (entry.signaled || !sent) completions_.push_back(completion);
    sends_.pop_front();
    if (sent) continue;
    state_ = QpState::kSqe;
    FlushSends();
  }
}

void UdQueuePair::FlushSends() {
  for (; !sends_.empty(); sends_.pop_front())
    completions_.push_back({.wr_id = sends_.front().wr_id, .status = WcStatus::kWrFlushErr});
}

void UdQueuePair::FlushRecvs() {
  for (; !recvs_.empty(); recvs_.pop_front()) {
    completions_.push_back(
        {.wr_id = recvs_.front().wr_id, .status = WcStatus::kWrFlushErr, .opcode = WcOpcode::kRecv});
  }
}

bool UdQueuePair::NextCompletion(Completion* out) {
  if (completions_.empty()) return false;
  *out = completions_.front();
  completions_.pop_front();
  return true;
}

}  // namespace epic::roce
