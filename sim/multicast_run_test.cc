#include "sim/multicast_run.h"

#include <gtest/gtest.h>

#include <string>

namespace epic::sim {
namespace {

// With headers; what ranks agree by, words and acknowledgements are less than `slack` of it.
void ExpectBytes(int64_t bytes, int64_t links, const MulticastRunConfig& config, double slack) {
  const double part = static_cast<double>(config.bytes) * (config.path_mtu + 80) / config.path_mtu;
  EXPECT_GE(static_cast<double>(bytes), part * static_cast<double>(links));
  EXPECT_LE(static_cast<double>(bytes), part * static_cast<double>(links) * (1 + slack));
}

// Each part takes the link of its host, that of its leaf, and those to all others, once: no second spine.
TEST(MulticastRunTest, APartTakesEachLinkOnce) {
  MulticastRunConfig config{.hosts = 8, .leaves = 4, .spines = 2};
  const MulticastRun gather = RunMulticast(config);
  ASSERT_TRUE(gather.right);
  ExpectBytes(gather.links, 8 * (8 + 4), config, 0.06);
  ExpectBytes(gather.host_links, 8 * 8, config, 0.06);
  EXPECT_EQ(gather.came, gather.expected);
  EXPECT_EQ(gather.expected, 8 * 7 * 16);
  EXPECT_EQ(gather.read + gather.unposted + gather.lost, 0);
  EXPECT_GT(gather.before, 0);
  EXPECT_LT(gather.before + gather.behind, gather.time);
  config.algorithm = Algorithm::kRing;
  const MulticastRun ring = RunMulticast(config);
  ASSERT_TRUE(ring.right);
  ExpectBytes(ring.links, 7 * (4 * 2 + 4 * 4), config, 0.06);
}

// Each edge of the tree takes two links below a leaf, four between leaves. What segments there are is all
// one.
TEST(MulticastRunTest, ATreeTakesTheLinksOfItsEdges) {
  MulticastRunConfig config{.hosts = 8, .leaves = 4, .spines = 2, .collective = Collective::kBroadcast};
  for (const uint64_t segment : {1 << 20, 16 << 10}) {
    config.segment_bytes = segment;
    config.tree = HostTree::kBinaryHeap;
    const MulticastRun heap = RunMulticast(config);
    ASSERT_TRUE(heap.right);
    ExpectBytes(heap.links, 2 + 6 * 4, config, 0.03);
    config.tree = HostTree::kFourNomial;
    const MulticastRun nomial = RunMulticast(config);
    ASSERT_TRUE(nomial.right);
    ExpectBytes(nomial.links, 2 * 2 + 5 * 4, config, 0.03);
  }
}

// Where the switches make the ranks agree there is no exchange: of 64 ranks, six rounds of messages over two
// links or four; one there and back.
TEST(MulticastRunTest, AgreeingByTheSwitchesIsSooner) {
  MulticastRunConfig config{.hosts = 64, .leaves = 4, .spines = 2, .bytes = 4096, .staging_chunks = 2048};
  const MulticastRun by_hosts = RunMulticast(config);
  config.agrees_by_switches = true;
  const MulticastRun by_switches = RunMulticast(config);
  ASSERT_TRUE(by_hosts.right && by_switches.right);
  EXPECT_EQ(by_switches.came + by_switches.read, by_switches.expected);
  EXPECT_GT(by_hosts.before, ToPicos(6 * 2 * config.link_delay_ns));
  EXPECT_GT(by_switches.before, ToPicos(4 * config.link_delay_ns));
  EXPECT_LT(by_switches.before, by_hosts.before / 2);
}

TEST(MulticastRunTest, LossesAreReadAndCounted) {
  for (const int burst : {1, 16}) {
    const MulticastRun run = RunMulticast(
        {.collective = Collective::kBroadcast, .bytes = 1 << 20, .loss_ppb = 20'000'000, .burst = burst});
    ASSERT_TRUE(run.right);
    EXPECT_GT(run.lost, 0);
    EXPECT_EQ(run.came + run.read, run.expected);
    EXPECT_GE(run.read, run.lost);
  }
}

// The tokens hold the others up.
TEST(MulticastRunTest, ASlowRankLosesNothing) {
  const MulticastRunConfig config{.bytes = 1 << 20, .staging_chunks = 64, .slow_ns = 6'000};
  const MulticastRun run = RunMulticast(config);
  ASSERT_TRUE(run.right);
  EXPECT_EQ(run.read + run.unposted, 0);
  EXPECT_GE(run.time, ToPicos(3 * 256 * config.slow_ns));
}

// What hosts send each other is nothing to a switch but to be forwarded: the bound of what a group may have
// at a switch is none of theirs.
TEST(MulticastRunTest, BetweenTheHostsASwitchMayHaveMoreThanAGroupMayHaveAtIt) {
  MulticastRunConfig config{.hosts = 65, .bytes = 1, .staging_chunks = 128};
  EXPECT_TRUE(RunMulticast(config).right);
  config.algorithm = Algorithm::kRing;
  EXPECT_TRUE(RunMulticast(config).right);
  config.collective = Collective::kBroadcast;
  config.tree = HostTree::kBinomial;
  EXPECT_TRUE(RunMulticast(config).right);
}

TEST(MulticastRunTest, WhatThereIsNoRunOfIsRefusedInWords) {
  const auto refused = [](const MulticastRunConfig& config) {
    const Status status = Validate(config);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const std::string bound = "below one switch, but a group has at most 64 children at a switch";
  EXPECT_EQ(refused({.hosts = 188, .mode = Mode::kTranslated}), "hosts: 188 " + bound);
  EXPECT_EQ(refused({.hosts = 129, .leaves = 2, .agrees_by_switches = true}), "hosts: 65 " + bound);
  EXPECT_TRUE(Validate({.hosts = 128, .leaves = 2, .agrees_by_switches = true}).ok());
  EXPECT_EQ(refused({.hosts = 3, .leaves = 4}), "leaves: 4 for 3 hosts");
  EXPECT_EQ(refused({.bytes = 0}), "bytes: a part has at least 1");
  EXPECT_EQ(refused({.collective = Collective::kReduce}), "collective: neither allgather nor broadcast");
  EXPECT_EQ(refused({.tree = HostTree::kBinomial}), "way: down a tree of hosts goes one broadcast");
}

TEST(MulticastRunTest, ANetworksCallHasNoDatagrams) {
  const MulticastRun run = RunMulticast({.mode = Mode::kTranslated, .bytes = 1 << 20});
  ASSERT_TRUE(run.right);
  EXPECT_EQ(run.expected + run.before + run.behind, 0);
}

}  // namespace
}  // namespace epic::sim
