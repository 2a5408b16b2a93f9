#include "roce/transport/message.h"

#include <algorithm>

namespace epic::roce {
namespace {

Opcode DataOpcode(WrOpcode op, bool first, bool last) {
  const bool imm = HasImm(op), inv = op == WrOpcode::kSendInv;
  if (IsWrite(op)) {
    if (first && last) return imm ? Opcode::kRcWriteOnlyImm : Opcode::kRcWriteOnly;
    if (first) return Opcode::kRcWriteFirst;
    return !last ? Opcode::kRcWriteMiddle : imm ? Opcode::kRcWriteLastImm : Opcode::kRcWriteLast;
  }
  if (first && last) {
    return imm ? Opcode::kRcSendOnlyImm : inv ? Opcode::kRcSendOnlyInv : Opcode::kRcSendOnly;
  }
  if (first) return Opcode::kRcSendFirst;
  if (!last) return Opcode::kRcSendMiddle;
  return imm ? Opcode::kRcSendLastImm : inv ? Opcode::kRcSendLastInv : Opcode::kRcSendLast;
}

}  // namespace

bool IsWellFormed(const SendWr& wr, uint32_t max_inline_bytes) {
  if (!wr.sges.whole()) return false;
  const uint64_t length = wr.inline_bytes.empty() ? wr.sges.bytes() : wr.inline_bytes.size();
  if (IsLocal(wr.opcode)) return length == 0;
  if (wr.inline_bytes.empty()) return length <= kMaxMessageBytes;
  return length <= max_inline_bytes && !IsReadOrAtomic(wr.opcode);
}

void TakePosted(const SendWr& wr, uint32_t path_mtu, size_t slot, uint32_t max_inline_bytes,
                std::vector<uint8_t>* inline_bytes, PostedSend* out) {
  out->wr = wr;
  out->wr.inline_bytes = {};
  out->is_inline = !wr.inline_bytes.empty();
  out->requested = out->done = false;
  const uint64_t length = IsAtomic(wr.opcode) ? kAtomicBytes
                          : out->is_inline    ? wr.inline_bytes.size()
                                              : wr.sges.bytes();
  out->length = static_cast<uint32_t>(length);
  out->packets =
      IsLocal(wr.opcode) ? 0 : std::max<int64_t>(1, (static_cast<int64_t>(length) + path_mtu - 1) / path_mtu);
  if (!out->is_inline) return;
  out->inline_at = static_cast<uint32_t>(slot) * max_inline_bytes;
  std::ranges::copy(wr.inline_bytes, inline_bytes->begin() + out->inline_at);
}

bool CutPacket(const PostedSend& request, int64_t at, uint32_t path_mtu,
               std::span<const uint8_t> inline_bytes, Memory& memory, std::span<uint8_t> scratch,
               Packet* packet) {
  const bool last = at == request.packets - 1;
  const uint64_t begin = static_cast<uint64_t>(at) * path_mtu;
  const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(path_mtu, request.length - begin));
  if (request.is_inline) {
    packet->payload = inline_bytes.subspan(request.inline_at + begin, bytes);
  } else if (!Gather(request.wr.sges, begin, bytes, memory, scratch, &packet->payload)) {
    return false;
  }
  packet->payload_stays = !request.is_inline && packet->payload.data() != scratch.data();
  packet->bth.opcode = DataOpcode(request.wr.opcode, at == 0, last);
  const OpcodeInfo& info = Info(packet->bth.opcode);
  if (info.imm) packet->imm = request.wr.imm;
  if (info.ieth) packet->invalidate_rkey = request.wr.invalidate_rkey;
  if (info.reth) packet->reth = {request.wr.remote_address, request.wr.rkey, request.length};
  packet->bth.solicited = last && request.wr.solicited && request.wr.opcode != WrOpcode::kWrite;
  return true;
}

Placed PlaceSend(const SgeList& buffer, const Packet& packet, Memory& memory, Arrival* arrival) {
  if (arrival->message == Message::kNone) arrival->filled = 0;
  if (arrival->filled + packet.payload.size() > buffer.bytes()) return Placed::kTooLong;
  if (!packet.payload.empty() && !Scatter(buffer, arrival->filled, packet.payload, memory))
    return Placed::kOwnMemory;
  arrival->filled += static_cast<uint32_t>(packet.payload.size());
  arrival->message = Message::kSend;
  return Placed::kOk;
}

Placed PlaceWrite(const Packet& packet, Memory& memory, Arrival* arrival) {
  const OpcodeInfo& info = Info(packet.bth.opcode);
  const auto bytes = static_cast<uint32_t>(packet.payload.size());
  if (info.reth) {
    // The key is checked for the whole message before its first byte is written (9.7.4.1.5), and again for
    // each packet, because it may be taken back meanwhile.
    const Reth& reth = packet.reth;
    if (reth.dma_length > kMaxMessageBytes || (info.first && reth.dma_length <= bytes))
      return Placed::kInvalid;
    if (reth.dma_length != 0 &&
        !memory.Map(Access::kRemoteWrite, reth.rkey, reth.virtual_address, reth.dma_length)) {
      return Placed::kNoAccess;
    }
    arrival->write = reth;
    arrival->filled = 0;
  }
  const uint64_t after = uint64_t{arrival->filled} + bytes;
  const bool ends = info.last || info.only;
  if (ends ? after != arrival->write.dma_length : after >= arrival->write.dma_length) return Placed::kInvalid;
  if (bytes > 0) {
    const auto target = memory.Map(Access::kRemoteWrite, arrival->write.rkey,
                                   arrival->write.virtual_address + arrival->filled, bytes);
    if (!target) return Placed::kNoAccess;
    std::ranges::copy(packet.payload, target->begin());
  }
  arrival->filled += bytes;
  arrival->message = Message::kWrite;
  return Placed::kOk;
}

void FlushRecvs(Ring<RecvWr>* recvs, Ring<Completion>* out) {
  for (; !recvs->empty(); recvs->pop_front()) {
    out->push_back(
        {.wr_id = recvs->front().wr_id, .status = WcStatus::kWrFlushErr, .opcode = WcOpcode::kRecv});
  }
}

}  // namespace epic::roce
