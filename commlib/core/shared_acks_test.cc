#include "commlib/core/shared_acks.h"

#include <gtest/gtest.h>

#include "commlib/core/rank_core.h"

namespace epic {
namespace {

TEST(SharedAcksTest, SmallCallsShareThemAndOthersDoNot) {
  SharedAcks acks(8);
  EXPECT_EQ(acks.messages(), 1u) << "before the first call";
  acks.Posted(/*wants_acks=*/false, /*alone=*/true);
  EXPECT_EQ(acks.messages(), 4u);
  acks.Posted(/*wants_acks=*/true, /*alone=*/false);
  EXPECT_EQ(acks.messages(), 1u);
}

TEST(SharedAcksTest, ASmallCallBehindABigOneWaitsUntilThatIsClosed) {
  SharedAcks acks(8);
  acks.Posted(/*wants_acks=*/true, /*alone=*/true);
  acks.Posted(/*wants_acks=*/false, /*alone=*/false);
  EXPECT_EQ(acks.messages(), 1u);
  acks.Posted(/*wants_acks=*/false, /*alone=*/true);
  EXPECT_EQ(acks.messages(), 4u);
}

TEST(SharedAcksTest, HalfOfTheWindowStaysFree) {
  for (const auto& [window, most] :
       {std::pair{1u, 1u}, {2u, 1u}, {3u, 1u}, {4u, 2u}, {6u, 3u}, {8u, 4u}, {64u, 4u}}) {
    SharedAcks acks(window);
    acks.Posted(/*wants_acks=*/false, /*alone=*/true);
    EXPECT_EQ(acks.messages(), most) << "W " << window;
  }
}

// An AllGather of nothing ends when its control message is acknowledged, unlike a Barrier: held back, that is
// half a millisecond for each rank.
TEST(SharedAcksTest, ACallThatEndsWithItsAcknowledgementWantsIt) {
  const RankCore core({.world_size = 4, .inline_bytes = 4032});
  const auto wants = [&](Collective collective, uint64_t count) {
    return core.WantsAcks({.collective = collective, .type = DataType::kFloat32, .count = count});
  };
  EXPECT_FALSE(wants(Collective::kBarrier, 0));
  EXPECT_FALSE(wants(Collective::kAllReduce, 1000)) << "inlined";
  EXPECT_FALSE(wants(Collective::kAllGather, 100)) << "inlined";
  EXPECT_TRUE(wants(Collective::kAllReduce, 100'000));
  EXPECT_TRUE(wants(Collective::kAllGather, 100'000));
  for (const Collective collective :
       {Collective::kAllGather, Collective::kReduceScatter, Collective::kBroadcast})
    EXPECT_TRUE(wants(collective, 0));
}

}  // namespace
}  // namespace epic
