// Systems with switches: the edges of their tree, and what each packet on one must be.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "check/system.h"
#include "commlib/core/slices.h"

namespace epic::check {
namespace {

roce::Opcode OpcodeOf(int64_t packet, int64_t packets, uint32_t message_packets) {
  const bool first = packet % message_packets == 0;
  const bool last = packet == packets - 1 || packet % message_packets == message_packets - 1;
  if (first) return last ? roce::Opcode::kRcSendOnly : roce::Opcode::kRcSendFirst;
  return last ? roce::Opcode::kRcSendLast : roce::Opcode::kRcSendMiddle;
}

}  // namespace

// As if there were no other group, but for the numbers of its hosts.
void System::LayOutTree(int group) {
  for (int n = 1; n < switches() + hosts(); ++n) {
    Edge edge{.group = group, .ranks = {}, .up = {}, .down = {}};
    edge.child = is_host(n) ? n + group * hosts() : n;
    edge.parent = is_host(n) ? config_.tree.rank_switch[static_cast<size_t>(n - switches())]
                             : config_.tree.switch_parent[static_cast<size_t>(n)];
    for (int h = 0; h < hosts(); ++h) {
      int at = switches() + h;
      while (at != n && at > 0) {
        at = is_host(at) ? config_.tree.rank_switch[static_cast<size_t>(at - switches())]
                         : config_.tree.switch_parent[static_cast<size_t>(at)];
      }
      if (at == n) edge.ranks.push_back(static_cast<uint32_t>(h));
    }
    AddPorts(edge);
    LayOut(edge);
    edges_.push_back(std::move(edge));
  }
}

void System::LayOutServers() {
  for (int group = 0; group < groups(); ++group) {
    Edge edge{.kind = Edge::Kind::kLeg, .group = group, .ranks = {}, .up = {}, .down = {}};
    edge.child = hosts_end() + group;
    AddPorts(edge);
    edges_.push_back(std::move(edge));
  }
}

// Of the edge that comes next.
void System::AddPorts(Edge& edge) {
  for (const auto& [node, port] :
       {std::pair{edge.child, &edge.child_port}, std::pair{edge.parent, &edge.parent_port}}) {
    *port = static_cast<PortId>(ports(node));
    ports_[static_cast<size_t>(node)].push_back(static_cast<int>(edges_.size()));
  }
}

std::vector<Invocation> System::Invocations() const {
  std::vector<Invocation> invocations;
  for (size_t call = 0; call < config_.calls.size(); ++call) {
    const ControlHeader& header = config_.calls[call];
    const uint64_t bytes = CallBytes(header);
    const bool is_cut = bytes > config_.invocation_bytes;
    const uint64_t most = is_cut ? config_.invocation_bytes / ElementBytes() / header.parts : header.count;
    const uint64_t slices = is_cut ? SlicesOf(header.count, most) : 1;
    const auto slice_of = [&](uint64_t at) { return is_cut ? HeaderOfSlice(header, most, at) : header; };
    const bool asks_for_it = asks() && bytes > 0;
    if (asks_for_it) {
      ControlHeader request = slice_of(0);
      request.flags = (request.flags & ~kInlinedFlag) | kRequestFlag;
      request.turn = 0;
      // Blocks have room for the group's whole window.
      request.window = config_.window_messages;
      invocations.push_back({.call = call, .header = request});
    }
    for (uint64_t at = 0; at < slices; ++at) {
      Invocation slice{.call = call, .header = slice_of(at)};
      if (is_cut) {
        slice.first = SliceAt(header.count, most, at).first;
        slice.header.turn = TurnOf(slice.header, kPathMtu, config_.message_packets, config_.window_messages);
      }
      if (asks_for_it) slice.header.flags |= kGrantedFlag;
      invocations.push_back(slice);
    }
  }
  return invocations;
}

// The header, which is numbered, and behind it what inlined data are when these ranks have added theirs.
std::vector<Carried> System::ControlMessage(const Invocation& invocation, std::span<const uint32_t> ranks,
                                            Index first, int group) const {
  ControlHeader header = invocation.header;
  const DataLayout layout = LayoutOf(header, kPathMtu, config_.message_packets);
  std::vector<uint8_t> message(layout.control_bytes());
  Encode(header, std::span(message).first<kControlBytes>());
  const uint64_t elements = layout.inlined_bytes / ElementBytes();
  for (uint64_t i = 0; i < elements; ++i) {
    const uint64_t element =
        ElementOf(invocation.call, static_cast<int64_t>(i / header.count), i % header.count, ranks, group);
    std::memcpy(message.data() + kControlBytes + i * ElementBytes(), &element, ElementBytes());
  }
  std::vector<Carried> carried;
  for (int64_t at = 0; at < layout.control_packets; ++at) {
    const auto begin = message.begin() + at * kPathMtu;
    const bool last = at == layout.control_packets - 1;
    carried.push_back({.index = first + at,
                       .has_data = layout.inlined_bytes > 0,
                       .opcode = at == 0 ? last ? roce::Opcode::kRcSendOnlyImm : roce::Opcode::kRcSendFirst
                                 : last  ? roce::Opcode::kRcSendLastImm
                                         : roce::Opcode::kRcSendMiddle,
                       .imm = last ? static_cast<uint32_t>(header.invocation) : 0,
                       .payload = {begin, begin + ControlPacketBytes(layout, kPathMtu, at)},
                       .is_control = true});
  }
  if (!IsRequest(header)) return carried;
  header.status = ControlStatus::kBusy;
  carried.front().is_request = true;
  carried.front().busy.resize(kControlBytes);
  Encode(header, std::span(carried.front().busy).first<kControlBytes>());
  return carried;
}

std::vector<Carried> System::Direction(std::span<const Invocation> invocations,
                                       std::span<const uint32_t> ranks, bool up, int group) const {
  std::vector<uint32_t> all(static_cast<size_t>(hosts()));
  std::iota(all.begin(), all.end(), 0u);
  std::vector<Carried> carried;
  Index index = 0;
  for (const Invocation& invocation : invocations) {
    const ControlHeader& header = invocation.header;
    for (Carried& control : ControlMessage(invocation, up ? ranks : all, index, group)) {
      carried.push_back(std::move(control));
      ++index;
    }
    const auto before = static_cast<int64_t>(invocation.first / ElementsOfPacket());
    const DataLayout layout = LayoutOf(header, kPathMtu, config_.message_packets);
    for (int64_t at = 0; at < layout.packets(); ++at, ++index) {
      const DataPlace place = PlaceOf(layout, at);
      if (!(up ? Sends(header, place.part, ranks) : Receives(header, place.part, ranks))) continue;
      carried.push_back({.index = index,
                         .has_data = true,
                         .tracked = !SendersReceive(header.collective),
                         .shares_bytes = config_.bounces && SendersReceive(header.collective),
                         .opcode = OpcodeOf(place.in_part, layout.part_packets, config_.message_packets),
                         .payload = Reduced(invocation.call, place.part, before + place.in_part,
                                            up && Reduces(header.collective) ? ranks : all, group)});
    }
  }
  return carried;
}

void System::LayOut(Edge& edge) const {
  std::vector<Invocation> invocations = Invocations();
  for (size_t number = 0; number < invocations.size(); ++number)
    invocations[number].header.invocation = number;
  edge.up = Direction(invocations, edge.ranks, true, edge.group);
  edge.down = Direction(invocations, edge.ranks, false, edge.group);
  if (!is_host(edge.child)) return;
  for (Carried& carried : edge.up) carried.busy.clear();
  if (IsPulled(edge)) edge.up = WithoutData(std::move(edge.up));
}

}  // namespace epic::check
