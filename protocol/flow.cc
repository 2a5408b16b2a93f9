#include "protocol/flow.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "protocol/number_blocks.h"

namespace epic {
namespace {

bool Contains(std::span<const uint32_t> ranks, uint32_t rank) {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

// Where a turn divides the window, every rank waits for the acknowledgement of its own message of a window
// ago, all of them at the same time; in mode II, in which that comes from all receivers, links then stand
// still. With three quarters of the window in a turn, or with two windows where those would be less than two
// messages of each rank, what a rank waits for are results of others, and its own messages have a turn's time
// more. Of two ranks each has half a turn anyway: there short turns are better (docs/adr/0021).
uint32_t TurnLength(uint32_t window_messages, uint32_t ranks) {
  if (ranks <= 2) return 1;
  const uint64_t most = uint64_t{3} * window_messages / (uint64_t{4} * ranks);
  return static_cast<uint32_t>(most >= 2 ? most : CeilDiv(uint64_t{2} * window_messages, ranks));
}

}  // namespace

DataLayout LayoutOf(const ControlHeader& header, uint32_t path_mtu, uint32_t message_packets) {
  const uint64_t bytes = header.count * ElementBytes(header.type);
  DataLayout layout{.parts = std::max<int64_t>(header.parts, 1), .part_bytes = bytes};
  const auto packets = [path_mtu](uint64_t of) {
    return static_cast<int64_t>((of + path_mtu - 1) / path_mtu);
  };
  if (IsInlined(header)) {
    layout.inlined_bytes = CallBytes(header);
    layout.control_packets = packets(layout.control_bytes());
  } else if (!IsByHosts(header) && !IsRequest(header)) {
    layout.part_packets = packets(bytes);
    const int64_t turn = int64_t{header.turn} * message_packets;
    layout.turn_packets = turn < layout.part_packets ? turn : 0;
  }
  return layout;
}

DataPlace PlaceAmongParts(const DataLayout& layout, int64_t at) {
  if (layout.turn_packets == 0) {
    const int64_t part = at / layout.part_packets;
    const int64_t begin = part * layout.part_packets;
    return {.part = part, .in_part = at - begin, .begin = begin, .stretch = layout.part_packets};
  }
  const int64_t turn = at / (layout.parts * layout.turn_packets);
  const int64_t first = turn * layout.turn_packets;  // of each part
  const int64_t stretch = std::min(layout.turn_packets, layout.part_packets - first);
  const int64_t part = (at - layout.parts * first) / stretch;
  const int64_t begin = layout.parts * first + part * stretch;
  return {.part = part, .in_part = first + at - begin, .begin = begin, .stretch = stretch};
}

int64_t DataPacketAt(const DataLayout& layout, int64_t part, int64_t in_part) {
  if (layout.turn_packets == 0) return part * layout.part_packets + in_part;
  const int64_t first = in_part / layout.turn_packets * layout.turn_packets;
  const int64_t stretch = std::min(layout.turn_packets, layout.part_packets - first);
  return layout.parts * first + part * stretch + in_part - first;
}

uint32_t TurnOf(const ControlHeader& header, uint32_t path_mtu, uint32_t message_packets,
                uint32_t window_messages) {
  if (header.collective != Collective::kAllGather || header.parts == 1) return 0;
  const DataLayout layout = LayoutOf(header, path_mtu, message_packets);
  if (layout.packets() <= int64_t{window_messages} * message_packets) return 0;
  const uint32_t turn = TurnLength(window_messages, header.parts);
  return turn < PartMessages(layout, message_packets) ? turn : 0;
}

uint64_t CallBytes(const ControlHeader& header) {
  return header.count * ElementBytes(header.type) * std::max<uint64_t>(header.parts, 1);
}

bool MayInline(const ControlHeader& header, uint64_t message_bytes, uint64_t inline_bytes) {
  const uint64_t bytes = CallBytes(header);
  return bytes > 0 && bytes <= inline_bytes && kControlBytes + bytes <= message_bytes && !IsByHosts(header) &&
         !IsRequest(header);
}

uint32_t ControlPacketBytes(const DataLayout& layout, uint32_t path_mtu, int64_t at) {
  const uint64_t begin = static_cast<uint64_t>(at) * path_mtu;
  return static_cast<uint32_t>(std::min<uint64_t>(path_mtu, layout.control_bytes() - begin));
}

uint32_t DataPacketBytes(const DataLayout& layout, uint32_t path_mtu, int64_t at) {
  const uint64_t begin = static_cast<uint64_t>(PlaceOf(layout, at).in_part) * path_mtu;
  return static_cast<uint32_t>(std::min<uint64_t>(path_mtu, layout.part_bytes - begin));
}

namespace {

// What the callers of a call in blocks have is of a type that becomes blocks.
ControlField WrongInBlocks(const ControlHeader& header) {
  if (!IsInBlocks(header)) return ControlField::kNone;
  if (!MayBeInBlocks(header.called)) return ControlField::kType;
  return header.last >= 1 && header.last <= kBlockElements ? ControlField::kNone : ControlField::kCount;
}

// One that asks for memory in switches, or has been granted some: with data that go there.
bool MayHaveMemory(const ControlHeader& header) {
  if (IsRequest(header) && (IsGranted(header) || (header.flags & kInlinedFlag) != 0 || header.turn != 0))
    return false;
  return header.count > 0 && header.collective != Collective::kBarrier && !IsByHosts(header);
}

}  // namespace

uint32_t PartRoot(const ControlHeader& header, int64_t part) {
  return HasPartPerRank(header.collective) ? static_cast<uint32_t>(part) : header.root;
}

bool Sends(const ControlHeader& header, int64_t part, std::span<const uint32_t> ranks) {
  return Reduces(header.collective) ? !ranks.empty() : Contains(ranks, PartRoot(header, part));
}

bool Receives(const ControlHeader& header, int64_t part, std::span<const uint32_t> ranks) {
  if (header.collective == Collective::kAllReduce) return !ranks.empty();
  const bool has_root = Contains(ranks, PartRoot(header, part));
  return Reduces(header.collective) ? has_root : ranks.size() > (has_root ? 1u : 0u);
}

ControlField WrongField(const ControlHeader& header, uint32_t world_size) {
  if (header.root >= world_size) return ControlField::kRoot;
  if (header.parts != (HasPartPerRank(header.collective) ? world_size : 1)) return ControlField::kParts;
  if (header.turn != 0 &&
      (header.collective != Collective::kAllGather || IsInlined(header) || IsByHosts(header)))
    return ControlField::kFlags;
  if ((header.flags & (kRequestFlag | kGrantedFlag)) != 0 && !MayHaveMemory(header))
    return ControlField::kFlags;
  if (header.collective == Collective::kBarrier) {
    return header.count == 0 ? ControlField::kNone : ControlField::kCount;
  }
  const bool may_be_later = IsByHosts(header);
  if (header.type == DataType::kNone || (IsLater(header.type) && !may_be_later)) return ControlField::kType;
  if (Reduces(header.collective) == (header.op == ReduceOp::kNone)) return ControlField::kOp;
  if (IsLater(header.op) && !may_be_later) return ControlField::kOp;
  const uint64_t most = kMaxBytes / LeastElementBytes(header.type) / header.parts;
  return header.count <= most ? WrongInBlocks(header) : ControlField::kCount;
}

ControlField WrongField(const ControlHeader& header, uint32_t world_size, uint64_t message_bytes) {
  const ControlField wrong = WrongField(header, world_size);
  if (wrong != ControlField::kNone || (header.flags & kInlinedFlag) == 0) return wrong;
  return MayInline(header, message_bytes, message_bytes) ? ControlField::kNone : ControlField::kFlags;
}

}  // namespace epic
