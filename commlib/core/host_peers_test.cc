#include "commlib/core/host_peers.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <vector>

#include "gtest/gtest.h"

namespace epic {
namespace {

TEST(HostPeersTest, ARankHasFewPeersAndEachIsItsPeersPeer) {
  for (uint32_t n = 2; n <= kMaxHostRanks; ++n) {
    std::vector<std::vector<uint32_t>> peers, cube;
    for (uint32_t r = 0; r < n; ++r) {
      peers.push_back(PeersOf(r, n));
      cube.push_back(CubePeersOf(r, n));
    }
    for (uint32_t r = 0; r < n; ++r) {
      ASSERT_LE(peers[r].size(), static_cast<size_t>(std::bit_width(n) - 1) + 2) << r << " of " << n;
      ASSERT_TRUE(std::ranges::is_sorted(peers[r], std::less_equal{}) || peers[r].size() == 1);
      ASSERT_TRUE(std::ranges::binary_search(peers[r], (r + 1) % n));
      ASSERT_TRUE(std::ranges::binary_search(peers[r], (r + n - 1) % n));
      ASSERT_TRUE(std::ranges::includes(peers[r], cube[r]));
      for (const uint32_t q : peers[r]) {
        ASSERT_NE(q, r);
        ASSERT_TRUE(std::ranges::binary_search(peers[q], r)) << r << " and " << q << " of " << n;
      }
      for (const uint32_t q : cube[r]) ASSERT_TRUE(std::ranges::binary_search(cube[q], r));
    }
  }
}

// Blocks of the cube are contiguous in ranks, and have every rank once.
TEST(HostPeersTest, MembersAreInTheOrderOfRanks) {
  for (uint32_t n = 2; n <= kMaxHostRanks; ++n) {
    const HostCube cube = HostCube::Of(n);
    EXPECT_EQ(cube.RankOf(0), 0u);
    EXPECT_EQ(cube.RankOf(cube.members), n);
    for (uint32_t r = 0; r < n; ++r) {
      const uint32_t member = cube.MemberOf(r);
      EXPECT_EQ(cube.RankOf(member), cube.IsFolded(r) ? r - 1 : r);
      EXPECT_LT(r, cube.RankOf(member + 1));
      EXPECT_EQ(cube.IsProxy(r), r + 1 < n && cube.IsFolded(r + 1));
    }
  }
}

// Of six ranks 1 and 3 are folded, and 0, 2, 4 and 5 are the cube.
TEST(HostPeersTest, AsTheTableSays) {
  EXPECT_EQ(CubePeersOf(1, 6), (std::vector<uint32_t>{0}));
  EXPECT_EQ(CubePeersOf(0, 6), (std::vector<uint32_t>{1, 2, 4}));
  EXPECT_EQ(PeersOf(0, 6), (std::vector<uint32_t>{1, 2, 4, 5}));
  EXPECT_EQ(PeersOf(4, 6), (std::vector<uint32_t>{0, 3, 5}));
  EXPECT_EQ(PeersOf(1, 2), (std::vector<uint32_t>{0}));
  EXPECT_EQ(PeersOf(0, 512).size(), 10u) << "a neighbour on the ring is one in the cube";
}

}  // namespace
}  // namespace epic
