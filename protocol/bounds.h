// What a group may have at most, for all who refuse more or rely on it. Of data in a control message:
// kMaxInlineBytes in protocol/types.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace epic {

// Ranks: a switch's context keeps a byte for each.
inline constexpr uint32_t kMaxWorldSize = 4096;
// Ranks whose calls go by the hosts: more would have more messages around a ring than a queue pair holds.
inline constexpr uint32_t kMaxHostRanks = 512;
// Endpoints below a switch: a slot has a bit for each.
inline constexpr uint32_t kMaxChildren = 64;
// N, a power of two.
inline constexpr uint32_t kMaxSlots = 1 << 16;
// M*W, in packets. A rank's queue pair is made before the manager says what the group has, so it has room for
// as many.
inline constexpr uint32_t kMaxWindowPackets = 256;
// Of its name, which a switch's context keeps; other names that people give have no more.
inline constexpr size_t kMaxNameBytes = 64;

}  // namespace epic
