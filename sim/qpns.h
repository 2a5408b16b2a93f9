// The numbers of a world's queue pairs: each says which group it belongs to, and what it is there.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace epic::sim {

// A group takes a block of QPNs. In it are the ends of the edge above a switch or a rank, and what its ranks
// have to each other.
inline constexpr int kQpnBlocks = 128;
inline constexpr uint32_t kGroupQpns = (kQpnMask + 1) / kQpnBlocks;
inline constexpr uint32_t kUpperQpn = 0x100;    // at the parent
inline constexpr uint32_t kLowerQpn = 0x10000;  // at the child
inline constexpr uint32_t kPeerQpn = 0x18000;

constexpr uint32_t BlockOf(Qpn qpn) { return Raw(qpn) / kGroupQpns; }
// Whether it is of an endpoint at a switch, above a switch or a rank.
constexpr bool IsSwitchQpn(Qpn qpn) { return Raw(qpn) % kGroupQpns < kLowerQpn; }
// Whether it is of a queue pair between ranks.
constexpr bool IsPeerQpn(Qpn qpn) { return Raw(qpn) % kGroupQpns >= kPeerQpn; }

}  // namespace epic::sim
