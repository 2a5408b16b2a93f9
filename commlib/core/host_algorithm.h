// By which algorithm the hosts compute a call (docs/PROTOCOL.md, section 11.5).
#pragma once

#include <cstdint>
#include <limits>

#include "protocol/control.h"

namespace epic {

enum class Algorithm : uint8_t {
  kAuto = 0,  // by size and number of ranks; as ChooseAlgorithm and IsInlinedByHosts say
  kDoubling =
      1,      // data in the messages by which the ranks agree on the call: recursive doubling, binomial trees
  kRing = 2,  // data in pieces around the ring of ranks
  kMulticast = 3,  // Broadcast and AllGather by datagrams (docs/PROTOCOL-MULTICAST.md), else as by kAuto
};

// In ControlHeader::flags, which algorithm a rank was told to use, or kMulticast where kAuto has chosen that.
constexpr uint32_t AlgorithmFlags(Algorithm algorithm) { return static_cast<uint32_t>(algorithm) << 4; }
static_assert(AlgorithmFlags(Algorithm::kMulticast) == kMulticastFlags);
constexpr Algorithm AlgorithmIn(uint32_t flags) {
  return static_cast<Algorithm>((flags & kAlgorithmFlags) >> 4);
}

// "auto", "doubling", "ring" or "multicast": the one in a header's flags.
const char* AlgorithmName(uint32_t flags);

// Bytes of a call, of all parts together, with which kAuto sends it by multicast.
struct MulticastBytes {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  uint64_t most = 0;
  constexpr bool Have(uint64_t bytes) const { return bytes >= least && bytes <= most; }
};
// None are had of a call that never goes so.
MulticastBytes BytesByMulticast(Collective collective, uint32_t world_size);
// Whether kAuto sends some call so: who has so many ranks makes a queue pair for it.
bool MayChooseMulticast(uint32_t world_size);

// kMulticast if a rank was told kAuto, the group has datagrams, and that is the shorter way for a call of so
// many bytes; else as told. By what all ranks have alike. All slices of a call go by the same.
Algorithm ChooseAlgorithm(Collective collective, uint64_t call_bytes, uint32_t world_size, Algorithm told,
                          bool has_datagrams);

// Of ChooseAlgorithm: whether the call's data travel in the exchange (its kInlinedFlag); if not, around the
// ring. False for a call without data. inline_bytes: the most that fit there.
bool IsInlinedByHosts(const ControlHeader& header, uint32_t world_size, Algorithm algorithm,
                      uint64_t inline_bytes);

// Of ChooseAlgorithm: whether the call's data go as datagrams; if not, IsInlinedByHosts tells. False for a
// call without data.
bool IsByMulticast(const ControlHeader& header, Algorithm algorithm);

// Bytes of all shares of a ReduceScatter together from which on it takes less time between the hosts than
// through switches: the ring has (n - 1)/n of them on a host's link, the switches' way all, and so much saves
// more than the ring's n - 1 steps cost (docs/adr/0020).
uint64_t LeastShorterByHosts(uint32_t world_size);

// Whether a call is such a ReduceScatter, of a type that is not rounded more often there: of FP16 and BF16
// switches round a sum once, the ring at every rank.
bool IsShorterByHosts(const ControlHeader& header);

}  // namespace epic
