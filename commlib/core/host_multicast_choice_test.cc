// Which calls go by multicast where kAuto is told and there are datagrams, and what comes of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/ceil_div.h"
#include "base/seeds_testing.h"
#include "commlib/core/host_calls_testing.h"

namespace epic {
namespace {

constexpr std::array kEachCollective = {Collective::kAllReduce,     Collective::kReduce,
                                        Collective::kBroadcast,     Collective::kBarrier,
                                        Collective::kReduceScatter, Collective::kAllGather};

// Datagrams are of 64 KiB here, so that few are enough.
class HostMulticastChoiceTest : public testing::TestWithParam<uint32_t> {
 protected:
  static HostPathConfig Config(uint32_t n) {
    return {.world_size = n, .chunk_bytes = 1 << 16, .staging_chunks = 64};
  }
  // A call of so many bytes, of all parts together, and whether it went as datagrams.
  void ExpectRight(const HostPathConfig& config, Collective collective, uint64_t bytes, bool by_multicast) {
    const uint32_t n = config.world_size;
    const uint64_t count = HasPartPerRank(collective) ? CeilDiv(bytes, uint64_t{n}) : bytes;
    const auto header = MakeHeader(collective, n, collective == Collective::kBarrier ? 0 : count,
                                   DataType::kUint8, ReduceOp::kSum, n - 1);
    SCOPED_TRACE(testing::Message() << Describe(header, n) << "; replay: EPIC_SEED=" << seed_);
    HostNetwork network(config, seed_);
    HostTestCall call(header, n, Buffers::kMixed, seed_++);
    for (uint32_t r = 0; r < n; ++r) call.Start(network, r);
    network.Run();
    for (uint32_t r = 0; r < n; ++r) {
      ASSERT_FALSE(network.path(r).failed());
      call.Check(r, Algorithm::kAuto, config.inline_bytes);
      const MulticastCounts& counts = network.path(r).multicast();
      const bool receives = collective != Collective::kBroadcast || r != header.root;
      EXPECT_EQ(counts.expected > 0, receives && by_multicast);
      EXPECT_EQ(counts.came + counts.read, counts.expected);
    }
  }
  uint64_t seed_ = SeedsToRun(1).first;
};
INSTANTIATE_TEST_SUITE_P(Ranks, HostMulticastChoiceTest, testing::Values(2u, 4u, 8u));

TEST_P(HostMulticastChoiceTest, CallsOfTheTableGoSoAndShorterOnesDoNot) {
  const uint32_t n = GetParam();
  for (const Collective collective : kEachCollective) {
    const MulticastBytes bytes = BytesByMulticast(collective, n);
    const bool some = bytes.Have(bytes.least);
    const uint64_t least = some ? bytes.least : 1 << 16;
    ExpectRight(Config(n), collective, least - 4 * n, false);
    ExpectRight(Config(n), collective, least, some);
  }
}

// As long as the whole call is, whatever its slice has: up to the table's upper bound.
TEST(HostMulticastChoice, ASliceGoesAsTheWholeCall) {
  constexpr uint32_t kRanks = 8;
  HostPath path({.world_size = kRanks, .chunk_bytes = 4096});
  std::vector<uint8_t> data(1 << 20);
  HostCall call{
      .header = MakeHeader(Collective::kBroadcast, kRanks, data.size(), DataType::kUint8, ReduceOp::kNone, 0),
      .send = data.data(),
      .recv = data.data()};
  const MulticastBytes bytes = BytesByMulticast(Collective::kBroadcast, kRanks);
  const auto wants_fetch_ring = [&path] { return std::ranges::any_of(path.Wanted(), IsOfFetchRing); };
  call.call_bytes = bytes.most + 1;
  path.Post(call);
  EXPECT_FALSE(wants_fetch_ring()) << "around the ring, as the others";
  call.header.count = 1000;
  call.call_bytes = bytes.most;
  path.Post(call);
  EXPECT_TRUE(wants_fetch_ring());
}

// Of another length, at one rank: it is the length that differs, though the other one goes another way.
TEST(HostMulticastChoice, ARankWhoseCallIsShorterIsNamedForTheLength) {
  constexpr uint32_t kRanks = 8;
  const HostPathConfig config = {.world_size = kRanks, .chunk_bytes = 1 << 16, .staging_chunks = 64};
  const uint64_t least = BytesByMulticast(Collective::kAllGather, kRanks).least;
  HostNetwork network(config, 1);
  std::vector<std::unique_ptr<HostTestCall>> calls;
  for (uint32_t r = 0; r < kRanks; ++r) {
    const uint64_t count = CeilDiv(least, uint64_t{kRanks}) / (r == 3 ? 2 : 1);
    calls.push_back(std::make_unique<HostTestCall>(
        MakeHeader(Collective::kAllGather, kRanks, count, DataType::kUint8, ReduceOp::kNone, 0), kRanks,
        Buffers::kApart, 1));
    calls.back()->Start(network, r);
  }
  network.Run();
  for (uint32_t r = 0; r < kRanks; ++r) {
    ASSERT_TRUE(network.path(r).failed());
    EXPECT_EQ(network.path(r).failure(), Outcome::kRefused);
    EXPECT_EQ(network.path(r).failure_reply().field, ControlField::kCount);
    EXPECT_EQ(network.path(r).failure_reply().culprit, 3u);
  }
}

}  // namespace
}  // namespace epic
