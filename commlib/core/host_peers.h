// Who speaks with whom between the hosts: a cube of ranks for agreement and small data, a ring for large data
// (docs/PROTOCOL.md, section 11.1).
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/bounds.h"

namespace epic {

// The cube of n ranks: `members`, the largest power of two that is at most n, and as many folded ranks as
// are left.
struct HostCube {
  uint32_t ranks = 2;
  uint32_t members = 2;
  uint32_t folded = 0;

  // world_size is from 2 to kMaxHostRanks.
  static HostCube Of(uint32_t world_size);

  // An odd rank of the first ones: it speaks with the rank before it, its proxy, only.
  bool IsFolded(uint32_t rank) const { return rank < 2 * folded && rank % 2 == 1; }
  bool IsProxy(uint32_t rank) const { return rank < 2 * folded && rank % 2 == 0; }
  // The member that the rank is, or that its proxy is.
  uint32_t MemberOf(uint32_t rank) const { return rank < 2 * folded ? rank / 2 : rank - folded; }
  // The rank that the member is. Of `members`, the number of ranks: ranks of members a to b - 1 and of those
  // folded to them are RankOf(a) to RankOf(b) - 1.
  uint32_t RankOf(uint32_t member) const { return member < folded ? 2 * member : member + folded; }
};

// The ranks that this one has a connection with, if it uses all algorithms: ascending, at most log2 n + 2.
std::vector<uint32_t> PeersOf(uint32_t rank, uint32_t world_size);

// Connections of a rank are numbered: that with a peer, by its rank; that with a neighbour on the ring by
// which lost datagrams are fetched, by this and its rank; the queue pair for datagrams.
inline constexpr uint32_t kFetchRing = kMaxHostRanks;
inline constexpr uint32_t kDatagrams = 2 * kMaxHostRanks;
// The rank at the other end; not of kDatagrams.
constexpr uint32_t RankAt(uint32_t connection) { return connection % kFetchRing; }
constexpr bool IsOfFetchRing(uint32_t connection) {
  return connection >= kFetchRing && connection < kDatagrams;
}

// The rank's neighbours on the fetch ring, as connections: ascending; one if there are two ranks.
std::vector<uint32_t> FetchRingOf(uint32_t rank, uint32_t world_size);
// The number that the other end has for a connection of the rank.
constexpr uint32_t AtOtherEnd(uint32_t rank, uint32_t connection) {
  return connection - RankAt(connection) + rank;
}

// Those of its peers that it exchanges with: ascending.
std::vector<uint32_t> CubePeersOf(uint32_t rank, uint32_t world_size);

}  // namespace epic
