#include "commlib/core/host_peers.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace epic {

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
  std::vector<uint32_t> peers = CubePeersOf(rank, world_size);
  peers.push_back((rank + 1) % world_size);
  peers.push_back((rank + world_size - 1) % world_size);
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

std::vector<uint32_t> FetchRingOf(uint32_t rank, uint32_t world_size) {
  std::vector<uint32_t> ends = {kFetchRing + (rank + 1) % world_size,
                                kFetchRing + (rank + world_size - 1) % world_size};
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

}  // namespace epic
