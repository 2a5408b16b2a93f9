// How the data of an invocation flows through the tree: its parts, and which ranks send and receive each
// (docs/PROTOCOL.md, "Collectives"; EPIC paper, appendix A). Hosts and switches compute the same from the
// control header, so that every index has the same meaning for all of them.
#pragma once

#include <cstdint>
#include <span>

#include "protocol/control.h"

namespace epic {

// The indices of an invocation: those of the control message, then `parts` equal stretches of `part_packets`
// data indices, one after the other. Each part starts a new message.
struct DataLayout {
  int64_t parts = 1;
  int64_t part_packets = 0;  // 0 also if the data are inlined, or go between the hosts
  uint64_t part_bytes = 0;
  int64_t control_packets = 1;  // of the control message
  uint64_t inlined_bytes = 0;   // in it, behind the header
  int64_t packets() const { return parts * part_packets; }
  // All of the invocation's.
  int64_t indices() const { return control_packets + packets(); }
  uint64_t control_bytes() const { return kControlBytes + inlined_bytes; }
};

// Packets carry path_mtu bytes each, the last one of a part what is left. A barrier and a count of 0 have no
// data packets, nor has an inlined call, or one whose data go between the hosts.
DataLayout LayoutOf(const ControlHeader& header, uint32_t path_mtu);

// Bytes of a call's data, all parts together. WrongField must be kNone.
uint64_t CallBytes(const ControlHeader& header);

// Whether hosts inline the call: it has data, which do not go between the hosts, at most inline_bytes, and
// they fit into one message with their header. Whatever kInlinedFlag says.
bool MayInline(const ControlHeader& header, uint64_t message_bytes, uint64_t inline_bytes);

// Payload bytes of packet number `at` of the control message.
uint32_t ControlPacketBytes(const DataLayout& layout, uint32_t path_mtu, int64_t at);

// Of these the header takes the first.
constexpr size_t HeaderBytesIn(int64_t at) { return at == 0 ? kControlBytes : 0; }

// Payload bytes of data packet number `at` (counted over all parts).
uint32_t DataPacketBytes(const DataLayout& layout, uint32_t path_mtu, int64_t at);

// Messages of M packets that one part takes.
constexpr int64_t PartMessages(const DataLayout& layout, uint32_t message_packets) {
  return (layout.part_packets + message_packets - 1) / message_packets;
}

// The rank that a part is for (reductions) or comes from (copies). Meaningless for an AllReduce.
uint32_t PartRoot(const ControlHeader& header, int64_t part);

// Does any of these ranks send the part? In reductions every rank does, in copies only the part's root.
// ranks is sorted.
bool Sends(const ControlHeader& header, int64_t part, std::span<const uint32_t> ranks);

// Does any of these ranks receive the part from the network? AllReduce: every rank; Reduce and ReduceScatter:
// the part's root; Broadcast and AllGather: every rank but the part's root. ranks is sorted.
bool Receives(const ControlHeader& header, int64_t part, std::span<const uint32_t> ranks);

// Is every rank that sends a part also one that receives it? Then its own result tells a sender that its
// packet has been counted everywhere, and data may follow the control packet at once. Otherwise (Reduce,
// Broadcast, ReduceScatter, AllGather) senders wait for the control reply.
constexpr bool SendersReceive(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kBarrier;
}

// Does the collective combine elements?
constexpr bool Reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

// Is one part for each rank?
constexpr bool HasPartPerRank(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllGather;
}

// kNone if a group of world_size ranks can have such an invocation; else the field that is wrong: a root that
// is no rank, parts that are not 1 or world_size, a barrier with elements, an operation on a copy, a later
// type or operation unless the data go between the hosts, more than kMaxBytes in all parts together.
ControlField WrongField(const ControlHeader& header, uint32_t world_size);

// The same, and of one with kInlinedFlag kFlags if it cannot be inlined: without data, by the hosts besides,
// or longer than a message of message_bytes (MU).
ControlField WrongField(const ControlHeader& header, uint32_t world_size, uint64_t message_bytes);

}  // namespace epic
