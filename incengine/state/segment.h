// Segments: how the indices of a group lie in the PSNs of one direction of one endpoint (docs/PROTOCOL.md,
// section 2).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/psn.h"
#include "base/snapshot.h"
#include "base/types.h"
#include "protocol/flow.h"

namespace epic::engine {

// Contexts keep the segments of this many invocations (docs/PROTOCOL.md, section 2, says why twice the hosts'
// 16).
inline constexpr int64_t kKeptInvocations = 32;

// Neighbouring parts of an invocation that travel in a direction.
struct PartRun {
  int64_t first_part = 0;
  int64_t parts = 0;
  int64_t before = 0;  // parts that travel in the direction, before these
};

// What a direction has of one invocation: its control message, then of each turn the parts that the direction
// carries.
struct Segment {
  int64_t invocation = 0;
  Index first_index = 0;  // of the control message
  DataLayout layout;
  std::vector<PartRun> runs;  // ascending; none if there are no data
  int64_t parts = 0;          // in all runs
  int64_t unbroken = 0;       // packets from the first on between which no index is left out
  Index end = 0;              // behind the last index that the direction carries
  Psn wire_base;
  uint32_t msn_base = 0;  // messages that lie before this segment
  Index data_index() const { return first_index + layout.control_packets; }
  // Packets that the direction carries.
  int64_t length() const { return layout.control_packets + parts * layout.part_packets; }
};

// A stretch of indices that a direction carries, or does not.
struct Stretch {
  bool carried = false;
  Index end = 0;  // the first index after it
};

// The open segments of one direction, oldest first. Every direction of a group counts the same indices; those
// of parts that it does not carry have no PSN in it.
class Direction {
 public:
  Direction() = default;
  explicit Direction(Psn initial) : next_wire_(initial) {}

  // Appends the segment of the next invocation: its control message and the runs of parts (ascending) that
  // this direction carries; message_packets is M. Forgets the oldest invocation when more than
  // kKeptInvocations are open.
  void Open(int64_t invocation, const DataLayout& layout, std::vector<PartRun> runs,
            uint32_t message_packets);

  // False if Open would forget something that the direction carries at `needed` or after it.
  bool CanOpenKeeping(Index needed) const;

  // The index that travels at psn; nothing if no open segment covers it.
  std::optional<Index> IndexOf(Psn psn) const;
  // Does this direction carry the index, in an open segment?
  bool Carries(Index index) const;
  // The first index at or after this one that the direction carries; next_index() if no open one is left.
  Index Next(Index index) const;
  // The last index before this one that it carries; -1 if none is open.
  Index Previous(Index index) const;
  // How far it goes on as at index, which is below next_index().
  Stretch StretchAt(Index index) const;
  // The PSN of Next(index).
  Psn WireOf(Index index) const;
  // Messages completed when everything up to and including index has arrived: the MSN of an ACK of it.
  uint32_t MsnAfter(Index index) const;

  // Where the next invocation's control packet will be.
  Index next_index() const { return next_index_; }
  Psn next_wire() const { return next_wire_; }
  int64_t next_invocation() const { return next_invocation_; }

  // Aborts if something does not hold that always does: what is open follows each other without a gap, in
  // indices and PSNs.
  void CheckInvariants() const;

 private:
  friend struct epic::Snapshot;
  const Segment& At(int64_t invocation) const {
    return segments_[static_cast<size_t>(invocation % kKeptInvocations)];
  }
  int64_t oldest() const { return std::max<int64_t>(0, next_invocation_ - kKeptInvocations); }
  // The segment that ends after index, of the first such invocation; null if there is none.
  const Segment* From(Index index) const;

  std::vector<Segment> segments_;  // a ring, by invocation modulo kKeptInvocations
  uint32_t message_packets_ = 1;
  Index next_index_ = 0;
  Psn next_wire_;
  uint32_t next_msn_ = 0;
  int64_t next_invocation_ = 0;
};

}  // namespace epic::engine
