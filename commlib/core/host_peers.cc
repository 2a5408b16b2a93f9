#include "commlib/core/host_peers.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace epic {
namespace {

// The neighbours on the ring, numbered from `first` on, beside `others`: ascending, each once.
std::vector<uint32_t> WithNeighbours(std::vector<uint32_t> others, uint32_t first, uint32_t rank,
                                     uint32_t world_size) {
  others.push_back(first + (rank + 1) % world_size);
  others.push_back(first + (rank + world_size - 1) % world_size);
  std::ranges::sort(others);
  others.erase(std::unique(others.begin(), others.end()), others.end());
  return others;
}

}  // namespace

HostCube HostCube::Of(uint32_t world_size) {
  EPIC_CHECK(world_size >= 2 && world_size <= kMaxHostRanks);
  const uint32_t members = std::bit_floor(world_size);
  return {.ranks = world_size, .members = members, .folded = world_size - members};
}

std::vector<uint32_t> CubePeersOf(uint32_t rank, uint32_t world_size) {
  const HostCube cube = HostCube::Of(world_size);
  EPIC_CHECK(rank < world_size);
  if (cube.IsFolded(rank)) return {rank - 1};
  std::vector<uint32_t> peers;
  const uint32_t member = cube.MemberOf(rank);
  for (uint32_t bit = 1; bit < cube.members; bit *= 2) peers.push_back(cube.RankOf(member ^ bit));
  if (cube.IsProxy(rank)) peers.push_back(rank + 1);
  std::ranges::sort(peers);
  return peers;
}

std::vector<uint32_t> PeersOf(uint32_t rank, uint32_t world_size) {
  return WithNeighbours(CubePeersOf(rank, world_size), 0, rank, world_size);
}

std::vector<uint32_t> FetchRingOf(uint32_t rank, uint32_t world_size) {
  return WithNeighbours({}, kFetchRing, rank, world_size);
}

}  // namespace epic
