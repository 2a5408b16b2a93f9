// Messages and their packets, the same for reliable (RC) and unreliable connections (UC): what each packet of
// a request carries, and where what arrives goes. InfiniBand Architecture Specification 1.4, 9.4 and 9.7.4.
//
// Opcodes here are RC's; those of UC differ in their transport alone (UcOf in roce/opcode.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "roce/packet.h"
#include "roce/transport/config.h"
#include "roce/transport/memory.h"
#include "roce/transport/ring.h"
#include "roce/transport/types.h"

namespace epic::roce {

// A request as it waits in a send queue. UC needs no more of it than its packets. What SendWr has, too, means
// the same here.
struct PostedSend {
  uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::kSend;
  bool signaled = true;
  bool solicited = false;
  bool fence = false;
  bool is_inline = false;
  bool requested = false;  // a Read or atomic that was sent since the last repetition began
  bool done = false;       // what is local: it waits for what is before it to complete
  uint32_t length = 0;     // bytes
  uint32_t inline_at = 0;  // in the queue's inline bytes; used if is_inline
  int64_t first = 0;       // packet number; counts from 0 at sq_psn, a Read counts its responses
  int64_t packets = 0;     // 0: local
  int64_t number = 0;      // of the message; the first is 1 (the specification's SSN)
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  uint32_t imm = 0;
  SgeList sges;  // not of inline data
  // Set and read only for the opcodes that have them.
  uint32_t invalidate_rkey = 0;
  uint64_t compare_add = 0, swap = 0;
  WindowBind bind;

  // As SgeList's.
  void Release() { sges.Release(); }
};
// What every request touches lies in front, the rare rest behind: two cache lines, if it has one piece of
// memory.
static_assert(offsetof(PostedSend, sges) + offsetof(SgeList, sge) + sizeof(Sge) <= 128);

// Whether a queue that takes so much inline data can take the request, as far as its pieces go.
inline bool IsWellFormed(const SendWr& wr, uint32_t max_inline_bytes) {
  if (!wr.sges.whole()) return false;
  const uint64_t length = wr.inline_bytes.empty() ? wr.sges.bytes() : wr.inline_bytes.size();
  if (IsLocal(wr.opcode)) return length == 0 && (wr.opcode != WrOpcode::kBindMw || wr.bind);
  if (wr.inline_bytes.empty()) return length <= kMaxMessageBytes;
  return length <= max_inline_bytes && !IsReadOrAtomic(wr.opcode);
}
// Whether a queue can take the receive.
inline bool IsWellFormed(const RecvWr& wr) { return wr.sges.whole() && wr.sges.bytes() <= UINT32_MAX; }

// Takes in a request that is well-formed, behind the others. Inline data are copied to inline_bytes, which
// has max_inline_bytes for each place of the queue. Sets all but `first` and `number`.
PostedSend& TakePosted(const SendWr& wr, uint32_t path_mtu, uint32_t max_inline_bytes,
                       std::vector<uint8_t>* inline_bytes, Ring<PostedSend>* sends);

// Sets what the request's packet number `at` (from 0) carries: opcode, RETH, immediate data, whether it is
// solicited, payload. A payload that lies in several pieces is gathered into scratch, which holds path_mtu
// bytes. False if memory refuses. Not for Reads.
bool CutPacket(const PostedSend& request, int64_t at, uint32_t path_mtu,
               std::span<const uint8_t> inline_bytes, Memory& memory, std::span<uint8_t> scratch,
               Packet* packet);

// A packet from one end of a connection to the other, without opcode, PSN and content.
inline Packet PacketTo(const QpAttributes& attr, Qpn local_qpn) {
  Packet packet;
  packet.src_ip = attr.local_ip;
  packet.dst_ip = attr.remote_ip;
  // One port per queue pair, so that its packets stay on one path (annex A17.9.2).
  packet.udp_src_port = static_cast<uint16_t>(0xc000 | (Raw(local_qpn) & 0x3fff));
  packet.tos = attr.traffic_class;
  packet.bth.dest_qp = attr.remote_qpn;
  return packet;
}

enum class Message : uint8_t { kNone, kSend, kWrite };

// The message that is arriving.
struct Arrival {
  Message message = Message::kNone;
  uint32_t filled = 0;  // bytes so far
  Reth write{};         // of a Write
};

// What becomes of a packet's data.
enum class Placed : uint8_t {
  kOk,
  kTooLong,    // a Send: more than the receive has room for
  kOwnMemory,  // a Send: the receive's memory cannot be used
  kInvalid,    // a Write: lengths that contradict each other, or too long
  kNoAccess,   // a Write: the key does not allow it
};

// Whether a packet of the kind may be next (table 46); kNone for what is neither Send nor Write.
inline bool InSequence(const Arrival& arrival, Message kind, Opcode opcode) {
  const OpcodeInfo& info = Info(opcode);
  const bool starts = info.first || info.only;
  return arrival.message == Message::kNone ? starts : !starts && kind == arrival.message;
}
// FIRST and MIDDLE are full, LAST is not empty (9.7.4.1.6).
inline bool LengthFits(const Packet& packet, uint32_t path_mtu) {
  const OpcodeInfo& info = Info(packet.bth.opcode);
  if (info.only) return packet.payload.size() <= path_mtu;
  if (info.last) return !packet.payload.empty() && packet.payload.size() <= path_mtu;
  return packet.payload.size() == path_mtu;
}
// Put a packet that is in sequence, and its message in hand, where it belongs: into the receive's buffer, or
// where the Write says. If not kOk, the message has no more of it than before, but for what was written.
Placed PlaceSend(const SgeList& buffer, const Packet& packet, Memory& memory, Arrival* arrival);
Placed PlaceWrite(const Packet& packet, Memory& memory, Arrival* arrival);

// The completion of a receive by its message's last packet.
inline Completion ReceiveDone(const RecvWr& recv, const Packet& packet, WcOpcode opcode, uint32_t bytes) {
  Completion completion{.wr_id = recv.wr_id, .opcode = opcode, .bytes = bytes};
  const OpcodeInfo& info = Info(packet.bth.opcode);
  completion.has_imm = info.imm;
  completion.imm = info.imm ? packet.imm : 0;
  completion.has_invalidated = info.ieth;
  completion.invalidated_rkey = info.ieth ? packet.invalidate_rkey : 0;
  completion.solicited = packet.bth.solicited;
  return completion;
}

// What is posted is given back, with kWrFlushErr. There is room for it.
void FlushRecvs(Ring<RecvWr>* recvs, Ring<Completion>* out);
template <typename Entry>
void FlushSends(Ring<Entry>* sends, Ring<Completion>* out) {
  for (; !sends->empty(); sends->pop_front())
    out->push_back({.wr_id = sends->front().wr_id, .status = WcStatus::kWrFlushErr});
}

}  // namespace epic::roce
