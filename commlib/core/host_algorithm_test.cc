#include "commlib/core/host_algorithm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "protocol/bounds.h"
#include "protocol/collectives.h"

namespace epic {
namespace {

constexpr std::array kAllCollectives = {Collective::kAllReduce,     Collective::kReduce,
                                        Collective::kBroadcast,     Collective::kBarrier,
                                        Collective::kReduceScatter, Collective::kAllGather};

Algorithm Chosen(Collective collective, uint64_t bytes, uint32_t ranks) {
  return ChooseAlgorithm(collective, bytes, ranks, Algorithm::kAuto, true);
}

TEST(HostAlgorithmTest, CallsOfTheTableGoByMulticastBetweenItsBounds) {
  for (uint32_t ranks = 2; ranks <= 64; ++ranks) {
    for (const Collective collective : kAllCollectives) {
      SCOPED_TRACE(testing::Message() << NameOf(collective) << " of " << ranks);
      const bool copies = collective == Collective::kBroadcast || collective == Collective::kAllGather;
      const MulticastBytes bytes = BytesByMulticast(collective, ranks);
      EXPECT_EQ(bytes.Have(bytes.least), copies && ranks >= 8);
      for (uint64_t power = 1; power <= uint64_t{1} << 40; power *= 2)
        EXPECT_EQ(Chosen(collective, power, ranks) == Algorithm::kMulticast, bytes.Have(power));
      if (!bytes.Have(bytes.least)) continue;
      EXPECT_EQ(Chosen(collective, bytes.least, ranks), Algorithm::kMulticast);
      EXPECT_EQ(Chosen(collective, bytes.most, ranks), Algorithm::kMulticast);
      EXPECT_EQ(Chosen(collective, bytes.least - 1, ranks), Algorithm::kAuto);
      EXPECT_EQ(Chosen(collective, bytes.most + 1, ranks), Algorithm::kAuto);
      EXPECT_GT(bytes.least, kMaxInlineBytes) << "what is inlined was shorter";
    }
  }
}

TEST(HostAlgorithmTest, WhoMakesAQueuePairForItMaySendByIt) {
  for (uint32_t ranks = 2; ranks <= 64; ++ranks) {
    const bool some = std::ranges::any_of(kAllCollectives, [ranks](Collective collective) {
      const MulticastBytes bytes = BytesByMulticast(collective, ranks);
      return bytes.Have(bytes.least);
    });
    EXPECT_EQ(MayChooseMulticast(ranks), some) << ranks;
  }
}

TEST(HostAlgorithmTest, WhatWasToldIsTaken) {
  constexpr uint64_t kBytes = 1 << 20;
  ASSERT_EQ(Chosen(Collective::kAllGather, kBytes, 8), Algorithm::kMulticast);
  for (const Algorithm told : {Algorithm::kDoubling, Algorithm::kRing, Algorithm::kMulticast}) {
    EXPECT_EQ(ChooseAlgorithm(Collective::kAllGather, kBytes, 8, told, true), told);
    EXPECT_EQ(ChooseAlgorithm(Collective::kAllGather, 8, 8, told, true), told);
  }
  EXPECT_EQ(ChooseAlgorithm(Collective::kAllGather, kBytes, 8, Algorithm::kAuto, false), Algorithm::kAuto)
      << "there are no datagrams";
}

TEST(HostAlgorithmTest, AChosenOneIsInTheHeader) {
  for (const Algorithm algorithm :
       {Algorithm::kAuto, Algorithm::kDoubling, Algorithm::kRing, Algorithm::kMulticast})
    EXPECT_EQ(AlgorithmIn(AlgorithmFlags(algorithm) | kInlinedFlag | kByHostsFlag | 5u << kSlicesLeftShift),
              algorithm);
}

}  // namespace
}  // namespace epic
