#include "incengine/modules/position.h"

#include <bit>
#include <utility>
#include <vector>

namespace epic::engine {

std::optional<Position> Locate(const Context& ctx, Index index) {
  for (auto it = ctx.invocations.rbegin(); it != ctx.invocations.rend(); ++it) {
    if (index < it->control_index) continue;
    if (index >= it->end()) return std::nullopt;
    const bool control = index < it->data_index();
    return Position{.invocation = &*it,
                    .control = control,
                    .at = index - (control ? it->control_index : it->data_index())};
  }
  return std::nullopt;
}

bool IsTracked(const Position& position) {
  return !position.control && !SendersReceive(position.invocation->header.collective);
}

namespace {

// The child with the part's root below it, as a mask: empty if it is elsewhere.
uint64_t ChildOfRoot(const Context& ctx, const Position& position) {
  const uint8_t child = ctx.child_of_rank[PartRoot(position.invocation->header, PlaceOf(position).part)];
  return child == kNoChild ? 0 : uint64_t{1} << child;
}

}  // namespace

uint64_t FanIn(const Context& ctx, const Position& position) {
  if (position.control || Reduces(position.invocation->header.collective)) return ctx.all_children();
  return ChildOfRoot(ctx, position);
}

uint64_t Outs(const Context& ctx, const Position& position) {
  if (!IsTracked(position)) return ctx.all_children();
  const uint64_t of_root = ChildOfRoot(ctx, position);
  if (Reduces(position.invocation->header.collective)) return of_root;
  if (of_root == 0) return ctx.all_children();
  // The root does not get its own data; others below the same child do.
  const auto child = static_cast<size_t>(std::countr_zero(of_root));
  return ctx.children[child].config.ranks.size() > 1 ? ctx.all_children() : ctx.all_children() & ~of_root;
}

roce::Opcode ControlOpcode(int64_t at, int64_t packets) {
  if (packets == 1) return roce::Opcode::kRcSendOnlyImm;
  if (at == 0) return roce::Opcode::kRcSendFirst;
  return at == packets - 1 ? roce::Opcode::kRcSendLastImm : roce::Opcode::kRcSendMiddle;
}

roce::Opcode OpcodeAt(const Context& ctx, const Position& position) {
  if (position.control) return ControlOpcode(position.at, position.invocation->layout.control_packets);
  const int64_t m = ctx.config.message_packets;
  const int64_t at = PlaceOf(position).in_part;
  const bool first = at % m == 0;
  const bool last = at % m == m - 1 || at == position.invocation->layout.part_packets - 1;
  if (first && last) return roce::Opcode::kRcSendOnly;
  if (first) return roce::Opcode::kRcSendFirst;
  return last ? roce::Opcode::kRcSendLast : roce::Opcode::kRcSendMiddle;
}

Index MessageStart(const Context& ctx, Index index) {
  const auto position = Locate(ctx, index);
  if (!position) return index;
  if (position->control) return index - position->at;
  return index - PlaceOf(*position).in_part % ctx.config.message_packets;
}

uint32_t BytesAt(const Context& ctx, const Position& position) {
  const DataLayout& layout = position.invocation->layout;
  return position.control ? ControlPacketBytes(layout, ctx.config.path_mtu, position.at)
                          : DataPacketBytes(layout, ctx.config.path_mtu, position.at);
}

namespace {

// The parts of an invocation for which wanted(header, part, ranks) holds, as runs.
template <typename Wanted>
std::vector<PartRun> RunsOf(const Invocation& invocation, std::span<const uint32_t> ranks, Wanted wanted) {
  std::vector<PartRun> runs;
  for (int64_t part = 0; part < invocation.layout.parts; ++part) {
    if (!wanted(invocation.header, part, ranks)) continue;
    if (!runs.empty() && runs.back().first_part + runs.back().parts == part) {
      ++runs.back().parts;
    } else {
      runs.push_back({.first_part = part, .parts = 1});
    }
  }
  return runs;
}

void Open(const Context& ctx, const Invocation& invocation, std::vector<PartRun> runs, Direction& direction) {
  direction.Open(invocation.number, invocation.layout, std::move(runs), ctx.config.message_packets);
}

}  // namespace

void OpenInvocation(Context& ctx, const ControlHeader& header, bool has_data) {
  const Invocation* last = ctx.invocations.empty() ? nullptr : &ctx.invocations.back();
  const Invocation invocation{
      .number = last ? last->number + 1 : 0,
      .header = header,
      .control_index = last ? last->end() : 0,
      .layout = has_data ? LayoutOf(header, ctx.config.path_mtu, ctx.config.message_packets) : DataLayout{}};
  ctx.invocations.push_back(invocation);
  while (static_cast<int64_t>(ctx.invocations.size()) > kKeptInvocations) ctx.invocations.pop_front();
  if (ctx.is_root()) return;
  Open(ctx, invocation, RunsOf(invocation, ctx.ranks, Sends), ctx.parent.out);
  Open(ctx, invocation, RunsOf(invocation, ctx.ranks, Receives), ctx.parent.in);
}

void OpenAtChild(const Context& ctx, const Invocation& invocation, Endpoint& child) {
  Open(ctx, invocation, RunsOf(invocation, child.config.ranks, Sends), child.in);
  Open(ctx, invocation, RunsOf(invocation, child.config.ranks, Receives), child.out);
}

}  // namespace epic::engine
