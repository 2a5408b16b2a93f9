#include "incengine/core/refused.h"

namespace epic::engine {

bool IsLasting(DropReason reason) {
  switch (reason) {
    case DropReason::kStranger:
    case DropReason::kWrongPort:
    case DropReason::kBadPkey:
    case DropReason::kUnexpectedOpcode:
    case DropReason::kBadLength:
    case DropReason::kBadControl:
      return true;
    // Of no endpoint: the manager sees which contexts there are.
    case DropReason::kUnknownQpn:
    // Repaired by what is asked for or repeated; or they are the answer to a repetition.
    case DropReason::kGap:
    case DropReason::kAboveWindow:
    case DropReason::kDuplicate:
    case DropReason::kTooEarly:
    case DropReason::kStaleSlot:
    case DropReason::kUnexpectedResult:
    case DropReason::kAckBeyond:
    // The manager has stopped it.
    case DropReason::kGroupFailed:
    // The switch has ended it itself.
    case DropReason::kRemoteAccess:
    case DropReason::kCount:
      return false;
  }
  return false;
}

void NoteRefusal(Nanos now, PortId port, const Ip& source, DropReason reason, Endpoint* endpoint) {
  Refusals& refusals = endpoint->counters.refusals;
  if (reason == DropReason::kStranger && port != IngressPort(endpoint->config)) return;
  if (!IsLasting(reason)) {
    refusals.packets = 0;
    return;
  }
  // A row is of one reason, port and sender: what it proves together it may not prove of each.
  if (refusals.reason != reason || refusals.port != port || refusals.source != source) refusals.packets = 0;
  if (refusals.packets == 0) refusals.first_at = now;
  if (refusals.packets < UINT32_MAX) ++refusals.packets;
  refusals.reason = reason;
  refusals.port = port;
  refusals.source = source;
  refusals.last_at = now;
}

std::vector<RefusedEndpoint> RefusedEndpoints(const Engine& engine, Nanos now) {
  std::vector<RefusedEndpoint> out;
  for (const auto& of_group : engine.groups()) {
    const auto& group = of_group.second;
    if (group.state != GroupState::kRunning) continue;
    const auto take = [&](const Endpoint& endpoint) {
      const Refusals& refusals = endpoint.counters.refusals;
      const bool told = refusals.packets >= kRefusedPackets &&
                        refusals.last_at - refusals.first_at >= kRefusedFor &&
                        now - refusals.last_at <= kRefusedLately;
      if (told && out.size() < kMostRefused)
        out.push_back({of_group.first, group.config.generation, endpoint.config.local_qpn, refusals});
    };
    for (const Endpoint& child : group.children) take(child);
    if (!group.is_root()) take(group.parent);
  }
  return out;
}

}  // namespace epic::engine
