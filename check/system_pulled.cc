// What switches and hosts send each other where the switches read and write hosts' memory
// (docs/PROTOCOL-MODE-VI.md). Reads, Writes and replies are mixed as they become possible, so a packet is
// judged by what it is and where its data go, and not by its PSN.
#include <fmt/format.h>

#include <algorithm>

#include "check/system.h"
#include "protocol/descriptor.h"

namespace epic::check {

bool System::IsPulled(const Edge& edge) const {
  return !by_hosts() && is_host(edge.child) && ReadsHosts(config_.mode.At(static_cast<size_t>(edge.parent)));
}

// Of a host the control messages alone: it sends nothing else.
std::vector<Carried> System::WithoutData(std::vector<Carried> carried) {
  std::erase_if(carried, [](const Carried& each) { return !each.is_control; });
  return carried;
}

std::optional<Breach> System::JudgePulled(int node, const Edge& edge, const roce::Packet& packet) const {
  const roce::OpcodeInfo& info = roce::Info(packet.bth.opcode);
  const bool reads = packet.bth.opcode == roce::Opcode::kRcReadRequest ||
                     (packet.bth.opcode >= roce::Opcode::kRcReadResponseFirst &&
                      packet.bth.opcode <= roce::Opcode::kRcReadResponseOnly);
  // What is asked for a host's NIC looks at; what comes of it is in the sums.
  if (reads || !Judges(Invariant::kPayload)) return {};
  const bool up = edge.child == node;
  const bool writes = !up && packet.bth.opcode >= roce::Opcode::kRcWriteFirst &&
                      packet.bth.opcode <= roce::Opcode::kRcWriteOnly;
  if (writes && info.reth) {
    if (const auto place = sim::PlaceForSwitch(packet.reth.rkey, packet.reth.virtual_address))
      return JudgeWrite(edge, *place, packet);
  }
  const auto same = [&](const Carried& each) {
    if (each.is_control == writes || (!writes && each.opcode != packet.bth.opcode)) return false;
    const size_t behind = packet.payload.size() - std::min(packet.payload.size(), each.payload.size());
    const bool described = up && each.payload.size() == kControlBytes && behind == kDescriptorBytes;
    return (behind == 0 || described) && each.payload.size() <= packet.payload.size() &&
           std::ranges::equal(each.payload, packet.payload.first(each.payload.size()));
  };
  if (std::ranges::any_of(up ? edge.up : edge.down, same)) return {};
  return Breach{Invariant::kPayload, fmt::format("carries a payload that is no {}",
                                                 writes ? "result" : "control message of this direction")};
}

// The first packet of a Write into the buffer of a call.
std::optional<Breach> System::JudgeWrite(const Edge& edge, const sim::PlaceOfPulled& place,
                                         const roce::Packet& packet) const {
  const auto wrong = [](const char* what) { return Breach{Invariant::kPayload, what}; };
  if (!place.receives || place.call >= config_.calls.size()) return wrong("writes into what is only read");
  const std::vector<uint8_t> want = Expected(place.call, RankAt(edge.child), edge.group);
  if (place.offset > want.size() || packet.reth.dma_length > want.size() - place.offset)
    return wrong("writes beyond the call's buffer");
  if (!std::ranges::equal(packet.payload, std::span(want).subspan(place.offset, packet.payload.size())))
    return wrong("writes what is not the result at its place");
  return {};
}

}  // namespace epic::check
