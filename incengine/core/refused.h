// Which endpoints send what is refused again and again: what stops a group for ever without that anything is
// lost (docs/PROTOCOL-CONTROL.md, section 7.4). The manager is told, and decides.
#pragma once

#include <cstdint>
#include <vector>

#include "incengine/core/engine.h"

namespace epic::engine {

// Told are packets that were refused for so long, so many of them at least, the last of them not longer ago
// than kRefusedLately. A host that repeats does so about once a second.
inline constexpr Nanos kRefusedFor = 2 * kSecond;
inline constexpr uint32_t kRefusedPackets = 3;
inline constexpr Nanos kRefusedLately = 5 * kSecond;
// In one description.
inline constexpr size_t kMostRefused = 64;

// Whether a packet that is refused for this is refused again whenever it is repeated.
bool IsLasting(DropReason reason);

// Takes note of a packet of the endpoint's QPN that was dropped for this reason. What comes from a stranger
// by another port than the edge's says nothing of the endpoint. A packet that was dropped for a reason that
// passes ends a row of refusals, as one that was used does.
void NoteRefusal(Nanos now, PortId port, const Ip& source, DropReason reason, Endpoint* endpoint);

struct RefusedEndpoint {
  uint64_t group_id = 0;
  uint32_t generation = 0;
  Qpn local_qpn{};
  Refusals refusals;
};

// Of groups that run, those that are to be told: by group, at most kMostRefused.
std::vector<RefusedEndpoint> RefusedEndpoints(const Engine& engine, Nanos now);

}  // namespace epic::engine
