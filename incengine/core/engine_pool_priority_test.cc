// Priorities of calls at one switch (docs/PROTOCOL-MODE-V.md, section 2).
#include "incengine/core/engine_pool_testing.h"

namespace epic::engine {
namespace {

ControlHeader AllReduce(Priority priority, uint64_t packets = 1) {
  return {.collective = Collective::kAllReduce,
          .op = ReduceOp::kSum,
          .type = DataType::kInt32,
          .count = 64 * packets,
          .priority = priority};
}

// Group 1 has called, and its sum has the only place, with that priority.
class EnginePoolPriorityTest : public EnginePoolTest {
 protected:
  void TakePlace(Priority priority) {
    MakePool(1, 8);
    Install(PoolGroup(1, 2));
    Call(1, 2, 1, priority);
    Data(1, 0, 1, 1);
    ASSERT_EQ(pool().in_use(), 1u);
  }
  // Of group 2, at the place: did it win?
  bool Wins(uint32_t rank, Index index) {
    const uint64_t before = pool().counters(1).evictions;
    Data(2, rank, index, 100);
    return pool().counters(1).evictions > before;
  }
};

TEST_F(EnginePoolPriorityTest, TheHighestOfTheRanksThatHaveCalledCounts) {
  TakePlace(4 << 16);
  Install(PoolGroup(2, 3));
  packets_of[2] = 2;
  Header(2, 0, AllReduce(3 << 16, 2));
  EXPECT_FALSE(Wins(0, 1)) << "3 is less than 4, which is 2 now";
  Header(2, 1, AllReduce(5 << 16, 2));
  Header(2, 2, AllReduce(1, 2));
  for (const uint32_t rank : {0u, 1u, 2u}) Acknowledge(2, rank, 0);
  EXPECT_EQ(context(2).control[0].priority, 5u << 16);
  EXPECT_TRUE(Wins(0, 2));
}

TEST_F(EnginePoolPriorityTest, EachAttemptThatFailsHalvesAndATieStays) {
  TakePlace(8 << 16);
  Install(PoolGroup(2, 2));
  Call(2, 2, 4, 2 << 16);
  EXPECT_FALSE(Wins(0, 1)) << "8";
  EXPECT_FALSE(Wins(0, 2)) << "4";
  EXPECT_FALSE(Wins(0, 3)) << "2: a tie";
  EXPECT_TRUE(Wins(0, 4)) << "1";
  EXPECT_EQ(pool().counters(1).downgrades, 3u);
}

TEST_F(EnginePoolPriorityTest, ZerosAreOfAVersionWithoutAndCountAsOne) {
  TakePlace(0);
  Install(PoolGroup(2, 2));
  Call(2, 2, 2, kDefaultPriority);
  EXPECT_FALSE(Wins(0, 1)) << "a tie";
  EXPECT_TRUE(Wins(0, 2));
  EXPECT_EQ(context(1).control[0].priority, kDefaultPriority);
}

TEST_F(EnginePoolPriorityTest, TheGroupsLimitHolds) {
  TakePlace(4 << 16);
  GroupConfig config = PoolGroup(2, 2);
  config.priority_limit = 4 << 16;
  Install(config);
  Call(2, 2, 2, kMostPriority);
  EXPECT_FALSE(Wins(0, 1)) << "a tie";
  EXPECT_TRUE(Wins(0, 2));
}

TEST_F(EnginePoolPriorityTest, MoreThanTheMostCountsAsThat) {
  TakePlace(kMostPriority);
  Install(PoolGroup(2, 2));
  Call(2, 2, 1, UINT32_MAX);
  EXPECT_FALSE(Wins(0, 1)) << "a tie";
}

// The next call of a group has its own, whatever the one before had.
TEST_F(EnginePoolPriorityTest, EachCallHasItsOwn) {
  MakePool(1, 8);
  Install(PoolGroup(2, 1));
  Install(PoolGroup(1, 2));
  Call(2, 1, 1, 9 << 16);
  Data(2, 0, 1, 1);
  Acknowledge(2, 0, 1);
  Call(1, 2, 1, 4 << 16);
  Data(1, 0, 1, 1);
  ControlHeader second = AllReduce(3 << 16);
  second.invocation = 1;
  Header(2, 0, second, 2);
  EXPECT_EQ(context(2).control[1].priority, 3u << 16);
  packets_of[2] = 3;
  EXPECT_FALSE(Wins(0, 3));
}

// Its control packet brings them, so that it says for itself how they are to be taken.
TEST_F(EnginePoolPriorityTest, DataInAControlPacketHaveWhatItSays) {
  TakePlace(4 << 16);
  Install(PoolGroup(2, 2));
  const auto call = [&](uint32_t rank, Priority priority) {
    ControlHeader header = AllReduce(priority);
    header.count = 4;
    header.flags = kInlinedFlag;
    std::array<uint8_t, kControlBytes + 16> bytes{};
    Encode(header, std::span(bytes).first<kControlBytes>());
    Deliver(2, rank, From(2, rank, Psn(kFirstIn), roce::Opcode::kRcSendOnlyImm, bytes));
  };
  call(0, 3 << 16);
  EXPECT_EQ(pool().counters(1).evictions, 0u);
  EXPECT_EQ(pool().counters(1).downgrades, 1u);
  EXPECT_EQ(Heard(2).substr(0, 14), "OPEN 0, PART 0");
  call(1, 9 << 16);
  EXPECT_EQ(pool().counters(1).evictions, 0u) << "the last contribution of a split index asks for no place";
  EXPECT_EQ(context(2).state, GroupState::kRunning);
}

TEST_F(EnginePoolPriorityTest, DataInAControlPacketTakeThePlace) {
  TakePlace(4 << 16);
  Install(PoolGroup(2, 2));
  ControlHeader header = AllReduce(5 << 16);
  header.count = 4;
  header.flags = kInlinedFlag;
  std::array<uint8_t, kControlBytes + 16> bytes{};
  Encode(header, std::span(bytes).first<kControlBytes>());
  Deliver(2, 0, From(2, 0, Psn(kFirstIn), roce::Opcode::kRcSendOnlyImm, bytes));
  EXPECT_EQ(pool().counters(1).evictions, 1u);
}

// Ranks and servers of a version without priorities want zeros there.
TEST_F(EnginePoolPriorityTest, NeitherTheReplyNorTheServerIsToldOfIt) {
  MakePool(1, 8);
  Install(PoolGroup(1, 2));
  Install(PoolGroup(2, 1));
  Header(1, 0, AllReduce(3 << 16));
  Header(1, 1, AllReduce(2 << 16));
  ASSERT_EQ(sent.empty(), false);
  const auto reply = std::ranges::find_if(
      sent, [](const OwnPacket& s) { return s.head.bth.opcode == roce::Opcode::kRcSendOnlyImm; });
  ASSERT_NE(reply, sent.end());
  const auto header = HeaderOf(reply->payload);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->priority, 0u);
  for (const uint32_t rank : {0u, 1u}) Acknowledge(1, rank, 0);
  packets_of[1] = 1;
  Data(1, 0, 1, 1);
  Call(2, 1, 1, 9 << 16);
  Data(2, 0, 1, 5);
  ASSERT_FALSE(legs.at(1).got.empty());
  const LegEnd::Got& open = legs.at(1).got.front();
  ASSERT_EQ(open.kind, LegMessage::kOpen);
  EXPECT_EQ(HeaderOf(open.bytes)->priority, 0u);
}

// A group that loses every time goes to its server by and by, and ends there.
TEST_F(EnginePoolPriorityTest, WhoAlwaysLosesEndsThroughItsServer) {
  TakePlace(kMostPriority);
  Install(PoolGroup(2, 3));
  Call(2, 3, 2, kLeastPriority);
  for (const Index index : {1, 2}) {
    for (const uint32_t rank : {0u, 1u, 2u}) EXPECT_FALSE(Wins(rank, index));
  }
  EXPECT_EQ(pool().counters(2).claims, 0u);
  EXPECT_EQ(Heard(2),
            "OPEN 0, PART 1: 100, PART 1: 100, LAST 1: 100, FETCH 1, PART 2: 100, PART 2: 100, LAST 2: 100, "
            "FETCH 2");
  Sum(2, 1, 300);
  EXPECT_EQ(Results(2, 1), (std::vector<int32_t>{300, 300, 300}));
  Sum(2, 2, 300);
  EXPECT_EQ(Results(2, 2), (std::vector<int32_t>{300, 300, 300}));
  AcknowledgeAll(2, 3, 2);
  EXPECT_EQ(pool().in_use(), 1u) << "group 1's alone";
  Data(1, 1, 1, 2);
  EXPECT_EQ(Results(1, 1), (std::vector<int32_t>{3, 3}));
}

}  // namespace
}  // namespace epic::engine
