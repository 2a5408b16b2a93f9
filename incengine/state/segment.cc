#include "incengine/state/segment.h"

#include <algorithm>

#include "base/check.h"

namespace epic::engine {

namespace {

// Where an index lies among what a segment carries.
struct Spot {
  Index index = 0;     // the index itself if it is carried, else the next one that is
  int64_t before = 0;  // packets that the segment carries before it
  Index end = 0;       // behind it, the first index that is not carried, or with which another turn begins
};

// Of an index before the segment's end, behind its unbroken packets.
Spot SpotFurtherOn(const Segment& segment, Index index) {
  const DataLayout& layout = segment.layout;
  const DataPlace place = PlaceOf(layout, index - segment.data_index());
  const int64_t into = index - segment.data_index() - place.begin;
  int64_t first = place.in_part - into;  // packet of each part with which the turn begins
  int64_t stretch = place.stretch;
  auto run = std::ranges::partition_point(
      segment.runs, [&](const PartRun& r) { return r.first_part + r.parts <= place.part; });
  if (run == segment.runs.end()) {  // the next turn, which there is: the segment ends later
    run = segment.runs.begin();
    first += stretch;
    stretch = std::min(stretch, layout.part_packets - first);
  }
  const int64_t before = layout.control_packets + segment.parts * first;
  const Index turn = segment.data_index() + layout.parts * first;
  const bool is_carried = first + into == place.in_part && run->first_part <= place.part;
  const Index at = is_carried ? index : turn + run->first_part * stretch;
  return {.index = at,
          .before = before + run->before * stretch + at - (turn + run->first_part * stretch),
          .end = turn + (run->first_part + run->parts) * stretch};
}

// Of an index before the segment's end.
inline Spot SpotOf(const Segment& segment, Index index) {
  const Index unbroken_end = segment.first_index + segment.unbroken;
  if (index >= unbroken_end) return SpotFurtherOn(segment, index);
  const Index at = std::max(index, segment.first_index);
  return {.index = at, .before = at - segment.first_index, .end = unbroken_end};
}

// The index of packet number `at` of those that the segment carries, behind the unbroken ones.
Index IndexFurtherOn(const Segment& segment, int64_t at) {
  const DataLayout& layout = segment.layout;
  at -= layout.control_packets;
  int64_t first = 0;
  int64_t stretch = layout.part_packets;
  if (layout.turn_packets > 0) {
    first = at / (segment.parts * layout.turn_packets) * layout.turn_packets;
    stretch = std::min(layout.turn_packets, layout.part_packets - first);
    at -= segment.parts * first;
  }
  const auto run = std::ranges::partition_point(
      segment.runs, [&](const PartRun& r) { return (r.before + r.parts) * stretch <= at; });
  return segment.data_index() + layout.parts * first + run->first_part * stretch + at - run->before * stretch;
}

inline Index IndexAt(const Segment& segment, int64_t at) {
  return at < segment.unbroken ? segment.first_index + at : IndexFurtherOn(segment, at);
}

constexpr int64_t MessagesOf(int64_t packets, uint32_t message_packets) {
  return (packets + message_packets - 1) / message_packets;
}

// Messages that are complete with the first `packets` packets that the segment carries.
int64_t MessagesIn(const Segment& segment, int64_t packets, uint32_t message_packets) {
  const DataLayout& layout = segment.layout;
  if (packets < layout.control_packets) return 0;
  packets -= layout.control_packets;
  if (layout.parts == 1 && packets < layout.part_packets) return 1 + packets / message_packets;
  if (packets == 0) return 1;
  const int64_t turn = layout.turn_packets > 0 ? layout.turn_packets : layout.part_packets;
  const int64_t first = packets / (segment.parts * turn) * turn;  // whole turns
  const int64_t stretch = std::min(turn, layout.part_packets - first);
  const int64_t in_turn = packets - segment.parts * first;
  const int64_t whole = segment.parts * MessagesOf(first, message_packets);
  if (in_turn == 0) return 1 + whole;
  return 1 + whole + in_turn / stretch * MessagesOf(stretch, message_packets) +
         in_turn % stretch / message_packets;
}

}  // namespace

void Direction::Open(int64_t invocation, const DataLayout& layout, std::vector<PartRun> runs,
                     uint32_t message_packets) {
  EPIC_CHECK(invocation == next_invocation_);
  message_packets_ = message_packets;
  Segment segment{.invocation = invocation,
                  .first_index = next_index_,
                  .layout = layout,
                  .unbroken = layout.control_packets,
                  .end = next_index_ + layout.control_packets,
                  .wire_base = next_wire_,
                  .msn_base = next_msn_};
  if (layout.packets() > 0 && !runs.empty()) {
    for (PartRun& run : runs) {
      run.before = segment.parts;
      segment.parts += run.parts;
    }
    const int64_t last = runs.back().first_part + runs.back().parts - 1;
    segment.end += DataPacketAt(layout, last, layout.part_packets - 1) + 1;
    const int64_t stretch = layout.turn_packets > 0 ? layout.turn_packets : layout.part_packets;
    if (runs.front().first_part == 0) segment.unbroken += runs.front().parts * stretch;
    segment.runs = std::move(runs);
  }
  const int64_t messages = MessagesIn(segment, segment.length(), message_packets);
  next_wire_ = next_wire_ + segment.length();
  next_msn_ = (next_msn_ + static_cast<uint32_t>(messages)) & Psn::kMask;
  next_index_ += layout.indices();
  ++next_invocation_;
  if (invocation < kKeptInvocations) {
    segments_.push_back(std::move(segment));
  } else {
    segments_[static_cast<size_t>(invocation % kKeptInvocations)] = std::move(segment);
  }
}

void Direction::CheckInvariants() const {
  for (int64_t invocation = oldest(); invocation < next_invocation_; ++invocation) {
    const Segment& segment = At(invocation);
    const bool newest = invocation + 1 == next_invocation_;
    const Index next = newest ? next_index_ : At(invocation + 1).first_index;
    EPIC_CHECK(segment.invocation == invocation);
    EPIC_CHECK(segment.first_index + segment.layout.indices() == next && segment.end <= next);
    EPIC_CHECK(segment.wire_base + segment.length() == (newest ? next_wire_ : At(invocation + 1).wire_base));
  }
}

bool Direction::CanOpenKeeping(Index needed) const {
  return next_invocation_ < kKeptInvocations || At(oldest()).end <= needed;
}

std::optional<Index> Direction::IndexOf(Psn psn) const {
  // Newest first: almost every packet belongs to the last segment or the one before it.
  for (int64_t number = next_invocation_ - 1; number >= oldest(); --number) {
    const Segment& segment = At(number);
    const int32_t position = psn.DistanceFrom(segment.wire_base);
    if (position >= 0 && position < segment.length()) return IndexAt(segment, position);
  }
  return std::nullopt;
}

const Segment* Direction::From(Index index) const {
  // Almost every question is about one of the newest few.
  int64_t last = next_invocation_;
  const int64_t first = oldest();
  for (int looked = 0; looked < 4 && last > first; ++looked) {
    if (At(last - 1).end <= index) return last < next_invocation_ ? &At(last) : nullptr;
    --last;
  }
  for (int64_t from = first; from < last;) {
    const int64_t middle = from + (last - from) / 2;
    if (At(middle).end <= index) {
      from = middle + 1;
    } else {
      last = middle;
    }
  }
  return last < next_invocation_ ? &At(last) : nullptr;
}

bool Direction::Carries(Index index) const {
  const Segment* const segment = From(index);
  return segment != nullptr && SpotOf(*segment, index).index == index;
}

Index Direction::Next(Index index) const {
  const Segment* const segment = From(index);
  return segment == nullptr ? std::max(index, next_index_) : SpotOf(*segment, index).index;
}

Index Direction::Previous(Index index) const {
  const Segment* const segment = From(index);
  const int64_t number = segment == nullptr ? next_invocation_ : segment->invocation;
  const int64_t before = segment == nullptr ? 0 : SpotOf(*segment, index).before;
  if (before > 0) return IndexAt(*segment, before - 1);
  return number == oldest() ? -1 : At(number - 1).end - 1;
}

Stretch Direction::StretchAt(Index index) const {
  const Segment* const segment = From(index);
  if (segment == nullptr) return {.carried = false, .end = next_index_};
  const Spot spot = SpotOf(*segment, index);
  const bool carried = spot.index == index;
  return {.carried = carried, .end = carried ? spot.end : spot.index};
}

Psn Direction::WireOf(Index index) const {
  const Segment* const segment = From(index);
  return segment == nullptr ? next_wire_ : segment->wire_base + SpotOf(*segment, index).before;
}

uint32_t Direction::MsnAfter(Index index) const {
  const Segment* const segment = From(index);
  if (segment == nullptr) return next_msn_;
  const Spot spot = SpotOf(*segment, index);
  const int64_t packets = spot.before + (spot.index == index ? 1 : 0);
  const int64_t messages = MessagesIn(*segment, packets, message_packets_);
  return (segment->msn_base + static_cast<uint32_t>(messages)) & Psn::kMask;
}

}  // namespace epic::engine
