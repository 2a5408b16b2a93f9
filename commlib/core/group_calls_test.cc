#include "commlib/core/group_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "commlib/core/group_calls_testing.h"

namespace epic {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ControlHeader HeaderOfSum(uint64_t count, uint32_t flags = 0) {
  return {.collective = Collective::kAllReduce,
          .op = ReduceOp::kSum,
          .type = DataType::kInt32,
          .count = count,
          .flags = flags};
}

// A call of both ranks: each gives 1, 2, 3, ... times its rank and 1.
struct SumOfBoth {
  explicit SumOfBoth(size_t count, uint32_t flags = 0) : header(HeaderOfSum(count, flags)) {
    for (uint32_t r = 0; r < PairOfRanks::kSize; ++r) {
      send[r].resize(count);
      recv[r].resize(count);
      for (size_t i = 0; i < count; ++i) send[r][i] = static_cast<int32_t>((i + 1) * (r + 1));
    }
  }
  void MakeAt(PairOfRanks& pair, uint32_t r) {
    pair.calls(r).Make(header, reinterpret_cast<const uint8_t*>(send[r].data()),
                       reinterpret_cast<uint8_t*>(recv[r].data()), Way::kDirect);
  }
  void Make(PairOfRanks& pair) {
    for (uint32_t r = 0; r < PairOfRanks::kSize; ++r) MakeAt(pair, r);
  }
  void ExpectRight() const {
    for (size_t i = 0; i < header.count; ++i) {
      ASSERT_EQ(recv[0][i], static_cast<int32_t>(3 * (i + 1))) << "element " << i;
      ASSERT_EQ(recv[1][i], recv[0][i]);
    }
  }
  ControlHeader header;
  std::array<std::vector<int32_t>, PairOfRanks::kSize> send, recv;
};

void MakeBarrier(PairOfRanks& pair) {
  for (uint32_t r = 0; r < PairOfRanks::kSize; ++r)
    pair.calls(r).Make({.collective = Collective::kBarrier}, nullptr, nullptr, Way::kDirect);
}

std::vector<CallNumber> Numbered(const std::vector<GroupCalls::Ended>& ended) {
  std::vector<CallNumber> numbers;
  for (const GroupCalls::Ended& one : ended) numbers.push_back(one.call);
  return numbers;
}

std::vector<Outcome> Outcomes(const std::vector<GroupCalls::Ended>& ended) {
  std::vector<Outcome> outcomes;
  for (const GroupCalls::Ended& one : ended) outcomes.push_back(one.outcome);
  return outcomes;
}

TEST(GroupCallsTest, ALongCallIsMadeInSlicesAndEndsOnce) {
  PairOfRanks pair({.invocation_bytes = 400});
  SumOfBoth sum(250);
  sum.Make(pair);
  pair.AnswerAll();
  ASSERT_EQ(pair.controls().size(), 3u);
  for (uint32_t k = 0; k < 3; ++k) EXPECT_EQ(SlicesLeft(pair.controls()[k]), 2 - k);
  EXPECT_THAT(Numbered(pair.ended(0)), ElementsAre(0));
  sum.ExpectRight();
}

// A slice has the same stretch of each part.
TEST(GroupCallsTest, PartsOfASliceLieAsTheCallHasThem) {
  PairOfRanks pair({.invocation_bytes = 400});
  const ControlHeader gather{
      .collective = Collective::kAllGather, .type = DataType::kInt32, .count = 100, .parts = 2};
  std::vector<int32_t> send(100), recv(200);
  uint8_t* const bytes = reinterpret_cast<uint8_t*>(recv.data());
  pair.calls(0).Make(gather, reinterpret_cast<const uint8_t*>(send.data()), bytes, Way::kDirect);
  pair.Post();
  std::vector<ptrdiff_t> places;
  for (const GroupCalls::Request& request : pair.posted(0)) {
    if (request.where != HostWhere::kRecv) continue;
    places.push_back(request.address - bytes);
    EXPECT_EQ(request.length, 200u);
  }
  EXPECT_THAT(places, ElementsAre(400, 600)) << "of rank 1's part";
}

TEST(GroupCallsTest, CallsAreNumberedAlsoWhenMoreAreOpenThanThereIsRoomFor) {
  PairOfRanks pair({});
  std::vector<SumOfBoth> sums(40, SumOfBoth(30));
  for (SumOfBoth& sum : sums) sum.Make(pair);
  EXPECT_EQ(pair.calls(0).made(), 40);
  EXPECT_EQ(pair.calls(0).open(), 40u);
  pair.AnswerAll();
  ASSERT_EQ(pair.ended(1).size(), 40u);
  for (CallNumber call = 0; call < 40; ++call) {
    EXPECT_EQ(pair.ended(1)[static_cast<size_t>(call)].call, call);
    sums[static_cast<size_t>(call)].ExpectRight();
  }
  EXPECT_EQ(pair.calls(0).open(), 0u);
}

TEST(GroupCallsTest, NothingBeginsBehindARequest) {
  PairOfRanks pair({.asks = true});
  SumOfBoth sum(100);
  sum.Make(pair);
  MakeBarrier(pair);
  ASSERT_TRUE(pair.Answer());
  EXPECT_TRUE(IsRequest(pair.controls()[0]));
  EXPECT_EQ(pair.calls(0).granted(), 1u);
  pair.AnswerAll();
  ASSERT_EQ(pair.controls().size(), 3u);
  EXPECT_EQ(pair.controls()[1].flags, kGrantedFlag);
  EXPECT_EQ(pair.controls()[2].collective, Collective::kBarrier);
  EXPECT_THAT(Numbered(pair.ended(0)), ElementsAre(0, 1));
  sum.ExpectRight();
}

TEST(GroupCallsTest, ARequestIsPostedAndNoControlPacketBehindIt) {
  PairOfRanks pair({.asks = true});
  SumOfBoth sum(100, kByHostsFlag);
  SumOfBoth asking(100);
  asking.Make(pair);
  MakeBarrier(pair);
  sum.Make(pair);
  pair.Post();
  EXPECT_EQ(pair.Outstanding(0, /*to_switch=*/true), 2u) << "one each way";
  EXPECT_THAT(pair.calls(0).TakeWanted(), IsEmpty()) << "nor does what goes by the hosts";
}

TEST(GroupCallsTest, ARequestHasTheHeaderOfTheFirstSlice) {
  PairOfRanks pair({.asks = true, .invocation_bytes = 400});
  SumOfBoth sum(250);
  sum.Make(pair);
  pair.AnswerAll();
  ASSERT_EQ(pair.controls().size(), 4u);
  const ControlHeader& request = pair.controls()[0];
  EXPECT_EQ(request.flags, kRequestFlag | 2u << kSlicesLeftShift);
  for (uint32_t k = 0; k < 3; ++k)
    EXPECT_EQ(pair.controls()[k + 1].flags, kGrantedFlag | (2 - k) << kSlicesLeftShift);
  EXPECT_EQ(pair.controls()[1].count, request.count);
  EXPECT_THAT(Outcomes(pair.ended(1)), ElementsAre(Outcome::kOk));
  sum.ExpectRight();
}

TEST(GroupCallsTest, WhatIsBusyGoesByTheHostsAsOneCall) {
  PairOfRanks pair({.asks = true, .invocation_bytes = 400});
  SumOfBoth sum(900);
  sum.Make(pair);
  EXPECT_THAT(pair.calls(0).TakeWanted(), IsEmpty());
  ASSERT_TRUE(pair.Answer(ControlStatus::kBusy));
  EXPECT_EQ(pair.calls(0).busy(), 1u);
  EXPECT_THAT(pair.calls(0).TakeWanted(), ElementsAre(1));
  EXPECT_THAT(pair.calls(0).TakeWanted(), IsEmpty()) << "once";
  EXPECT_FALSE(pair.Answer()) << "the switches are told when this rank is ready for it";
  pair.Connect();
  while (pair.Answer()) pair.Exchange();
  ASSERT_GE(pair.controls().size(), 3u) << "its slices between the hosts, each of which the ranks agree on";
  for (size_t at = 1; at < pair.controls().size(); ++at) EXPECT_TRUE(IsByHosts(pair.controls()[at]));
  EXPECT_EQ(SlicesLeft(pair.controls()[1]), pair.controls().size() - 2);
  EXPECT_THAT(Outcomes(pair.ended(0)), ElementsAre(Outcome::kOk));
  sum.ExpectRight();
}

// In slices of two of its five blocks. The last one is short, and nothing is written behind it.
TEST(GroupCallsTest, BetweenTheHostsACallInBlocksTravelsInMemoryOfItsOwn) {
  constexpr size_t kElements = 4 * kBlockElements + 7;
  for (const bool by_hosts : {false, true}) {
    PairOfRanks pair({.by_hosts = by_hosts, .asks = !by_hosts});
    const ControlHeader header = InBlocks({.collective = Collective::kAllReduce,
                                           .op = ReduceOp::kSum,
                                           .type = DataType::kFloat32,
                                           .count = kElements,
                                           .flags = kQuantisedFlag | kAverageFlag});
    std::array<std::vector<float>, PairOfRanks::kSize> send, recv;
    std::array<std::vector<uint8_t>, PairOfRanks::kSize> blocks;
    for (uint32_t r = 0; r < PairOfRanks::kSize; ++r) {
      send[r].assign(kElements, r == 0 ? 127.0f : 254.0f);
      recv[r].assign(kElements + 1, 77);
      blocks[r].resize(CallBytes(header));
      pair.calls(r).Make(header, reinterpret_cast<const uint8_t*>(send[r].data()),
                         reinterpret_cast<uint8_t*>(recv[r].data()), Way::kBounce, 0, blocks[r].data());
    }
    if (!by_hosts) {
      ASSERT_TRUE(pair.Answer(ControlStatus::kBusy));
      EXPECT_EQ(pair.controls()[0].type, DataType::kBlock8);
    }
    pair.Connect();
    pair.Exchange();
    while (pair.Answer()) pair.Exchange();
    for (uint32_t r = 0; r < PairOfRanks::kSize; ++r) {
      EXPECT_THAT(Outcomes(pair.ended(r)), ElementsAre(Outcome::kOk));
      for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(recv[r][i], 381.0f / 2) << r << " " << i;
      EXPECT_EQ(recv[r][kElements], 77);
    }
  }
}

TEST(GroupCallsTest, ReceivesBetweenTheHostsArePostedBeforeTheSwitchesAreTold) {
  PairOfRanks pair({});
  SumOfBoth sum(100, kByHostsFlag);
  sum.Make(pair);
  pair.Connect();
  const auto& posted = pair.posted(0);
  ASSERT_FALSE(posted.empty());
  size_t told = 0;
  while (told < posted.size() && posted[told].connection != GroupCalls::kSwitch) ++told;
  EXPECT_GT(told, 0u);
  for (size_t at = 0; at < told; ++at) EXPECT_TRUE(posted[at].is_recv);
  for (size_t at = told; at < posted.size(); ++at) EXPECT_EQ(posted[at].connection, GroupCalls::kSwitch);
}

TEST(GroupCallsTest, WhatIsBehindACallByTheHostsWaitsToBeToldWithIt) {
  PairOfRanks pair({});
  SumOfBoth by_hosts(100, kByHostsFlag), by_network(100);
  by_hosts.Make(pair);
  by_network.Make(pair);
  EXPECT_FALSE(pair.Answer());
  pair.Connect();
  pair.AnswerAll();
  ASSERT_EQ(pair.controls().size(), 2u);
  EXPECT_TRUE(IsByHosts(pair.controls()[0]));
  EXPECT_FALSE(IsByHosts(pair.controls()[1]));
  EXPECT_THAT(Numbered(pair.ended(0)), ElementsAre(1)) << "the data of the first are still on their way";
  pair.Exchange();
  EXPECT_THAT(Numbered(pair.ended(0)), ElementsAre(1, 0));
  by_hosts.ExpectRight();
  by_network.ExpectRight();
}

TEST(GroupCallsTest, AGroupWithoutSwitchesTellsThemNothing) {
  PairOfRanks pair({.by_hosts = true, .asks = true});
  SumOfBoth sum(900);
  sum.Make(pair);
  MakeBarrier(pair);
  EXPECT_THAT(pair.calls(1).TakeWanted(), ElementsAre(0));
  pair.Connect();
  pair.Exchange();
  EXPECT_EQ(pair.Outstanding(0, /*to_switch=*/true), 0u);
  EXPECT_THAT(Numbered(pair.ended(0)), ElementsAre(0, 1));
  sum.ExpectRight();
}

TEST(GroupCallsTest, WhatIsHeldBackNeverBegins) {
  PairOfRanks pair({});
  SumOfBoth before(100), held(100), behind(100);
  before.Make(pair);
  pair.calls(0).HoldBack();
  EXPECT_TRUE(pair.calls(0).holds());
  held.MakeAt(pair, 0);
  pair.calls(0).HoldBack();
  behind.MakeAt(pair, 0);
  pair.AnswerAll();
  EXPECT_EQ(pair.controls().size(), 1u);
  EXPECT_EQ(pair.Outstanding(0, /*to_switch=*/true), 0u);
  EXPECT_THAT(Numbered(pair.ended(0)), ElementsAre(0));
  pair.calls(0).Abort();
  pair.Drain(0);
  EXPECT_THAT(Numbered(pair.ended(0)), ElementsAre(0, 1, 2));
  EXPECT_THAT(Outcomes(pair.ended(0)), ElementsAre(Outcome::kOk, Outcome::kAborted, Outcome::kAborted));
}

// Every call ends once, wherever it stands.
TEST(GroupCallsTest, WhenTheGroupIsAbortedEveryCallEnds) {
  for (const bool connected : {false, true}) {
    PairOfRanks pair({.asks = true, .invocation_bytes = 400});
    SumOfBoth by_hosts(900, kByHostsFlag), asking(250), behind(250);
    by_hosts.Make(pair);
    asking.Make(pair);
    behind.Make(pair);
    MakeBarrier(pair);
    if (connected) pair.Connect();
    pair.Post();
    pair.calls(1).Abort();
    EXPECT_TRUE(pair.calls(1).failed());
    pair.Drain(1);
    EXPECT_THAT(Numbered(pair.ended(1)), testing::UnorderedElementsAre(0, 1, 2, 3));
    EXPECT_THAT(Outcomes(pair.ended(1)), testing::Each(Outcome::kAborted));
  }
}

TEST(GroupCallsTest, ARefusedRequestEndsItsCallAndAllBehindIt) {
  PairOfRanks pair({.asks = true, .invocation_bytes = 400});
  SumOfBoth sum(250);
  sum.Make(pair);
  MakeBarrier(pair);
  ASSERT_TRUE(pair.Answer(ControlStatus::kMismatch, ControlField::kCount));
  EXPECT_TRUE(pair.calls(0).failed());
  EXPECT_TRUE(pair.calls(0).refused_by_switches());
  const GroupCalls::Failure failure = pair.calls(0).failure();
  EXPECT_EQ(failure.outcome, Outcome::kRefused);
  EXPECT_FALSE(failure.by_hosts);
  EXPECT_EQ(failure.reply.field, ControlField::kCount);
  EXPECT_EQ(failure.header.count, 250u) << "of the call as it was made here";
  pair.Drain(0);
  EXPECT_THAT(Numbered(pair.ended(0)), ElementsAre(0, 1));
  EXPECT_THAT(Outcomes(pair.ended(0)), ElementsAre(Outcome::kRefused, Outcome::kRefused));
  EXPECT_EQ(pair.calls(0).granted() + pair.calls(0).busy(), 0u);
}

// Its data would have gone another way, which is ended for it.
TEST(GroupCallsTest, ARefusedAgreementEndsItsCallAsRefused) {
  PairOfRanks pair({});
  SumOfBoth sum(100, kByHostsFlag);
  sum.Make(pair);
  pair.Connect();
  ASSERT_TRUE(pair.Answer(ControlStatus::kMismatch, ControlField::kCount));
  EXPECT_EQ(pair.calls(0).failure().header.count, 100u);
  pair.Drain(0);
  EXPECT_THAT(Outcomes(pair.ended(0)), ElementsAre(Outcome::kRefused));
}

TEST(GroupCallsTest, ARefusalNamesTheCallByItsSlice) {
  PairOfRanks pair({.invocation_bytes = 400});
  SumOfBoth first(50), sliced(250);
  first.Make(pair);
  sliced.Make(pair);
  for (int message = 0; message < 4; ++message) ASSERT_TRUE(pair.Answer());
  ASSERT_TRUE(pair.Answer(ControlStatus::kUnsupported, ControlField::kOp)) << "its second slice";
  const GroupCalls::Failure failure = pair.calls(1).failure();
  EXPECT_EQ(failure.header.count, 250u);
  EXPECT_TRUE(failure.in_slices);
}

TEST(GroupCallsTest, WhatFailsBetweenTheHostsEndsTheOtherWayToo) {
  PairOfRanks pair({});
  SumOfBoth by_hosts(100, kByHostsFlag), by_network(100);
  by_hosts.Make(pair);
  by_network.Make(pair);
  pair.Connect();
  ASSERT_TRUE(pair.Answer());
  const auto& posted = pair.posted(0);
  ASSERT_TRUE(posted[0].is_recv && posted[0].connection == 1);
  pair.calls(0).OnComplete(1, posted[0].wr_id, /*bytes=*/3, /*imm=*/0);
  EXPECT_TRUE(pair.calls(0).failed());
  EXPECT_EQ(pair.calls(0).failure().outcome, Outcome::kProtocol);
  EXPECT_TRUE(pair.calls(0).failure().by_hosts);
  EXPECT_FALSE(pair.calls(0).refused_by_switches());
  GroupCalls::Request request;
  EXPECT_FALSE(pair.calls(0).NextRequest(&request));
  pair.calls(0).Abort();
  EXPECT_EQ(pair.calls(0).failure().outcome, Outcome::kProtocol) << "what came first";
}

// The first round of trials is over with the sixteenth long call.
TEST(GroupCallsTest, LongCallsThatAreAloneAreTimedFromTheReplyToTheEnd) {
  for (const bool alone : {true, false}) {
    // Long is four windows: 4 * 2 packets of 1024 bytes.
    PairOfRanks pair({.network = {.message_packets = 1, .window_messages = 2}, .start_messages = 1});
    EXPECT_EQ(pair.calls(0).start_window(), 1u);
    for (int call = 0; call < 16; ++call) {
      EXPECT_THAT(pair.found(0), IsEmpty());
      SumOfBoth sum(8 * 256);
      if (!alone) MakeBarrier(pair);
      sum.Make(pair);
      pair.AnswerAll();
      sum.ExpectRight();
    }
    ASSERT_EQ(pair.found(0).size(), alone ? 1u : 0u);
    if (!alone) continue;
    // The clock goes on for either rank, over eight packets.
    EXPECT_EQ(pair.found(0)[0].ns_per_packet, 2000u / 8);
  }
}

TEST(GroupCallsTest, AcknowledgementsAreSharedWhileCallsAreInlined) {
  PairOfRanks pair({.network = {.inline_bytes = 64}});
  EXPECT_EQ(pair.calls(0).shared_acks(), 1u);
  MakeBarrier(pair);
  EXPECT_EQ(pair.calls(0).shared_acks(), 4u);
  SumOfBoth sum(100);
  sum.Make(pair);
  EXPECT_EQ(pair.calls(0).shared_acks(), 1u);
}

}  // namespace
}  // namespace epic
