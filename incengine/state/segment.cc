#include "incengine/state/segment.h"

#include "base/check.h"

namespace epic::engine {

void Direction::Append(int64_t invocation, bool control, int64_t length, int64_t messages) {
  if (length == 0) return;
  segments_.push_back({.invocation = invocation,
                       .control = control,
                       .first_index = next_index_,
                       .length = length,
                       .wire_base = next_wire_,
                       .msn_base = next_msn_});
  next_index_ += length;
  next_wire_ = next_wire_ + length;
  next_msn_ = (next_msn_ + static_cast<uint32_t>(messages)) & Psn::kMask;
}

void Direction::Open(int64_t invocation, int64_t data_length, uint32_t message_packets) {
  EPIC_CHECK(invocation == next_invocation_);
  message_packets_ = message_packets;
  Append(invocation, true, 1, 1);
  Append(invocation, false, data_length, (data_length + message_packets - 1) / message_packets);
  ++next_invocation_;
  while (segments_.front().invocation <= invocation - kKeptInvocations) segments_.pop_front();
}

bool Direction::CanOpenKeeping(Index needed) const {
  const int64_t oldest_kept = next_invocation_ - kKeptInvocations + 1;
  for (const Segment& segment : segments_) {
    if (segment.invocation >= oldest_kept) return true;
    if (segment.first_index + segment.length > needed) return false;
  }
  return true;
}

std::optional<Index> Direction::IndexOf(Psn psn) const {
  // Newest first: almost every packet belongs to the last segment or the one before it.
  for (auto it = segments_.rbegin(); it != segments_.rend(); ++it) {
    const int32_t position = psn.DistanceFrom(it->wire_base);
    if (position >= 0 && position < it->length) return it->first_index + position;
  }
  return std::nullopt;
}

const Segment* Direction::Find(Index index) const {
  for (auto it = segments_.rbegin(); it != segments_.rend(); ++it) {
    if (index >= it->first_index && index < it->first_index + it->length) return &*it;
  }
  return nullptr;
}

Psn Direction::WireOf(Index index) const {
  if (index == next_index_) return next_wire_;
  const Segment* segment = Find(index);
  EPIC_CHECK(segment != nullptr);
  return segment->wire_base + (index - segment->first_index);
}

uint32_t Direction::MsnAfter(Index index) const {
  const Segment* segment = Find(index);
  if (segment == nullptr) return segments_.empty() ? next_msn_ : segments_.front().msn_base;
  const int64_t arrived = index - segment->first_index + 1;
  const int64_t messages = segment->control || arrived == segment->length
                               ? (arrived + message_packets_ - 1) / message_packets_
                               : arrived / message_packets_;
  return (segment->msn_base + static_cast<uint32_t>(messages)) & Psn::kMask;
}

}  // namespace epic::engine
