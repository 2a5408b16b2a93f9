#include "check/conform/group.h"

#include <algorithm>

namespace epic::conform {

GroupModel::GroupModel(const engine::GroupConfig& config) : config_(config) {
  const auto add = [&](const engine::EndpointConfig& endpoint) {
    End& end = ends_.emplace_back();
    end.config = endpoint;
    end.in = Stream(endpoint.in_psn, config.message_packets);
    end.out = Stream(endpoint.out_psn, config.message_packets);
  };
  for (const engine::EndpointConfig& child : config.children) {
    add(child);
    first_rank_.push_back(child.ranks.empty() ? 0 : child.ranks.front());
  }
  if (config.parent) add(*config.parent);
}

const Call* GroupModel::CallOf(Index index) const {
  const auto it = std::ranges::partition_point(calls_, [&](const Call& c) { return c.end() <= index; });
  return it != calls_.end() && it->control_index <= index ? &*it : nullptr;
}

GroupModel::Shape GroupModel::ShapeOf(const Call& call, Index index) const {
  if (call.InControl(index)) {
    const int64_t at = index - call.control_index;
    const bool ends = index == MessageEnd(call, index);
    roce::Opcode opcode = ends ? roce::Opcode::kRcSendLastImm : roce::Opcode::kRcSendMiddle;
    if (at == 0) opcode = ends ? roce::Opcode::kRcSendOnlyImm : roce::Opcode::kRcSendFirst;
    return {opcode, ControlPacketBytes(call.layout, config_.path_mtu, at)};
  }
  const int64_t at = index - call.data_index();
  const int64_t in_part = PlaceOf(call.layout, at).in_part;
  const bool starts = in_part % config_.message_packets == 0;
  const bool ends = index == MessageEnd(call, index);
  roce::Opcode opcode = starts ? roce::Opcode::kRcSendFirst : roce::Opcode::kRcSendMiddle;
  if (ends) opcode = starts ? roce::Opcode::kRcSendOnly : roce::Opcode::kRcSendLast;
  return {opcode, DataPacketBytes(call.layout, config_.path_mtu, at)};
}

GroupModel::Shape GroupModel::ShapeOf(const Call& call, Index index, const roce::Packet& packet) const {
  const auto header = index == call.control_index ? HeaderOf(packet.payload) : std::nullopt;
  if (header && header->status != ControlStatus::kOk) return {roce::Opcode::kRcSendOnlyImm, kControlBytes};
  return ShapeOf(call, index);
}

Index GroupModel::MessageEnd(const Call& call, Index index) const {
  if (call.InControl(index)) return call.data_index() - 1;
  const int64_t in_part = PlaceOf(call.layout, index - call.data_index()).in_part;
  const int64_t m = config_.message_packets;
  return index - in_part + std::min(in_part / m * m + m, call.layout.part_packets) - 1;
}

bool GroupModel::Acknowledged(Index index) const {
  const Call* call = CallOf(index);
  return call != nullptr && IsAcknowledged(*call, index);
}

Index GroupModel::FirstAwaited(End& end) {
  end.awaited = std::max(end.awaited, end.acked);
  for (; end.awaited < end.sent; ++end.awaited) {
    const auto index = end.out.IndexAt(end.awaited);
    if (index && Acknowledged(*index)) return *index;
  }
  return INT64_MAX;
}

// Mode III's pipes (docs/PROTOCOL-MODE-III.md, "State").
Index GroupModel::UpStart() { return is_root() ? results_end_ : FirstUnacknowledged(parent()); }

Index GroupModel::DownStart() {
  Index start = is_root() ? results_end_ : parent().in.IndexAt(parent().taken).value_or(0);
  for (size_t c = 0; c < children(); ++c) start = std::min(start, FirstUnacknowledged(ends_[c]));
  return start;
}

void GroupModel::OnOut(size_t end, const roce::Packet& packet, Judge& judge) {
  if (packet.bth.opcode == roce::Opcode::kRcAck) return JudgeAeth(end, packet, judge);
  if (packet.bth.opcode == roce::Opcode::kCnp) return JudgeCnp(end, judge);
  JudgeData(end, packet, judge);
}

}  // namespace epic::conform
