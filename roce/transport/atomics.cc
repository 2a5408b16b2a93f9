// Compare and swap, fetch and add (InfiniBand specification 9.4.5): one request packet, one response that
// brings what memory held before. They share the bounds of RDMA Reads, and what a lost response leads to.
#include <array>
#include <atomic>
#include <cstring>

#include "roce/transport/queue_pair.h"

namespace epic::roce {

void QueuePair::EmitAtomic(SendEntry& entry, PacketSink& sink) {
  const bool swaps = entry.opcode == WrOpcode::kCompareSwap;
  Packet packet = MakePacket(swaps ? Opcode::kRcCompareSwap : Opcode::kRcFetchAdd, SendPsn(tx_.nxt));
  packet.atomic = {.virtual_address = entry.remote_address,
                   .rkey = entry.rkey,
                   .swap_or_add = swaps ? entry.swap : entry.compare_add,
                   .compare = swaps ? entry.compare_add : 0};
  packet.bth.ack_req = true;  // as rdma_rxe has it; the response is the acknowledgement
  Emit(packet, sink);
  entry.requested = true;
  ++tx_.reads_in_flight;
  ++tx_.reads_awaited;
  ++tx_.reads_asked;
  ++tx_.nxt;
}

void QueuePair::OnAtomicResponse(Nanos now, const Packet& packet, int64_t named, Memory& memory) {
  if (!TakeBefore(now, named)) return;
  const SendEntry& entry = tx_.sends.front();
  if (!IsAtomic(entry.opcode) || !IsAck(packet.aeth.syndrome)) return void(++counters_.bad_response);
  // In this machine's byte order, as the program that asked for it has its own numbers.
  std::array<uint8_t, kAtomicBytes> original;
  std::memcpy(original.data(), &packet.original, original.size());
  if (!Scatter(entry.sges, 0, original, memory)) return FailSend(WcStatus::kLocProtErr);
  TakeResponse(now, named);
}

// The operation is one of the processor's own, so that it is atomic with respect to the program's, and to
// other queue pairs and adapters that have the memory.
void QueuePair::ExecuteAtomic(const Packet& packet, Memory& memory) {
  const AtomicEth& atomic = packet.atomic;
  if (!attr_.remote_atomic || attr_.max_dest_rd_atomic == 0)
    return RefuseRequest(kSyndromeNakInvalidRequest, WcStatus::kRemInvReqErr);
  const auto target = memory.Map(Access::kRemoteAtomic, atomic.rkey, atomic.virtual_address, kAtomicBytes);
  if (!target) return RefuseRequest(kSyndromeNakRemoteAccess, WcStatus::kRemAccessErr);
  // Memory may be registered at an address that is aligned in another way than it is itself.
  const auto place = reinterpret_cast<uintptr_t>(target->data());
  if (atomic.virtual_address % kAtomicBytes != 0 || place % kAtomicBytes != 0)
    return RefuseRequest(kSyndromeNakInvalidRequest, WcStatus::kRemInvReqErr);
  ReadRecord record{.opcode = packet.bth.opcode,
                    .first = rx_.epsn,
                    .last = rx_.epsn,
                    .reth = {atomic.virtual_address, atomic.rkey, kAtomicBytes},
                    .original = 0};
  // A place for the answer comes first: without one the request counts as lost, and must not be executed.
  rx_.msn = (rx_.msn + 1) & Psn::kMask;
  if (!QueueAtomic(record)) {
    rx_.msn = (rx_.msn - 1) & Psn::kMask;
    return;
  }
  const std::atomic_ref<uint64_t> value(*reinterpret_cast<uint64_t*>(target->data()));
  if (packet.bth.opcode == Opcode::kRcFetchAdd) {
    record.original = value.fetch_add(atomic.swap_or_add);
  } else {
    record.original = atomic.compare;  // which stays if it is equal, and becomes what there is if not
    value.compare_exchange_strong(record.original, atomic.swap_or_add);
  }
  rx_.responses.back().original = record.original;
  NoteAnswered(record);
}

// What a repetition asks for is known by its record, the newest of that PSN; without one it is dropped
// (9.7.5.1.5, 9.9.3 class D).
void QueuePair::RepeatAtomic(const Packet& packet) {
  for (size_t i = rx_.reads.size(); i-- > 0;) {
    const ReadRecord& record = rx_.reads[i];
    if (record.opcode == packet.bth.opcode && record.first == packet.bth.psn &&
        record.reth.rkey == packet.atomic.rkey &&
        record.reth.virtual_address == packet.atomic.virtual_address) {
      QueueAtomic(record);
      return;
    }
  }
  ++counters_.bad_duplicate;
}

// Puts the response in line. False if there is no room.
bool QueuePair::QueueAtomic(const ReadRecord& record) {
  for (size_t i = 0; i < rx_.responses.size(); ++i) {
    const Response& waiting = rx_.responses[i];
    if (waiting.kind == Answer::kAtomic && waiting.psn == record.first) return true;
  }
  if (rx_.responses.size() + 1 >= rx_.responses.capacity()) {
    ++counters_.no_room;
    return false;
  }
  rx_.responses.push_back(
      {.kind = Answer::kAtomic, .psn = record.first, .msn = rx_.msn, .original = record.original});
  return true;
}

void QueuePair::EmitAtomicResponse(const Response& response, PacketSink& sink) {
  Packet packet = MakePacket(Opcode::kRcAtomicAck, response.psn);
  packet.aeth = {.syndrome = kSyndromeAck, .msn = response.msn};
  packet.original = response.original;
  rx_.responses.pop_front();
  Emit(packet, sink);
}

}  // namespace epic::roce
