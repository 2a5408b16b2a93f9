#include "commlib/core/host_path.h"

#include <memory>
#include <random>
#include <set>
#include <vector>

#include "base/seeds_testing.h"
#include "commlib/core/host_calls_testing.h"
#include "gtest/gtest.h"

namespace epic {
namespace {

constexpr std::array kCollectives = {Collective::kAllReduce,     Collective::kReduce,
                                     Collective::kBroadcast,     Collective::kBarrier,
                                     Collective::kReduceScatter, Collective::kAllGather};

using Calls = std::vector<std::unique_ptr<HostTestCall>>;

HostPathConfig SmallConfig(uint32_t n, Algorithm algorithm) {
  return {.world_size = n,
          .algorithm = algorithm,
          .message_bytes = 64,
          .staging_bytes = 64 * (n - 1),
          .inline_bytes = 24 * n};
}

// Every collective by every algorithm, of counts that fill blocks and do not, in place and not, from every
// root, in one slice and in several.
class HostPathTest : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Ranks, HostPathTest, testing::Range(2u, 10u));

TEST_P(HostPathTest, EachCollectiveByEachAlgorithm) {
  const uint32_t n = GetParam();
  uint64_t seed = SeedsToRun(1).first;
  for (const Algorithm algorithm : {Algorithm::kAuto, Algorithm::kDoubling, Algorithm::kRing}) {
    for (const Collective collective : kCollectives) {
      for (const Buffers buffers : {Buffers::kApart, Buffers::kInPlace, Buffers::kMixed}) {
        Calls calls;
        const bool has_root = collective == Collective::kReduce || collective == Collective::kBroadcast;
        for (uint32_t root = 0; root < (has_root ? n : 1); ++root) {
          for (const uint64_t count :
               {uint64_t{0}, uint64_t{1}, uint64_t{n - 1}, uint64_t{n}, uint64_t{37}, uint64_t{301}}) {
            const auto header = MakeHeader(collective, n, count, DataType::kFloat16, ReduceOp::kSum, root);
            calls.push_back(std::make_unique<HostTestCall>(header, n, buffers, seed + calls.size()));
          }
        }
        RunHostCalls(SmallConfig(n, algorithm), seed++, calls);
        if (HasFatalFailure() || HasNonfatalFailure()) return;
      }
    }
  }
}

TEST_P(HostPathTest, EachTypeWithEachOperation) {
  const uint32_t n = GetParam();
  uint64_t seed = SeedsToRun(1).first;
  // Of many ranks by one each, in turn: what is combined does not depend on how many there are.
  std::vector<Algorithm> algorithms = {Algorithm::kDoubling, Algorithm::kRing};
  if (n > 5) algorithms = {algorithms[n / 2 % 2]};
  for (const Algorithm algorithm : algorithms) {
    Calls calls;
    for (const TypeInfo& row : kCallerTypes) {
      for (const Collective collective : kCollectives) {
        if (!Reduces(collective)) {
          const auto header = MakeHeader(collective, n, 19, row.type, ReduceOp::kNone, n - 1);
          calls.push_back(std::make_unique<HostTestCall>(header, n, Buffers::kMixed, calls.size()));
          continue;
        }
        for (const ReduceOp op :
             row.kind == ElementKind::kBytes ? std::vector<ReduceOp>{} : OpsOf(row.type)) {
          auto header = MakeHeader(collective, n, 19, row.type, op, n / 2);
          calls.push_back(std::make_unique<HostTestCall>(header, n, Buffers::kMixed, calls.size()));
          if (op != ReduceOp::kSum) continue;
          header.flags = kAverageFlag;
          calls.push_back(std::make_unique<HostTestCall>(header, n, Buffers::kMixed, calls.size()));
        }
      }
    }
    RunHostCalls(SmallConfig(n, algorithm), seed++, calls);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST_P(HostPathTest, RandomCalls) {
  const uint32_t n = GetParam();
  const auto [first, count] = SeedsToRun(40);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    std::mt19937_64 random(seed);
    HostPathConfig config = {.world_size = n,
                             .algorithm = static_cast<Algorithm>(random() % 3),
                             .message_bytes = static_cast<uint32_t>(8 + random() % 300),
                             .staging_bytes = 8 * n + random() % 4000,
                             .inline_bytes = 8 * n + random() % 600};
    Calls calls;
    for (int i = 0; i < 12; ++i) {
      const DataType type = kCallerTypes[random() % kCallerTypes.size()].type;
      Collective collective = kCollectives[random() % 6];
      if (type == DataType::kByte && Reduces(collective)) collective = Collective::kAllGather;
      const auto ops = OpsOf(type);
      const ReduceOp op = ops.empty() ? ReduceOp::kNone : ops[random() % ops.size()];
      const auto header = MakeHeader(collective, n, random() % (random() % 8 == 0 ? 700 : 60), type, op,
                                     static_cast<uint32_t>(random() % n));
      calls.push_back(
          std::make_unique<HostTestCall>(header, n, static_cast<Buffers>(random() % 3), random()));
    }
    RunHostCalls(config, seed, calls);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Of four ranks the last has not called: each of the others tells of whom it waits for something. Where that
// is a rank that has called, it waits itself.
TEST(HostPathAwaitedTest, LeadsToTheRankThatHasNotCalled) {
  constexpr uint32_t kRanks = 4;
  for (const Algorithm algorithm : {Algorithm::kDoubling, Algorithm::kRing}) {
    HostNetwork network(SmallConfig(kRanks, algorithm), 7);
    const auto header = MakeHeader(Collective::kAllReduce, kRanks, 37, DataType::kFloat32, ReduceOp::kSum, 0);
    HostTestCall call(header, kRanks, Buffers::kApart, 7);
    for (uint32_t r = 0; r + 1 < kRanks; ++r) call.Start(network, r);
    network.Run();
    const std::vector<uint32_t> nobody;
    EXPECT_EQ(network.path(3).Awaited(), nobody);
    for (uint32_t r = 0; r < 3; ++r) {
      std::set<uint32_t> seen = {r};
      uint32_t at = r;
      while (at != 3) {
        const std::vector<uint32_t> awaited = network.path(at).Awaited();
        ASSERT_FALSE(awaited.empty()) << "rank " << at;
        at = awaited.back();
        ASSERT_TRUE(seen.insert(at).second) << "in a circle by rank " << at;
      }
    }
    call.Start(network, 3);
    network.Run();
    for (uint32_t r = 0; r < kRanks; ++r) EXPECT_EQ(network.path(r).Awaited(), nobody) << "rank " << r;
  }
}

// Beyond the cubes of the other tests: by both algorithms where the ring is not too long for a test.
TEST(HostPathLargeTest, ManyRanks) {
  for (const uint32_t n : {16u, 31u, 33u, 64u}) {
    for (const Algorithm algorithm : {Algorithm::kDoubling, Algorithm::kRing}) {
      if (algorithm == Algorithm::kRing && n > 31) continue;
      Calls calls;
      for (const Collective collective : kCollectives) {
        const auto header = MakeHeader(collective, n, 3, DataType::kFloat32, ReduceOp::kSum, n - 2);
        calls.push_back(std::make_unique<HostTestCall>(header, n, Buffers::kMixed, n));
      }
      RunHostCalls(SmallConfig(n, algorithm), n, calls);
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace epic
