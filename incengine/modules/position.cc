#include "incengine/modules/position.h"

namespace epic::engine {

std::optional<Position> Locate(const Context& ctx, Index index) {
  for (auto it = ctx.invocations.rbegin(); it != ctx.invocations.rend(); ++it) {
    if (index < it->control_index) continue;
    if (index > it->control_index + it->data_packets) return std::nullopt;
    return Position{
        .invocation = &*it, .control = index == it->control_index, .at = index - it->control_index - 1};
  }
  return std::nullopt;
}

roce::Opcode OpcodeAt(const Context& ctx, const Position& position) {
  if (position.control) return roce::Opcode::kRcSendOnlyImm;
  const int64_t m = ctx.config.message_packets;
  const bool first = position.at % m == 0;
  const bool last = position.at % m == m - 1 || position.at == position.invocation->data_packets - 1;
  if (first && last) return roce::Opcode::kRcSendOnly;
  if (first) return roce::Opcode::kRcSendFirst;
  return last ? roce::Opcode::kRcSendLast : roce::Opcode::kRcSendMiddle;
}

uint32_t BytesAt(const Context& ctx, const Position& position) {
  if (position.control) return kControlBytes;
  return DataPacketBytes(position.invocation->header, ctx.config.path_mtu, position.at);
}

void OpenInvocation(Context& ctx, const ControlHeader& header) {
  const Invocation* last = ctx.invocations.empty() ? nullptr : &ctx.invocations.back();
  const Invocation invocation{.number = last ? last->number + 1 : 0,
                              .header = header,
                              .control_index = last ? last->control_index + 1 + last->data_packets : 0,
                              .data_packets = DataPackets(header, ctx.config.path_mtu)};
  ctx.invocations.push_back(invocation);
  while (static_cast<int64_t>(ctx.invocations.size()) > kKeptInvocations) ctx.invocations.pop_front();
  if (!ctx.is_root()) {
    ctx.parent.in.Open(invocation.number, invocation.data_packets, ctx.config.message_packets);
    ctx.parent.out.Open(invocation.number, invocation.data_packets, ctx.config.message_packets);
  }
}

}  // namespace epic::engine
