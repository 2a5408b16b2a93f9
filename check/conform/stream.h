// How the packets of a group lie in one direction of one edge, for the model: packet number p of a direction
// (its position, from 0) travels at the first PSN plus p, and carries an index of the group
// (docs/PROTOCOL.md, section 2). Written from that page, not shared with the engine.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/psn.h"
#include "base/types.h"
#include "protocol/flow.h"

namespace epic::conform {

// One call of the group as the switch under judgement must understand it.
struct Call {
  int64_t number = 0;
  ControlHeader header;  // of the first child that called
  Index control_index = 0;
  DataLayout layout;  // without data if the switch cannot do what is asked
  Index data_index() const { return control_index + layout.control_packets; }
  Index end() const { return control_index + layout.indices(); }
  // In its control message; its first packet has the header.
  bool InControl(Index index) const { return index < data_index(); }
};

// Is this index one that not everybody who sends it also receives (docs/PROTOCOL.md, section 2)?
inline bool IsTracked(const Call& call, Index index) {
  return !call.InControl(index) && !SendersReceive(call.header.collective);
}

// Do switches of mode II acknowledge it to each other (section 4)? What is tracked, and the control packet
// before it.
inline bool IsAcknowledged(const Call& call, Index index) {
  const bool has_tracked = call.end() > call.data_index() && !SendersReceive(call.header.collective);
  return call.InControl(index) ? has_tracked : IsTracked(call, index);
}

class Stream {
 public:
  Stream() = default;
  Stream(Psn first, uint32_t message_packets) : first_(first), message_packets_(message_packets) {}

  // Appends the next call: its control packet and the parts (numbers, ascending) that this direction carries.
  void Open(const Call& call, const std::vector<int64_t>& parts);
  // Calls before this one are forgotten.
  void Forget(int64_t call);

  // Packets that have a meaning so far: positions below it.
  int64_t length() const { return length_; }
  // The position of a PSN within half the number space of `near`; negative before the first packet.
  int64_t PositionOf(Psn psn, int64_t near) const { return near + psn.DistanceFrom(first_ + near); }
  // The index at a position; that of the next control packet at length(). Nothing for what is forgotten or
  // not known yet.
  std::optional<Index> IndexAt(int64_t position) const;
  // Where the index travels, if this direction carries it and knows it.
  std::optional<int64_t> PositionAt(Index index) const;
  // Messages that are complete when everything before the position has arrived, modulo 2^24: the MSN of a NAK
  // there. Nothing for what is forgotten or beyond length().
  std::optional<uint32_t> MessagesBefore(int64_t position) const;

 private:
  struct Run {
    int64_t call = 0;
    int64_t position = 0;
    Index index = 0;
    int64_t length = 0;
    int64_t part_packets = 1;
    uint32_t messages_before = 0;
    int64_t part_messages = 1;
  };
  // The parts' stretches of one turn, each of so many packets, from packet `first` of the part on.
  void OpenTurn(const Call& call, const std::vector<int64_t>& parts, int64_t first, int64_t packets);
  const Run* Find(int64_t position) const;
  void Append(Run run);

  Psn first_;
  uint32_t message_packets_ = 1;
  std::deque<Run> runs_;
  int64_t length_ = 0;
  Index next_index_ = 0;
  uint32_t messages_ = 0;
};

}  // namespace epic::conform
