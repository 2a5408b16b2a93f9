// Mode V at one switch, packet by packet: who is summed in the pool, and what goes to the server
// (docs/PROTOCOL-MODE-V.md, sections 3 and 4).
#include <bit>

#include "incengine/core/engine_pool_testing.h"

namespace epic::engine {
namespace {

using testing::Test;
using Use = Pool::Use;

constexpr auto kRunning = GroupState::kRunning;

// DSA, section III-C and Fig. 3: job 1 has four workers, job 2 has two and more priority.
TEST_F(EnginePoolTest, ThePapersExample) {
  MakePool(1, 8);
  Install(PoolGroup(1, 4));
  Install(PoolGroup(2, 2));
  Call(1, 4, 1);
  Call(2, 2, 1, 2 << 16);
  Data(1, 0, 1, 1);
  Data(1, 1, 1, 2);
  EXPECT_EQ(Heard(1), "");
  Data(2, 0, 1, 100);
  EXPECT_EQ(Heard(1), "OPEN 0, PART 1: 3") << "g1 + g2";
  Data(2, 1, 1, 200);
  EXPECT_EQ(Results(2, 1), (std::vector<int32_t>{300, 300}));
  AcknowledgeAll(2, 2, 1);
  EXPECT_EQ(pool().in_use(), 0u);
  Data(1, 2, 1, 4);
  EXPECT_EQ(Heard(1), "") << "it has claimed the place";
  Data(1, 3, 1, 8);
  EXPECT_EQ(Heard(1), "LAST 1: 12, FETCH 1") << "g3 + g4, at once: no timer has run";
  EXPECT_EQ(pool().in_use(), 0u);
  EXPECT_EQ(pool().spare(), pool().buffers());
  Sum(1, 1, 15);
  EXPECT_EQ(Results(1, 1), (std::vector<int32_t>{15, 15, 15, 15}));
  EXPECT_EQ(Heard(2), "");
  EXPECT_EQ(context(1).state, kRunning);
}

TEST_F(EnginePoolTest, WithRoomNothingGoesToTheServer) {
  MakePool(4, 4);
  Install(PoolGroup(1, 2));
  Call(1, 2, 4);
  for (Index index = 1; index <= 4; ++index) {
    Data(1, 0, index, 1);
    EXPECT_EQ(pool().in_use(), 1u);
    Data(1, 1, index, 2);
    EXPECT_EQ(Results(1, index), (std::vector<int32_t>{3, 3}));
    AcknowledgeAll(1, 2, index);
    EXPECT_EQ(pool().in_use(), 0u);
  }
  EXPECT_EQ(Heard(1), "");
  EXPECT_EQ(pool().counters(1).claims, 4u);
}

TEST_F(EnginePoolTest, AResultKeepsItsPlaceUntilAllHaveAcknowledgedIt) {
  MakePool(1, 7);
  Install(PoolGroup(1, 2));
  Install(PoolGroup(2, 2));
  Call(1, 2, 1);
  Call(2, 2, 1, 5 << 16);
  Data(1, 0, 1, 1);
  Data(1, 1, 1, 2);
  Acknowledge(1, 0, 1);
  EXPECT_EQ(pool().in_use(), 1u);
  Data(2, 0, 1, 7);
  EXPECT_EQ(Heard(2), "OPEN 0, PART 1: 7") << "what is whole is not taken, whatever the priority";
  // What rank 1 has lost it gets again.
  sent.clear();
  now = timers.at(1);
  engine.OnTimer(now, TimerId{1}, *this);
  EXPECT_EQ(Results(1, 1), (std::vector<int32_t>{3}));
  Acknowledge(1, 1, 1);
  EXPECT_EQ(pool().in_use(), 0u);
}

TEST_F(EnginePoolTest, ARepetitionEntersNoSecondSum) {
  MakePool(1, 8);
  Install(PoolGroup(1, 3));
  Install(PoolGroup(2, 2));
  Call(1, 3, 1);
  Call(2, 2, 1, 2 << 16);
  Data(1, 0, 1, 1);
  Data(2, 0, 1, 100);
  Data(2, 1, 1, 100);
  AcknowledgeAll(2, 2, 1);
  EXPECT_EQ(Heard(1), "OPEN 0, PART 1: 1");
  Data(1, 0, 1, 1);  // its acknowledgement was lost; the place is free
  EXPECT_EQ(drops, std::vector{DropReason::kDuplicate});
  EXPECT_EQ(pool().in_use(), 0u);
  Data(1, 1, 1, 2);
  Data(1, 0, 1, 1);
  Data(1, 2, 1, 4);
  EXPECT_EQ(Heard(1), "LAST 1: 6, FETCH 1");
}

TEST_F(EnginePoolTest, WhoLosesGoesToTheServerByItself) {
  MakePool(1, 12);
  Install(PoolGroup(1, 2));
  Install(PoolGroup(2, 2));
  Call(1, 2, 1);
  Call(2, 2, 1);
  Data(1, 0, 1, 1);
  Data(2, 0, 1, 10);
  EXPECT_EQ(Heard(2), "OPEN 0, PART 1: 10") << "of equal priorities the place stays";
  EXPECT_EQ(pool().counters(1).downgrades, 1u);
  Data(1, 1, 1, 2);
  EXPECT_EQ(Results(1, 1), (std::vector<int32_t>{3, 3}));
  EXPECT_EQ(Heard(1), "");
}

TEST_F(EnginePoolTest, TheLastContributionOfASplitIndexAsksForNoPlace) {
  MakePool(1, 8);
  Install(PoolGroup(1, 2));
  Install(PoolGroup(2, 2));
  Call(1, 2, 1);
  Call(2, 2, 1, 9 << 16);
  Data(1, 0, 1, 1);
  Data(2, 0, 1, 10);
  EXPECT_EQ(Heard(1), "OPEN 0, PART 1: 1");
  Data(1, 1, 1, 2);
  EXPECT_EQ(Heard(1), "LAST 1: 2, FETCH 1");
  EXPECT_EQ(pool().counters(2).downgrades, 0u) << "it has not tried to take the place";
  Data(2, 1, 1, 20);
  EXPECT_EQ(Results(2, 1), (std::vector<int32_t>{30, 30}));
}

TEST_F(EnginePoolTest, ASumMayBeEvictedAgainAndAgain) {
  MakePool(1, 70, PoolPolicy::kAlways);
  Install(PoolGroup(1, 4));
  Install(PoolGroup(2, 4));
  Call(1, 4, 1);
  Call(2, 4, 1);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    Data(1, rank, 1, 1 << rank);
    Data(2, rank, 1, 16 << rank);
  }
  EXPECT_EQ(Heard(1), "OPEN 0, PART 1: 1, PART 1: 2, PART 1: 4, LAST 1: 8, FETCH 1");
  EXPECT_EQ(Heard(2), "OPEN 0, PART 1: 16, PART 1: 32, LAST 1: 192, FETCH 1")
      << "the last of group 1 has asked for no place";
  EXPECT_EQ(pool().in_use(), 0u);
}

TEST_F(EnginePoolTest, WithoutRoomAContributionWaits) {
  MakePool(1, 7);
  Install(PoolGroup(1, 2));
  Call(1, 2, 4);
  silent = true;
  Data(1, 0, 1, 1);
  Data(1, 0, 2, 2);  // passes: the one part that may be under way
  EXPECT_TRUE(drops.empty());
  Data(1, 0, 3, 3);
  EXPECT_EQ(drops, std::vector{DropReason::kAboveWindow});
  ASSERT_EQ(Answers(1, 0).size(), 2u);
  EXPECT_EQ(Answers(1, 0)[0], roce::kSyndromeAck);
  EXPECT_TRUE(roce::IsRnrNak(Answers(1, 0)[1]));
  EXPECT_EQ(sent.back().head.bth.psn, Psn(kFirstIn) + 3);
  Data(1, 0, 4, 4);
  EXPECT_EQ(drops, std::vector{DropReason::kGap});
  EXPECT_TRUE(Answers(1, 0).empty()) << "no sequence NAK: it would come again at once";
  silent = false;
  RunLegs();
  Data(1, 0, 3, 3);
  EXPECT_TRUE(drops.empty());
  EXPECT_EQ(Heard(1), "OPEN 0, PART 2: 2, PART 3: 3");
  Data(1, 0, 4, 4);
  EXPECT_TRUE(drops.empty());
}

TEST_F(EnginePoolTest, TheRestWaitsWhereNoPartMayLeave) {
  MakePool(2, 6, PoolPolicy::kFcfs);
  Install(PoolGroup(1, 3));
  Call(1, 3, 4);
  Data(1, 0, 1, 1);
  Data(1, 0, 2, 2);
  Data(1, 0, 3, 3);
  EXPECT_EQ(Heard(1), "OPEN 0, PART 3: 3");
  for (const uint32_t rank : {1u, 2u}) Data(1, rank, 1, 1);
  AcknowledgeAll(1, 3, 1);
  Data(1, 1, 2, 20);
  Data(1, 1, 3, 30);  // into the place that index 1 had
  silent = true;
  Data(1, 0, 4, 4);  // passes
  Data(1, 2, 2, 200);
  Data(1, 2, 3, 300);  // the last; no part may leave
  const Slot& slot = *reinterpret_cast<const Slot*>(
      engine.arena().At(context(1).arena_offset + 3 * sizeof(Slot), sizeof(Slot)).data());
  ASSERT_NE(slot.buffer, kNoBuffer);
  EXPECT_EQ(pool().UseOf(slot.buffer), Use::kWhole) << "nobody takes it";
  EXPECT_EQ(context(1).pooled->held.size(), 1u);
  silent = false;
  RunLegs();
  EXPECT_EQ(Heard(1), "PART 4: 4, LAST 3: 330, FETCH 3");
  EXPECT_TRUE(context(1).pooled->held.empty());
}

TEST_F(EnginePoolTest, TheOwnBufferIsForTheResultThatIsDueNext) {
  MakePool(1, 7, PoolPolicy::kFcfs);  // one sum may have a buffer of the pool
  Install(PoolGroup(2, 1));
  Call(2, 1, 1);
  Install(PoolGroup(1, 2));
  Call(1, 2, 4);
  // The place is the other group's for good: it does not acknowledge its result.
  Data(2, 0, 1, 9);
  for (Index index = 1; index <= 4; ++index) Data(1, 0, index, 1);
  EXPECT_EQ(Heard(1), "OPEN 0, PART 1: 1, PART 2: 1, PART 3: 1, PART 4: 1");
  // Rank 1's first is late; a NIC sends in order, so the others' sums are not whole before.
  Data(1, 1, 1, 2);
  EXPECT_EQ(Heard(1), "LAST 1: 2, FETCH 1");
  Data(1, 1, 2, 2);
  EXPECT_EQ(Heard(1), "LAST 2: 2, FETCH 2") << "into the pool's: its own is for index 1";
  Data(1, 1, 3, 2);
  EXPECT_EQ(Heard(1), "LAST 3: 2") << "no buffer for it";
  Sum(1, 1, 3);
  EXPECT_EQ(Results(1, 1), (std::vector<int32_t>{3, 3}));
  EXPECT_EQ(Heard(1), "") << "the own buffer holds result 1";
  Sum(1, 2, 3);
  AcknowledgeAll(1, 2, 1);
  EXPECT_EQ(Heard(1), "FETCH 3");
  AcknowledgeAll(1, 2, 2);
  Data(1, 1, 4, 2);
  EXPECT_EQ(Heard(1), "LAST 4: 2, FETCH 4");
  Sum(1, 3, 3);
  Sum(1, 4, 3);
  AcknowledgeAll(1, 2, 4);
  EXPECT_EQ(pool().spare(), pool().buffers() - 1);
  EXPECT_FALSE(context(1).pooled->own_taken);
}

TEST_F(EnginePoolTest, ALaterPartOfAnAllGatherLeavesTheOwnBufferAlone) {
  MakePool(1, 7, PoolPolicy::kFcfs);  // one sum may have a buffer of the pool
  Install(PoolGroup(2, 1));
  Call(2, 1, 1);
  Data(2, 0, 1, 9);  // has the place, and does not acknowledge its result
  Install(PoolGroup(1, 2));
  const ControlHeader call{
      .collective = Collective::kAllGather, .type = DataType::kInt32, .count = 128, .parts = 2};
  for (const uint32_t rank : {0u, 1u}) Header(1, rank, call);
  AcknowledgeAll(1, 2, 0);
  const auto send = [&](uint32_t rank, int32_t at, int32_t value) {
    const std::vector<int32_t> words(64, value);
    Deliver(
        1, rank,
        From(1, rank, Psn(kFirstIn) + at, at == 1 ? roce::Opcode::kRcSendFirst : roce::Opcode::kRcSendLast,
             {reinterpret_cast<const uint8_t*>(words.data()), words.size() * 4}));
  };
  send(1, 1, 30);
  send(1, 2, 40);
  EXPECT_EQ(Heard(1), "OPEN 0, LAST 3: 30, FETCH 3, LAST 4: 40") << "rank 0 is late";
  send(0, 1, 10);
  EXPECT_EQ(Heard(1), "LAST 1: 10, FETCH 1")
      << "else the results of rank 1 would wait for it, and it for them";
}

TEST_F(EnginePoolTest, AResultThatTakesTheSlotOfAnOlderOneLosesNoBuffer) {
  MakePool(16, 4);
  Install(PoolGroup(1, 2));
  Call(1, 2, 9);
  for (Index index = 1; index <= 9; ++index) {
    Data(1, 0, index, 1);
    Data(1, 1, index, 2);
  }
  EXPECT_TRUE(Results(1, 9).empty()) << "index 1 has its slot";
  Acknowledge(1, 0, 8);
  Acknowledge(1, 1, 1);
  EXPECT_EQ(Results(1, 9).size(), 2u) << "now that all have index 1";
  EXPECT_EQ(pool().in_use(), 8u);
  Acknowledge(1, 0, 9);
  Acknowledge(1, 1, 9);
  EXPECT_EQ(pool().spare(), pool().buffers());
}

TEST_F(EnginePoolTest, PartsOfSixteenBitElementsAreNotRounded) {
  MakePool(1, 8);
  Install(PoolGroup(1, 2));
  Install(PoolGroup(2, 1));
  Call(2, 1, 1, 2 << 16);
  for (const uint32_t rank : {0u, 1u}) {
    Header(1, rank,
           {.collective = Collective::kAllReduce,
            .op = ReduceOp::kSum,
            .type = DataType::kBFloat16,
            .count = 128});
  }
  const std::vector<uint16_t> ones(128, 0x3f80);  // 1.0
  const std::span bytes(reinterpret_cast<const uint8_t*>(ones.data()), 256);
  Deliver(1, 0, From(1, 0, Psn(kFirstIn) + 1, roce::Opcode::kRcSendOnly, bytes));
  Data(2, 0, 1, 5);
  LegEnd& leg = legs.at(1);
  ASSERT_EQ(leg.got.size(), 2u);
  ASSERT_EQ(leg.got[1].bytes.size(), 512u) << "FP32";
  EXPECT_EQ(leg.got[1].real(127), 1.0f);
  Deliver(1, 1, From(1, 1, Psn(kFirstIn) + 1, roce::Opcode::kRcSendOnly, bytes));
  EXPECT_EQ(leg.got.at(2).kind, LegMessage::kLast);
  EXPECT_EQ(leg.got[2].bytes.size(), 512u);
  EXPECT_EQ(leg.got[2].real(0), 1.0f);
  EXPECT_EQ(leg.got[2].real(127), 1.0f);
  const std::vector<uint16_t> twos(128, 0x4000);
  FromServer(1, LegMessage::kSum, 1, std::as_bytes(std::span(twos)));
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.back().payload.size(), 256u);
}

TEST_F(EnginePoolTest, ACopyWithoutAPlaceIsPartAndLastInOne) {
  MakePool(1, 8, PoolPolicy::kFcfs);
  Install(PoolGroup(2, 2));
  Call(2, 2, 1);
  Data(2, 0, 1, 5);
  Install(PoolGroup(1, 2));
  const ControlHeader broadcast{.collective = Collective::kBroadcast, .type = DataType::kInt32, .count = 64};
  for (const uint32_t rank : {0u, 1u}) Header(1, rank, broadcast);
  AcknowledgeAll(1, 2, 0);
  packets_of[1] = 1;
  Data(1, 0, 1, 77);
  EXPECT_EQ(Heard(1), "OPEN 0, LAST 1: 77, FETCH 1");
  Sum(1, 1, 77);
  EXPECT_EQ(Results(1, 1), std::vector{77}) << "to the rank that has not sent it";
}

TEST_F(EnginePoolTest, DataInlinedBehindTheHeaderGoWithoutIt) {
  MakePool(1, 8, PoolPolicy::kAlways);
  Install(PoolGroup(1, 2));
  Install(PoolGroup(2, 1));
  Call(2, 1, 1);
  std::array<uint8_t, kControlBytes + 16> bytes{};
  Encode({.collective = Collective::kAllReduce,
          .op = ReduceOp::kSum,
          .type = DataType::kInt32,
          .count = 4,
          .flags = kInlinedFlag},
         std::span(bytes).first<kControlBytes>());
  bytes[kControlBytes] = 3;
  Deliver(1, 0, From(1, 0, Psn(kFirstIn), roce::Opcode::kRcSendOnlyImm, bytes));
  Data(2, 0, 1, 5);
  ASSERT_EQ(legs.at(1).got.size(), 2u);
  EXPECT_EQ(legs.at(1).got[1].bytes.size(), 16u);
  EXPECT_EQ(Heard(1), "OPEN 0, PART 0: 3");
  Deliver(1, 1, From(1, 1, Psn(kFirstIn), roce::Opcode::kRcSendOnlyImm, bytes));
  EXPECT_EQ(Heard(1), "LAST 0: 3, FETCH 0");
  Sum(1, 0, 6, 4);
  ASSERT_EQ(Results(1, 0).size(), 2u);
  EXPECT_EQ(sent.back().payload.size(), kControlBytes + 16);
  const auto header = HeaderOf(sent.back().payload);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->count, 4u);
  EXPECT_EQ(sent.back().payload[kControlBytes], 6);
}

TEST_F(EnginePoolTest, EachCallWithPartsIsOpenedOnceAndInOrder) {
  MakePool(1, 12, PoolPolicy::kFcfs);
  Install(PoolGroup(2, 2));
  Call(2, 2, 1);
  Data(2, 0, 1, 5);
  Install(PoolGroup(1, 1));
  ControlHeader call{
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kInt32, .count = 64};
  Header(1, 0, call);
  packets_of[1] = 1;
  Data(1, 0, 1, 1);
  call.invocation = 1;
  Header(1, 0, call, 2);
  Deliver(1, 0, [&] {
    static const std::vector<int32_t> words(64, 8);
    return From(1, 0, Psn(kFirstIn) + 3, roce::Opcode::kRcSendOnly,
                {reinterpret_cast<const uint8_t*>(words.data()), 256});
  }());
  EXPECT_EQ(Heard(1), "OPEN 0, LAST 1: 1, FETCH 1, OPEN 2, LAST 3: 8, FETCH 3");
}

}  // namespace
}  // namespace epic::engine
