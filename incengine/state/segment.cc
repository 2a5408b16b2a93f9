#include "incengine/state/segment.h"

#include <algorithm>

#include "base/check.h"

namespace epic::engine {

// Takes index, length and parts from the segment; PSN and MSN follow from what lies before it.
void Direction::Append(const Segment& segment) {
  segments_.push_back(segment);
  segments_.back().wire_base = next_wire_;
  segments_.back().msn_base = next_msn_;
  next_wire_ = next_wire_ + segment.length;
  const int64_t messages = segment.length / segment.part_packets * segment.part_messages;
  next_msn_ = (next_msn_ + static_cast<uint32_t>(messages)) & Psn::kMask;
}

void Direction::Open(int64_t invocation, const DataLayout& layout, std::span<const PartRun> runs,
                     uint32_t message_packets) {
  EPIC_CHECK(invocation == next_invocation_);
  message_packets_ = message_packets;
  Append({.invocation = invocation,
          .control = true,
          .first_index = next_index_,
          .length = layout.control_packets,
          .part_packets = layout.control_packets});
  if (layout.packets() > 0) {
    for (const PartRun& run : runs) {
      Append({.invocation = invocation,
              .first_index = next_index_ + layout.control_packets + run.first_part * layout.part_packets,
              .length = run.parts * layout.part_packets,
              .part_packets = layout.part_packets,
              .part_messages = PartMessages(layout, message_packets)});
    }
  }
  next_index_ += layout.indices();
  ++next_invocation_;
  while (segments_.front().invocation <= invocation - kKeptInvocations) segments_.pop_front();
}

bool Direction::CanOpenKeeping(Index needed) const {
  const int64_t oldest_kept = next_invocation_ - kKeptInvocations + 1;
  for (const Segment& segment : segments_) {
    if (segment.invocation >= oldest_kept) return true;
    if (segment.end() > needed) return false;
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

std::deque<Segment>::const_iterator Direction::From(Index index) const {
  // Almost every question is about one of the newest few.
  auto it = segments_.end();
  for (int looked = 0; looked < 4 && it != segments_.begin(); ++looked) {
    if (std::prev(it)->end() <= index) return it;
    --it;
  }
  return std::partition_point(segments_.begin(), it, [&](const Segment& s) { return s.end() <= index; });
}

const Segment* Direction::Find(Index index) const {
  const auto it = From(index);
  return it != segments_.end() && it->first_index <= index ? &*it : nullptr;
}

Index Direction::Next(Index index) const {
  const auto it = From(index);
  return it == segments_.end() ? std::max(index, next_index_) : std::max(index, it->first_index);
}

Index Direction::Previous(Index index) const {
  auto it = From(index);
  if (it != segments_.end() && it->first_index < index) return index - 1;
  return it == segments_.begin() ? -1 : std::prev(it)->end() - 1;
}

Stretch Direction::StretchAt(Index index) const {
  const auto it = From(index);
  if (it == segments_.end()) return {.carried = false, .end = next_index_};
  if (it->first_index > index) return {.carried = false, .end = it->first_index};
  return {.carried = true, .end = it->end()};
}

Psn Direction::WireOf(Index index) const {
  const auto it = From(index);
  if (it == segments_.end()) return next_wire_;
  return it->wire_base + std::max<int64_t>(index - it->first_index, 0);
}

uint32_t Direction::MsnAfter(Index index) const {
  auto it = From(index);
  if (it == segments_.end()) return next_msn_;
  if (it->first_index > index) return it->msn_base;
  const int64_t arrived = index - it->first_index + 1;
  const int64_t rest = arrived % it->part_packets;
  const int64_t messages = arrived / it->part_packets * it->part_messages + rest / message_packets_;
  return (it->msn_base + static_cast<uint32_t>(messages)) & Psn::kMask;
}

}  // namespace epic::engine
