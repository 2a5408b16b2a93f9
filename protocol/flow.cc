#include "protocol/flow.h"

#include <algorithm>

namespace epic {
namespace {

bool Contains(std::span<const uint32_t> ranks, uint32_t rank) {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

}  // namespace

DataLayout LayoutOf(const ControlHeader& header, uint32_t path_mtu) {
  const uint64_t bytes = header.count * ElementBytes(header.type);
  DataLayout layout{.parts = std::max<int64_t>(header.parts, 1), .part_bytes = bytes};
  const auto packets = [path_mtu](uint64_t of) {
    return static_cast<int64_t>((of + path_mtu - 1) / path_mtu);
  };
  if (IsInlined(header)) {
    layout.inlined_bytes = CallBytes(header);
    layout.control_packets = packets(layout.control_bytes());
  } else if (!IsByHosts(header)) {
    layout.part_packets = packets(bytes);
  }
  return layout;
}

uint64_t CallBytes(const ControlHeader& header) {
  return header.count * ElementBytes(header.type) * std::max<uint64_t>(header.parts, 1);
}

bool MayInline(const ControlHeader& header, uint64_t message_bytes, uint64_t inline_bytes) {
  const uint64_t bytes = CallBytes(header);
  return bytes > 0 && bytes <= inline_bytes && kControlBytes + bytes <= message_bytes && !IsByHosts(header);
}

uint32_t ControlPacketBytes(const DataLayout& layout, uint32_t path_mtu, int64_t at) {
  const uint64_t begin = static_cast<uint64_t>(at) * path_mtu;
  return static_cast<uint32_t>(std::min<uint64_t>(path_mtu, layout.control_bytes() - begin));
}

uint32_t DataPacketBytes(const DataLayout& layout, uint32_t path_mtu, int64_t at) {
  const uint64_t begin = static_cast<uint64_t>(at % layout.part_packets) * path_mtu;
  return static_cast<uint32_t>(std::min<uint64_t>(path_mtu, layout.part_bytes - begin));
}

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
  if (header.collective == Collective::kBarrier) {
    return header.count == 0 ? ControlField::kNone : ControlField::kCount;
  }
  const bool may_be_later = IsByHosts(header);
  if (header.type == DataType::kNone || (IsLater(header.type) && !may_be_later)) return ControlField::kType;
  if (Reduces(header.collective) == (header.op == ReduceOp::kNone)) return ControlField::kOp;
  if (IsLater(header.op) && !may_be_later) return ControlField::kOp;
  const uint64_t most = kMaxBytes / LeastElementBytes(header.type) / header.parts;
  return header.count <= most ? ControlField::kNone : ControlField::kCount;
}

ControlField WrongField(const ControlHeader& header, uint32_t world_size, uint64_t message_bytes) {
  const ControlField wrong = WrongField(header, world_size);
  if (wrong != ControlField::kNone || (header.flags & kInlinedFlag) == 0) return wrong;
  return MayInline(header, message_bytes, message_bytes) ? ControlField::kNone : ControlField::kFlags;
}

}  // namespace epic
