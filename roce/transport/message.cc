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

// What Sends, Writes and Reads do not have.
void TakeRare(const SendWr& wr, PostedSend* out) {
  out->invalidate_rkey = wr.invalidate_rkey;
  if (IsLocal(wr.opcode)) out->packets = 0;
  if (wr.bind) out->bind = *wr.bind;
  if (!IsAtomic(wr.opcode)) return;
  out->length = kAtomicBytes;
  out->packets = 1;
  out->compare_add = wr.compare_add;
  out->swap = wr.swap;
}

}  // namespace

PostedSend& TakePosted(const SendWr& wr, uint32_t path_mtu, uint32_t max_inline_bytes,
                       std::vector<uint8_t>* inline_bytes, Ring<PostedSend>* sends) {
  PostedSend& out = sends->grow();
  out.wr_id = wr.wr_id;
  out.opcode = wr.opcode;
  out.signaled = wr.signaled;
  out.solicited = wr.solicited;
  out.fence = wr.fence;
  out.is_inline = !wr.inline_bytes.empty();
  out.requested = out.done = false;
  out.remote_address = wr.remote_address;
  out.rkey = wr.rkey;
  out.imm = wr.imm;
  if (out.is_inline) {
    out.length = static_cast<uint32_t>(wr.inline_bytes.size());
    out.inline_at = static_cast<uint32_t>(sends->back_place()) * max_inline_bytes;
    std::ranges::copy(wr.inline_bytes, inline_bytes->begin() + out.inline_at);
    out.sges.count = 0;
  } else {
    out.length = static_cast<uint32_t>(wr.sges.bytes());
    out.sges.Take(wr.sges);
  }
  out.packets = out.length <= path_mtu ? 1 : (out.length - 1) / path_mtu + 1;
  if (wr.opcode > WrOpcode::kRead) TakeRare(wr, &out);
  return out;
}

bool CutPacket(const PostedSend& request, int64_t at, uint32_t path_mtu,
               std::span<const uint8_t> inline_bytes, Memory& memory, std::span<uint8_t> scratch,
               Packet* packet) {
  const bool last = at == request.packets - 1;
  const uint64_t begin = static_cast<uint64_t>(at) * path_mtu;
  const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(path_mtu, request.length - begin));
  if (request.is_inline) {
    packet->payload = inline_bytes.subspan(request.inline_at + begin, bytes);
  } else if (!Gather(request.sges, begin, bytes, memory, scratch, &packet->payload)) {
    return false;
  }
  packet->payload_stays = !request.is_inline && packet->payload.data() != scratch.data();
  packet->bth.opcode = DataOpcode(request.opcode, at == 0, last);
  const OpcodeInfo& info = Info(packet->bth.opcode);
  if (info.imm) packet->imm = request.imm;
  if (info.ieth) packet->invalidate_rkey = request.invalidate_rkey;
  if (info.reth) packet->reth = {request.remote_address, request.rkey, request.length};
  packet->bth.solicited = last && request.solicited && request.opcode != WrOpcode::kWrite;
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
