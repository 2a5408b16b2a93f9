// Segments: how the indices of a group lie in the PSNs of one direction of one endpoint (docs/PROTOCOL.md,
// section 2).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/psn.h"
#include "base/types.h"

namespace epic::engine {

// Contexts keep the segments of this many invocations (docs/PROTOCOL.md, section 2, says why twice the hosts'
// 16).
inline constexpr int64_t kKeptInvocations = 32;

struct Segment {
  int64_t invocation = 0;
  bool control = false;
  Index first_index = 0;
  int64_t length = 0;
  Psn wire_base;
  uint32_t msn_base = 0;  // messages that lie before this segment
};

// The open segments of one direction, oldest first, without gaps in index or PSN.
class Direction {
 public:
  Direction() = default;
  explicit Direction(Psn initial) : next_wire_(initial) {}

  // Appends the two segments of the next invocation; data_length is 0 where this direction carries no data.
  // message_packets is M. Forgets the oldest invocation when more than kKeptInvocations are open.
  void Open(int64_t invocation, int64_t data_length, uint32_t message_packets);

  // False if Open would forget a segment that covers needed or something after it.
  bool CanOpenKeeping(Index needed) const;

  // The index that travels at psn; nothing if no open segment covers it.
  std::optional<Index> IndexOf(Psn psn) const;
  // The PSN of an index that is covered, or of next_index().
  Psn WireOf(Index index) const;
  // Messages completed when everything up to and including index has arrived: the MSN of an ACK of it.
  uint32_t MsnAfter(Index index) const;

  // Where the next invocation's control packet will be.
  Index next_index() const { return next_index_; }
  Psn next_wire() const { return next_wire_; }
  int64_t next_invocation() const { return next_invocation_; }

 private:
  const Segment* Find(Index index) const;
  void Append(int64_t invocation, bool control, int64_t length, int64_t messages);

  std::deque<Segment> segments_;
  uint32_t message_packets_ = 1;
  Index next_index_ = 0;
  Psn next_wire_;
  uint32_t next_msn_ = 0;
  int64_t next_invocation_ = 0;
};

}  // namespace epic::engine
