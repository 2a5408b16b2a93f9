#include "commlib/core/host_multicast.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <vector>

#include "base/seeds_testing.h"
#include "commlib/core/host_calls_testing.h"

namespace epic {
namespace {

constexpr std::array kAnyCollective = {Collective::kAllReduce,     Collective::kReduce,
                                       Collective::kBroadcast,     Collective::kBarrier,
                                       Collective::kReduceScatter, Collective::kAllGather};
constexpr std::array kCopies = {Collective::kBroadcast, Collective::kAllGather};

using Calls = std::vector<std::unique_ptr<HostTestCall>>;

HostPathConfig MulticastConfig(uint32_t n, uint32_t chunk_bytes, uint32_t staging_chunks) {
  return {.world_size = n,
          .algorithm = Algorithm::kMulticast,
          .message_bytes = 2 * chunk_bytes,
          .staging_bytes = 64 * n,
          .inline_bytes = 24 * n,
          .chunk_bytes = chunk_bytes,
          .staging_chunks = staging_chunks};
}

// A NIC has a queue for each of its queue pairs.
TEST(HostMulticastTokenTest, ATokenDoesNotOvertakeItsSlice) {
  HostMulticast multicast(
      {.world_size = 3, .chunk_bytes = 64, .staging_chunks = 8, .tokens = 1, .read_bytes = 64}, 0);
  std::vector<uint8_t> memory(multicast.memory_bytes()), data(64 * 16);
  multicast.Begin(
      {.header = MakeHeader(Collective::kBroadcast, 3, data.size(), DataType::kByte, ReduceOp::kNone),
       .send = data.data(),
       .recv = data.data()});
  MulticastWork work;
  for (int chunk = 0; chunk < 4; ++chunk) {
    ASSERT_TRUE(multicast.NextSend(false, true, memory, &work));
    EXPECT_EQ(work.kind, MulticastWork::Kind::kDatagram);
  }
  for (int chunk = 0; chunk < 4; ++chunk) {
    EXPECT_FALSE(multicast.NextSend(false, true, memory, &work)) << chunk << " have been sent";
    multicast.OnDatagramSent();
  }
  ASSERT_TRUE(multicast.NextSend(false, true, memory, &work));
  EXPECT_EQ(work.kind, MulticastWork::Kind::kMessage);
  EXPECT_EQ(memory[work.offset], 1) << "TOKEN";
}

class HostMulticastTest : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Ranks, HostMulticastTest, testing::Range(2u, 10u));

// Parts that fit into the staging ring and that do not, in place and not, from each root, with and without
// losses; with all datagrams lost, too.
TEST_P(HostMulticastTest, EveryByteComesWhateverIsLost) {
  const uint32_t n = GetParam();
  uint64_t seed = SeedsToRun(1).first;
  for (const uint32_t lost : {0u, 10u, 300u, 1000u}) {
    for (const uint32_t staging : {4u, 4 * n, 256u}) {
      Calls calls;
      for (const Collective collective : kCopies) {
        for (const uint64_t count : {uint64_t{1}, uint64_t{16}, uint64_t{17}, uint64_t{301}}) {
          const auto header = MakeHeader(collective, n, count, DataType::kFloat32, ReduceOp::kNone,
                                         static_cast<uint32_t>(calls.size() % n));
          calls.push_back(std::make_unique<HostTestCall>(header, n, static_cast<Buffers>(calls.size() % 3),
                                                         seed + calls.size()));
        }
      }
      RunHostCalls(MulticastConfig(n, 64, staging), seed++, calls, {.lost = lost, .twice = lost / 3});
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
}

// All collectives one after the other, those without datagrams among those with them.
TEST_P(HostMulticastTest, RandomCallsOfAllCollectives) {
  const uint32_t n = GetParam();
  const auto [first, count] = SeedsToRun(40);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    std::mt19937_64 random(seed);
    HostPathConfig config = MulticastConfig(n, 8u << random() % 5, static_cast<uint32_t>(4 + random() % 60));
    config.tokens = 1 + static_cast<uint32_t>(random() % 2);
    config.addresses = 1 + static_cast<uint32_t>(random() % 3);
    config.message_bytes = config.chunk_bytes * static_cast<uint32_t>(1 + random() % 4);
    Calls calls;
    for (int i = 0; i < 12; ++i) {
      const DataType type = random() % 2 == 0 ? DataType::kFloat32 : DataType::kInt64;
      const auto collective = random() % 3 == 0 ? kAnyCollective[random() % 6] : kCopies[random() % 2];
      const auto header = MakeHeader(collective, n, random() % (random() % 8 == 0 ? 700 : 60), type,
                                     ReduceOp::kSum, static_cast<uint32_t>(random() % n));
      calls.push_back(
          std::make_unique<HostTestCall>(header, n, static_cast<Buffers>(random() % 3), random()));
    }
    const uint32_t lost = random() % 2 == 0 ? 0 : static_cast<uint32_t>(random() % 200);
    RunHostCalls(config, seed, calls, {.lost = lost, .twice = static_cast<uint32_t>(random() % 50)});
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

}  // namespace
}  // namespace epic
