// How the data of an invocation flows through the tree: its parts, and which ranks send and receive each
// (docs/PROTOCOL.md, "Collectives"; EPIC paper, appendix A). Hosts and switches compute the same from the
// control header, so that every index has the same meaning for all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "protocol/control.h"

namespace epic {

// The indices of an invocation: those of the control message, then `parts` times `part_packets` data indices.
// The parts lie one after the other, or take turns: a stretch of `turn_packets` of each, and so on, of which
// the last ones have what is left. Each stretch starts a new message.
struct DataLayout {
  int64_t parts = 1;
  int64_t part_packets = 0;  // 0 also if the data are inlined, or go between the hosts
  uint64_t part_bytes = 0;
  int64_t control_packets = 1;  // of the control message
  uint64_t inlined_bytes = 0;   // in it, behind the header
  int64_t turn_packets = 0;     // below part_packets; 0: no turns
  int64_t packets() const { return parts * part_packets; }
  // All of the invocation's.
  int64_t indices() const { return control_packets + packets(); }
  uint64_t control_bytes() const { return kControlBytes + inlined_bytes; }
};

// Packets carry path_mtu bytes each, the last one of a part what is left; messages have message_packets (M).
// A barrier and a count of 0 have no data packets, nor has an inlined call, a request for memory, or one
// whose data go between the hosts.
DataLayout LayoutOf(const ControlHeader& header, uint32_t path_mtu, uint32_t message_packets);

// Where data packet number `at` (counted over all parts) lies.
struct DataPlace {
  int64_t part = 0;
  int64_t in_part = 0;  // packet number within the part
  int64_t begin = 0;    // the data packet number with which its stretch begins
  int64_t stretch = 0;  // packets of that
  int64_t end() const { return begin + stretch; }
};
// Of a layout with data packets; `at` is below packets().
DataPlace PlaceAmongParts(const DataLayout& layout, int64_t at);  // of several parts
inline DataPlace PlaceOf(const DataLayout& layout, int64_t at) {
  if (layout.parts > 1) return PlaceAmongParts(layout, at);
  return {.in_part = at, .stretch = layout.part_packets};
}

// The data packet number of packet `in_part` of a part.
int64_t DataPacketAt(const DataLayout& layout, int64_t part, int64_t in_part);

// The turn of an AllGather (ControlHeader::turn) in a group with a window of so many messages: where its
// parts together are longer than that, so many messages of each at a time that several ranks always have some
// in the window, and links have no time without (docs/PROTOCOL.md, section 2). 0 for all other calls, and if
// a part is not longer.
uint32_t TurnOf(const ControlHeader& header, uint32_t path_mtu, uint32_t message_packets,
                uint32_t window_messages);

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

// A message of the data: number `message` of a part, the first one with packet message * M of that.
struct MessagePlace {
  int64_t part = -1;  // before the first part
  int64_t message = 0;
};

// On to the next message, in the order of indices, among those of the parts for which carried(part) holds.
// False, and back to before the first part, if there is none.
template <typename Carried>
bool StepToNext(const DataLayout& layout, uint32_t message_packets, const Carried& carried,
                MessagePlace* place) {
  const int64_t messages = PartMessages(layout, message_packets);
  const int64_t turn = layout.turn_packets == 0 ? messages : layout.turn_packets / message_packets;
  int64_t begin = 0;  // of the turn
  if (place->part >= 0) {
    begin = place->message / turn * turn;
    if (++place->message < std::min(begin + turn, messages)) return true;
  }
  for (; begin < messages; begin += turn) {
    const bool is_whole = place->part < 0;
    while (++place->part < layout.parts) {
      if (!carried(place->part)) continue;
      place->message = begin;
      return true;
    }
    place->part = -1;
    if (is_whole) break;  // no part of this turn, and so of none
  }
  *place = {};
  return false;
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
// type or operation unless the data go between the hosts, blocks (kType, kCount) of what does not become
// such, more than kMaxBytes in all parts together, turns (kFlags) of a call that is no AllGather with data of
// its own, a request or grant (kFlags) for a call without data that could use it.
ControlField WrongField(const ControlHeader& header, uint32_t world_size);

// The same, and of one with kInlinedFlag kFlags if it cannot be inlined: without data, by the hosts besides,
// or longer than a message of message_bytes (MU).
ControlField WrongField(const ControlHeader& header, uint32_t world_size, uint64_t message_bytes);

}  // namespace epic
