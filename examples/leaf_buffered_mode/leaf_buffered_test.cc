#include "examples/leaf_buffered_mode/leaf_buffered.h"

#include <array>
#include <vector>

#include "incengine/core/engine_testing.h"
#include "incengine/modules/admit.h"
#include "sim/world.h"

namespace epic::engine {

// The mode has no number of its own: in this program it stands in the place of mode III, whose arena it
// needs.
const ModeLogic& AugmentedMode() { return LeafBufferedMode(); }

namespace {

using roce::Opcode;

class LeafBufferedTest : public EngineTest {
 protected:
  // Two hosts have sent one packet each, and the result has come from the parent (port 2).
  void UntilTheResult() {
    GroupConfig config = Config(/*root=*/false);
    config.mode = Mode::kAugmented;
    ASSERT_TRUE(engine.Install(config).ok());
    for (const uint32_t child : {0, 1, 2}) Control(child, 64);
    for (const uint32_t child : {0, 1}) Data(child, 0, 5, Opcode::kRcSendOnly);
    ASSERT_EQ(sent.size(), 1u) << "the partial sum";
    Data(2, 0, 99, Opcode::kRcSendOnly);
    ASSERT_EQ(sent.size(), 2u) << "the result for each host";
  }
};

TEST_F(LeafBufferedTest, ARepetitionGetsTheResultFromTheBuffer) {
  UntilTheResult();
  Data(1, 0, 5, Opcode::kRcSendOnly);
  ASSERT_EQ(sent.size(), 1u) << "nothing goes to the parent";
  EXPECT_EQ(sent[0].port, 1);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kOutPsn) + 1);
  EXPECT_EQ(Word(sent[0]), 99);
}

TEST_F(LeafBufferedTest, ARepetitionOfTheControlPacketGetsTheReply) {
  UntilTheResult();
  Control(0, 64);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].port, 0);
  EXPECT_EQ(sent[0].packet.bth.opcode, Opcode::kRcSendOnlyImm);
}

TEST_F(LeafBufferedTest, WhatIsAcknowledgedIsAcknowledgedAgain) {
  UntilTheResult();
  Ack(1, roce::kSyndromeAck, 1);
  Data(1, 0, 5, Opcode::kRcSendOnly);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].packet.bth.opcode, Opcode::kRcAck);
}

struct Outcome {
  bool right = false;
  int results_to_switches = 0;  // packets from switch to switch, downwards
};

// AllReduce on a tree of three levels (switches 0 to 6). Loses per million: any packet, or, with `results`,
// only results on their way from a switch to a host.
Outcome SumUnderLoss(Mode mode, uint64_t seed, bool results, uint64_t loss) {
  using sim::Fate;
  sim::World world({.mode = mode, .tree = sim::FullTree(3, 2), .message_packets = 4, .window_messages = 4},
                   seed);
  Outcome outcome;
  world.SetFaultRule([&](const sim::LinkPacket& p) {
    const bool data = IsSend(p.packet->bth.opcode);
    if (data && p.from < p.to && p.to < world.node_of_rank(0)) ++outcome.results_to_switches;
    const bool lossy = !results || (data && p.to >= world.node_of_rank(0));
    return lossy && world.choices().Chance(loss) ? Fate::kDrop : Fate::kDeliver;
  });
  const auto ranks = static_cast<size_t>(world.ranks());
  constexpr size_t kWords = 50'000;
  const auto bytes = [](int32_t* words) {
    return std::span(reinterpret_cast<uint8_t*>(words), kWords * sizeof(int32_t));
  };
  std::vector<int32_t> send(kWords, 3);
  std::vector<std::vector<int32_t>> recv(ranks, std::vector<int32_t>(kWords));
  for (size_t r = 0; r < ranks; ++r) {
    world.host(static_cast<int>(r)).AllReduce(DataType::kInt32, bytes(send.data()), bytes(recv[r].data()));
  }
  const auto done = [&] {
    for (size_t r = 0; r < ranks; ++r) {
      if (!world.host(static_cast<int>(r)).all_done()) return false;
    }
    return true;
  };
  outcome.right = world.RunUntil(done, 600 * kSecond);
  const std::vector<int32_t> want(kWords, 3 * static_cast<int32_t>(ranks));
  for (const auto& got : recv) outcome.right = outcome.right && got == want;
  return outcome;
}

TEST(LeafBufferedWorldTest, RightUnderLoss) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_TRUE(SumUnderLoss(Mode::kAugmented, seed, /*results=*/false, 10'000).right) << "seed " << seed;
  }
}

TEST(LeafBufferedWorldTest, WhatAHostLosesIsNotTheParentsBusiness) {
  const Outcome plain = SumUnderLoss(Mode::kTranslated, 1, /*results=*/true, 5'000);
  const Outcome buffered = SumUnderLoss(Mode::kAugmented, 1, /*results=*/true, 5'000);
  EXPECT_TRUE(plain.right);
  EXPECT_TRUE(buffered.right);
  const int once = SumUnderLoss(Mode::kTranslated, 1, /*results=*/true, 0).results_to_switches;
  EXPECT_GT(plain.results_to_switches, once) << "mode II's parents repeat what its hosts lose";
  EXPECT_EQ(buffered.results_to_switches, once);
}

}  // namespace
}  // namespace epic::engine
