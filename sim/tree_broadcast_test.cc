#include "sim/tree_broadcast.h"

#include <gtest/gtest.h>

#include "sim/faults.h"

namespace epic::sim {
namespace {

constexpr HostTree kHostTrees[] = {HostTree::kBinomial, HostTree::kFourNomial, HostTree::kBinaryHeap};
constexpr int64_t kRate = 56'000'000'000;
constexpr uint32_t kMtu = 4096;

using Lists = std::vector<std::vector<int>>;

TEST(TreeBroadcastTest, WhoHasMostBelowHimIsFirst) {
  EXPECT_EQ(ChildrenIn(HostTree::kBinomial, 8), (Lists{{4, 2, 1}, {}, {3}, {}, {6, 5}, {}, {7}, {}}));
  EXPECT_EQ(ChildrenIn(HostTree::kBinomial, 6), (Lists{{2, 4, 1}, {}, {3}, {}, {5}, {}}));
  EXPECT_EQ(ChildrenIn(HostTree::kFourNomial, 9),
            (Lists{{4, 1, 2, 3, 8}, {}, {}, {}, {5, 6, 7}, {}, {}, {}, {}}));
  EXPECT_EQ(ChildrenIn(HostTree::kBinaryHeap, 6), (Lists{{1, 2}, {3, 4}, {5}, {}, {}, {}}));
}

TEST(TreeBroadcastTest, TreesHaveNames) {
  EXPECT_EQ(HostTreeNamed("binomial"), HostTree::kBinomial);
  EXPECT_EQ(HostTreeNamed("4-nomial"), HostTree::kFourNomial);
  EXPECT_EQ(HostTreeNamed("binary-heap"), HostTree::kBinaryHeap);
  EXPECT_EQ(HostTreeNamed("4"), std::nullopt);
}

struct TreeRun {
  TreeRun(int hosts, HostTree tree, uint64_t bytes, uint64_t segment, const FaultRates& rates = {})
      : world({.tree = Star(hosts),
               .path_mtu = kMtu,
               .bits_per_second = kRate,
               .host_timeout = 8,
               .arena_bytes = 4 << 20},
              1),
        faults(rates),
        call(world, 0, tree, bytes, segment) {
    world.SetFaultRule([this](const LinkPacket& p) { return faults.Next(p, world.now(), world.choices()); });
    const auto all_have = [this, hosts] {
      for (int r = 0; r < hosts; ++r) {
        if (!call.Has(r)) return false;
      }
      return true;
    };
    right = world.RunUntil(all_have, kSecond) && call.IsRight();
  }

  World world;
  RandomFaults faults;
  TreeBroadcast call;
  bool right = false;
};

TEST(TreeBroadcastTest, EveryRankGetsEveryByte) {
  for (const HostTree tree : kHostTrees) {
    for (const int hosts : {2, 5, 16}) {
      for (const uint64_t bytes : {1, 4096, 100'001}) {
        for (const uint64_t segment : {1000, 4096})
          EXPECT_TRUE(TreeRun(hosts, tree, bytes, segment).right)
              << static_cast<int>(tree) << ", " << hosts << " hosts, " << bytes << " by " << segment;
      }
    }
    EXPECT_TRUE(TreeRun(9, tree, 100'000, 8192, {.loss_ppm = 20'000}).right) << "with losses";
  }
}

// Of messages that a link has for 153 us. Whole they go to one child after the other; in segments a rank
// passes on what it has while the rest comes.
TEST(TreeBroadcastTest, WhoSendsSegmentsWaitsLess) {
  constexpr uint64_t kBytes = 1 << 20;
  const auto messages = [](int hosts, HostTree tree, uint64_t segment) {
    const TreeRun run(hosts, tree, kBytes, segment);
    EXPECT_TRUE(run.right);
    const double link_time = static_cast<double>(kBytes) / kMtu * (kMtu + 80) * 8 * 1e12 / kRate;
    return static_cast<double>(run.world.clock()) / link_time;
  };
  // The root and its second child send two each, one behind the other.
  EXPECT_NEAR(messages(7, HostTree::kBinaryHeap, kBytes), 4, 0.2);
  EXPECT_NEAR(messages(7, HostTree::kBinaryHeap, 16384), 2, 0.3);
  // The root has six children.
  EXPECT_NEAR(messages(16, HostTree::kFourNomial, kBytes), 6, 0.3);
  EXPECT_NEAR(messages(16, HostTree::kFourNomial, 16384), 6, 0.3);
}

}  // namespace
}  // namespace epic::sim
