#include "examples/paced_mode/paced.h"

#include <string>
#include <vector>

#include "incengine/core/engine_testing.h"
#include "incengine/modules/admit.h"
#include "sim/trial.h"

namespace epic::engine {

// The mode has no number of its own: in this program it stands in the place of mode III, whose memory it
// needs.
const ModeLogic& AugmentedMode() { return PacedMode(); }

namespace {

using roce::Opcode;

class PacedTest : public EngineTest {
 protected:
  // A root with two hosts and a third child.
  void InstallWithThree(bool third_is_host) {
    GroupConfig config = Config(/*root=*/true);
    config.mode = Mode::kAugmented;
    config.world_size = 3;
    config.children.push_back(Child(2, third_is_host));
    ASSERT_TRUE(engine.Install(config).ok());
  }
  // Each of the three, hosts, has called.
  void UntilTheReply() {
    InstallWithThree(true);
    for (const uint32_t child : {0, 1, 2}) Control(child, 64);
  }
  void Results(int64_t at, Opcode opcode) {
    for (const uint32_t child : {0, 1, 2}) Data(child, at, 5, opcode);
  }
  // Ports and PSNs, counted from the first, of what has just been sent.
  std::vector<std::pair<int, int>> Left() const {
    std::vector<std::pair<int, int>> left;
    for (const Sent& one : sent) left.emplace_back(one.port, one.packet.bth.psn.DistanceFrom(Psn(kOutPsn)));
    return left;
  }
};
using Leaving = std::vector<std::pair<int, int>>;

TEST_F(PacedTest, TwoAtOnceAndTheThirdByTheTimer) {
  UntilTheReply();
  EXPECT_EQ(Left(), (Leaving{{0, 0}, {1, 0}}));
  EXPECT_GT(timer, now);
  Fire();
  EXPECT_EQ(Left(), (Leaving{{2, 0}}));
  Fire();
  for (const Sent& one : sent) EXPECT_FALSE(IsSend(one.packet.bth.opcode)) << "nothing waits";
}

TEST_F(PacedTest, WhatComesMeanwhileWaitsBehind) {
  UntilTheReply();
  Results(0, Opcode::kRcSendOnly);
  EXPECT_EQ(Left(), (Leaving{{0, 1}, {1, 1}}));
  Fire();
  EXPECT_EQ(Left(), (Leaving{{2, 0}, {2, 1}}));
  EXPECT_EQ(Word(sent[1]), 15);
}

TEST_F(PacedTest, ATurnThatIsLateLeavesWithTheNextResultInOrder) {
  UntilTheReply();
  now = timer + 1;
  Results(0, Opcode::kRcSendOnly);
  EXPECT_EQ(Left(), (Leaving{{0, 1}, {1, 1}, {2, 0}, {2, 1}}));
}

TEST_F(PacedTest, WhoAsksForWhatWaitsIsToldToWait) {
  UntilTheReply();
  Control(2, 64);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(roce::IsRnrNak(sent[0].packet.aeth.syndrome)) << "its turn is to come";
  Fire();
  Control(2, 64);
  EXPECT_EQ(Left(), (Leaving{{2, 0}})) << "it has left, and is repeated";
}

TEST_F(PacedTest, ASwitchThatAsksForWhatWaitsGetsItInItsTurn) {
  InstallWithThree(false);
  for (const uint32_t child : {0, 1, 2}) Control(child, 64);
  Ack(2, roce::kSyndromeNakSequence, 0);
  EXPECT_TRUE(sent.empty());
  Fire();
  EXPECT_EQ(Left(), (Leaving{{2, 0}}));
}

TEST_F(PacedTest, BelowTheRootNobodyIsAskedForWhatWaits) {
  GroupConfig config = Config(/*root=*/false);
  config.mode = Mode::kAugmented;
  config.world_size = 4;
  config.children.push_back(Child(3, false));
  ASSERT_TRUE(engine.Install(config).ok());
  for (const uint32_t child : {0, 1, 3}) Control(child, 64);
  Control(2, 64);
  ASSERT_EQ(Left(), (Leaving{{0, 0}, {1, 0}})) << "the reply of the parent, port 2";
  Ack(3, roce::kSyndromeNakSequence, 0);
  EXPECT_TRUE(sent.empty()) << "neither repeated nor asked for";
  Fire();
  EXPECT_EQ(Left(), (Leaving{{3, 0}}));
}

// A Reduce to the third rank: its result has nobody before it.
TEST_F(PacedTest, TurnsAreCountedOverThoseWhoReceive) {
  InstallWithThree(true);
  const ControlHeader header{.collective = Collective::kReduce,
                             .op = ReduceOp::kSum,
                             .type = DataType::kInt32,
                             .count = 64,
                             .root = 2};
  std::array<uint8_t, kControlBytes> bytes;
  Encode(header, bytes);
  for (const uint32_t child : {0, 1, 2}) Deliver(From(child, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes));
  Fire();
  ASSERT_EQ(Left(), (Leaving{{2, 0}})) << "the reply";
  for (const uint32_t child : {0, 1}) Data(child, 0, 5, Opcode::kRcSendOnly);
  EXPECT_TRUE(sent.empty() || Left() == (Leaving{{2, 1}}));
}

TEST(PacedTrialTest, SeedsAreRight) {
  for (const char* topology : {"star-4", "tree-7-2", "uneven"}) {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      const auto scenario = sim::Complete({.seed = seed, .topology = topology, .mode = "3"});
      ASSERT_TRUE(scenario.ok());
      EXPECT_EQ(sim::RunTrial(*scenario).verdict, sim::Verdict::kRight) << sim::ReplayLine(*scenario);
    }
  }
}

}  // namespace
}  // namespace epic::engine
