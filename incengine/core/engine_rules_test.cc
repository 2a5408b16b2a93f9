// Rules of docs/RULES.md that concern one switch, packet in, packets out: segments, tracked data in mode II,
// and mode III's hop. Each fails when its rule is taken out of the engine.
#include <algorithm>

#include "incengine/core/engine_testing.h"
#include "roce/rnr_timer.h"

namespace epic::engine {
namespace {

using roce::Opcode;

class RulesTest : public EngineTest {
 protected:
  void Call(uint32_t child, Collective collective, uint32_t root, uint64_t count,
            DataType type = DataType::kInt32) {
    const ControlHeader header{.collective = collective,
                               .op = Reduces(collective) ? ReduceOp::kSum : ReduceOp::kNone,
                               .type = type,
                               .count = count,
                               .root = root};
    std::array<uint8_t, kControlBytes> bytes;
    Encode(header, bytes);
    Deliver(From(child, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes));
  }
  void InstallThreeHosts() {
    GroupConfig config = Config(true);
    config.world_size = 3;
    config.children.push_back(Child(2, true));
    ASSERT_TRUE(engine.Install(config).ok());
  }
  // Mode III with messages of four packets, so that an ACK in mid-message is the switch's own doing.
  void InstallAugmented(bool root) {
    GroupConfig config = Config(root);
    config.mode = Mode::kAugmented;
    config.message_packets = 4;
    config.window_messages = 1;
    ASSERT_TRUE(engine.Install(config).ok());
  }
  static Opcode OpcodeOfFour(int64_t at) {
    return at % 4 == 0 ? Opcode::kRcSendFirst : at % 4 == 3 ? Opcode::kRcSendLast : Opcode::kRcSendMiddle;
  }
  std::vector<Sent> To(PortId port, Opcode opcode) const {
    std::vector<Sent> found;
    for (const Sent& s : sent) {
      if (s.port == port && s.packet.bth.opcode == opcode) found.push_back(s);
    }
    return found;
  }
  std::vector<Sent> AethTo(PortId port, bool (*is)(uint8_t)) const {
    std::vector<Sent> found = To(port, Opcode::kRcAck);
    std::erase_if(found, [is](const Sent& s) { return !is(s.packet.aeth.syndrome); });
    return found;
  }
  static bool IsSequenceNak(uint8_t syndrome) { return syndrome == roce::kSyndromeNakSequence; }
};

TEST_F(RulesTest, ARepeatedControlPacketMovesNothing) {
  Install(true);
  Control(0, 64);
  Control(0, 64);
  EXPECT_EQ(drops, std::vector{DropReason::kDuplicate});
  EXPECT_EQ(context().children[0].in.next_invocation(), 1);
  EXPECT_EQ(context().children[0].in.next_wire(), Psn(kInPsn) + 2);
}

TEST_F(RulesTest, AControlPacketAheadOfItsPositionIsAGap) {
  Install(true);
  Control(0, 64, 0, /*index=*/5);
  EXPECT_EQ(drops, std::vector{DropReason::kGap});
  EXPECT_TRUE(context().invocations.empty());
}

TEST_F(RulesTest, ASlotThatANewerIndexClaimsStartsAnew) {
  Install(true);  // eight slots: indices 1 and 9 share one
  Control(0, 64 * 16);
  Control(1, 64 * 16);
  for (int64_t at = 0; at < 9; ++at) {
    const Opcode opcode = at % 2 == 0 ? Opcode::kRcSendFirst : Opcode::kRcSendLast;
    Data(0, at, 5, opcode);
    EXPECT_TRUE(sent.empty()) << "one contribution is no result";
    Data(1, at, static_cast<int32_t>(at), opcode);
    ASSERT_EQ(sent.size(), 2u);
    EXPECT_EQ(Word(sent[0]), 5 + at);
  }
}

TEST_F(RulesTest, ATypeThatCannotBeReducedIsRefusedByTheReply) {
  Install(true);
  for (const uint32_t child : {0, 1}) Call(child, Collective::kReduce, 1, 64, DataType::kByte);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(DecodeControl(sent[0].payload)->status, ControlStatus::kUnsupported);
}

TEST_F(RulesTest, TrackedDataBeforeTheReplyIsRefused) {
  Install(true);
  Call(0, Collective::kReduce, 1, 64);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  EXPECT_EQ(drops, std::vector{DropReason::kTooEarly});
  EXPECT_EQ(context().children[0].progress.up_epsn, 1) << "it is taken when it comes again";
}

TEST_F(RulesTest, SendersOfAReduceAreToldWhenItsRootHasIt) {
  Install(true);
  Call(0, Collective::kReduce, 1, 64);
  Call(1, Collective::kReduce, 1, 64);
  Ack(0, roce::kSyndromeAck, 0);
  Ack(1, roce::kSyndromeAck, 0);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  Data(1, 0, 7, Opcode::kRcSendOnly);
  ASSERT_EQ(sent.size(), 1u) << "the result is for the root of the Reduce alone";
  EXPECT_EQ(sent[0].port, 1);
  EXPECT_EQ(Word(sent[0]), 12);
  Ack(1, roce::kSyndromeAck, 1);
  for (const PortId port : std::array<PortId, 2>{0, 1}) {
    const auto acks = AethTo(port, roce::IsAck);
    ASSERT_EQ(acks.size(), 1u) << "port " << port;
    EXPECT_EQ(acks[0].packet.bth.psn, Psn(kInPsn) + 1);
  }
}

// Ranks 2 and 3 of an AllGather, of parts of 16 packets, and windows of four: others' parts come first.
TEST_F(RulesTest, WhoWaitsForWhatMayNotBeSentYetIsNotPrompted) {
  for (const Mode mode : {Mode::kTranslated, Mode::kAugmented}) {
    GroupConfig config = Config(false);
    config.mode = mode;
    config.world_size = 4;
    for (const uint32_t child : {0, 1}) config.children[child].ranks = {2 + child};
    ASSERT_TRUE(engine.Install(config).ok());
    const ControlHeader header{
        .collective = Collective::kAllGather, .type = DataType::kInt32, .count = 64 * 16, .parts = 4};
    std::array<uint8_t, kControlBytes> bytes;
    Encode(header, bytes);
    for (const uint32_t end : {0, 1, 2}) Deliver(From(end, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes));
    for (const uint32_t child : {0, 1}) Ack(child, roce::kSyndromeAck, 0);
    ASSERT_EQ(context().children[0].progress.up_epsn, 33);
    for (int i = 0; i < 3; ++i) Fire();
    for (const Endpoint& child : context().children) EXPECT_EQ(child.counters.prompts, 0u);
    engine.Remove(7, 1);
  }
}

class BroadcastTest : public RulesTest {
 protected:
  // Rank 0 sends two packets to ranks 1 and 2.
  void SendTwo() {
    InstallThreeHosts();
    for (const uint32_t child : {0, 1, 2}) Call(child, Collective::kBroadcast, 0, 128);
    for (const uint32_t child : {0, 1, 2}) Ack(child, roce::kSyndromeAck, 0);
    Data(0, 0, 5, Opcode::kRcSendFirst);
    EXPECT_EQ(sent.size(), 2u);
    Data(0, 1, 6, Opcode::kRcSendLast);
  }
};

TEST_F(BroadcastTest, TheSenderIsToldWhenTheLastReceiverHasIt) {
  SendTwo();
  Ack(1, roce::kSyndromeAck, 2);
  EXPECT_TRUE(sent.empty()) << "rank 2 has nothing yet";
  Ack(2, roce::kSyndromeAck, 1);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].port, 0);
  EXPECT_EQ(sent[0].packet.aeth.syndrome, roce::kSyndromeAck);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kInPsn) + 1) << "the minimum";
}

TEST_F(BroadcastTest, AReceiversNakIsNotPassedToTheSender) {
  SendTwo();
  Ack(1, roce::kSyndromeNakSequence, 2);
  ASSERT_EQ(sent.size(), 1u) << "its second packet again, to it alone";
  EXPECT_EQ(sent[0].port, 1);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kOutPsn) + 2);
  EXPECT_EQ(context().children[0].progress.up_told, 1) << "rank 2 has not even the first";
}

TEST_F(BroadcastTest, AReceiverWithoutReceivesGetsItAgainWhenItAsksForThat) {
  SendTwo();
  const Nanos before = now;
  constexpr uint8_t kCode = 8;  // 0.16 ms
  Ack(1, roce::kSyndromeRnrNak | kCode, 2);
  EXPECT_TRUE(sent.empty());
  EXPECT_EQ(timer, before + roce::RnrTimerNanos(kCode)) << "long before the prompt interval is over";
  Fire();
  ASSERT_EQ(sent.size(), 1u) << "to it alone";
  EXPECT_EQ(sent[0].port, 1);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kOutPsn) + 2);
}

TEST_F(BroadcastTest, WhatAllHaveIsAcknowledgedAgainAndNotReplicated) {
  SendTwo();
  Ack(1, roce::kSyndromeAck, 2);
  Ack(2, roce::kSyndromeAck, 2);
  Data(0, 0, 5, Opcode::kRcSendFirst);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].port, 0);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kInPsn) + 2);
}

TEST_F(BroadcastTest, NothingGoesDownUntilAllHaveAcknowledgedTheControlPacket) {
  InstallThreeHosts();
  for (const uint32_t child : {0, 1, 2}) Call(child, Collective::kBroadcast, 0, 128);
  for (const uint32_t child : {0, 1}) Ack(child, roce::kSyndromeAck, 0);
  Data(0, 0, 5, Opcode::kRcSendFirst);
  EXPECT_TRUE(sent.empty()) << "rank 2 may lack what was before the call";
  Ack(2, roce::kSyndromeAck, 0);
  for (const PortId port : std::array<PortId, 2>{1, 2}) {
    EXPECT_EQ(To(port, Opcode::kRcSendFirst).size(), 1u) << "port " << port;
  }
}

TEST_F(BroadcastTest, NoResultGoesAWindowBeyondWhatAllHaveAcknowledged) {
  InstallThreeHosts();  // MW = 4
  for (const uint32_t child : {0, 1, 2}) Call(child, Collective::kBroadcast, 0, 64 * 8);
  for (const uint32_t child : {0, 1, 2}) Ack(child, roce::kSyndromeAck, 0);
  const auto opcode = [](int64_t at) { return at % 2 == 0 ? Opcode::kRcSendFirst : Opcode::kRcSendLast; };
  for (int64_t at = 0; at < 4; ++at) {
    Data(0, at, 5, opcode(at));
    EXPECT_EQ(sent.size(), 2u) << "packet " << at;
  }
  Data(0, 4, 5, opcode(4));
  EXPECT_TRUE(sent.empty());
  EXPECT_TRUE(drops.empty()) << "it waits in its slot";
  Ack(1, roce::kSyndromeAck, 4);
  EXPECT_TRUE(sent.empty()) << "rank 2 has none of them";
  Ack(2, roce::kSyndromeAck, 1);
  for (const PortId port : std::array<PortId, 2>{1, 2}) {
    EXPECT_EQ(To(port, opcode(4)).size(), 1u) << "port " << port;
  }
}

TEST_F(RulesTest, ASwitchAcknowledgesTheControlPacketOfATrackedCall) {
  GroupConfig config = Config(false);
  config.world_size = 3;
  ASSERT_TRUE(engine.Install(config).ok());
  for (const uint32_t child : {0, 1, 2}) Call(child, Collective::kBroadcast, 2, 64);  // 2 is the parent
  Ack(0, roce::kSyndromeAck, 0);
  EXPECT_TRUE(AethTo(2, roce::IsAck).empty()) << "host 1 has not";
  Ack(1, roce::kSyndromeAck, 0);
  const auto acks = AethTo(2, roce::IsAck);
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(acks[0].packet.bth.psn, Psn(kInPsn));
}

TEST_F(RulesTest, AParentThatRepeatsWhatAllHaveIsToldAgain) {
  GroupConfig config = Config(false);
  config.world_size = 3;
  ASSERT_TRUE(engine.Install(config).ok());
  for (const uint32_t child : {0, 1, 2}) Call(child, Collective::kBroadcast, 2, 64);  // 2 is the parent
  Data(2, 0, 5, Opcode::kRcSendOnly);
  ASSERT_EQ(sent.size(), 2u);
  Ack(0, roce::kSyndromeAck, 1);
  Ack(1, roce::kSyndromeAck, 1);
  ASSERT_EQ(AethTo(2, roce::IsAck).size(), 1u);
  Data(2, 0, 5, Opcode::kRcSendOnly);  // the ACK was lost
  ASSERT_EQ(sent.size(), 1u) << "no host gets it again";
  ASSERT_EQ(AethTo(2, roce::IsAck).size(), 1u);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kInPsn) + 1);
}

class AugmentedTest : public RulesTest {
 protected:
  void Begin(uint64_t packets) {
    InstallAugmented(true);
    Control(0, 64 * packets);
    Control(1, 64 * packets);
  }
  void Both(int64_t at) {
    Data(0, at, 1, OpcodeOfFour(at));
    Data(1, at, 1, OpcodeOfFour(at));
  }
};

TEST_F(AugmentedTest, BelowTheOneExpectedIsAcknowledged) {
  Begin(4);
  Data(0, 0, 1, Opcode::kRcSendFirst);
  Data(0, 0, 1, Opcode::kRcSendFirst);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].packet.aeth.syndrome, roce::kSyndromeAck);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kInPsn) + 1) << "the one before the one expected";
}

TEST_F(AugmentedTest, AGapIsNakedOnceAtTheOneExpected) {
  Begin(4);
  Data(0, 1, 1, Opcode::kRcSendMiddle);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].packet.aeth.syndrome, roce::kSyndromeNakSequence);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kInPsn) + 1);
  Data(0, 2, 1, Opcode::kRcSendMiddle);
  EXPECT_TRUE(sent.empty()) << "once per gap";
}

TEST_F(AugmentedTest, BeyondThePipeIsRnrNaked) {
  Begin(16);
  for (int64_t at = 0; at < 8; ++at) Data(0, at, 1, OpcodeOfFour(at));  // indices 1 to 8: the pipe is full
  Data(0, 8, 1, OpcodeOfFour(8));
  EXPECT_EQ(drops, std::vector{DropReason::kAboveWindow});
  const auto rnr = AethTo(0, roce::IsRnrNak);
  ASSERT_EQ(rnr.size(), 1u);
  EXPECT_EQ(rnr[0].packet.bth.psn, Psn(kInPsn) + 9);
  EXPECT_TRUE(To(0, Opcode::kCnp).empty()) << "nothing is congested";
  EXPECT_TRUE(AethTo(0, IsSequenceNak).empty()) << "it would come again at once";
}

TEST_F(AugmentedTest, AChildIsToldOnlyOfWhatLeavesRoomForAWindow) {
  Begin(16);
  // N = 8, MW = 4: with the first result due at index 1, what lies below 5 may be told.
  for (int64_t at = 0; at < 4; ++at) Data(0, at, 1, OpcodeOfFour(at));
  ASSERT_EQ(AethTo(0, roce::IsAck).size(), 1u) << "indices 1 to 4";
  for (int64_t at = 4; at < 8; ++at) {
    Data(0, at, 1, OpcodeOfFour(at));
    EXPECT_TRUE(AethTo(0, roce::IsAck).empty()) << "index " << at + 1;
  }
  for (int64_t at = 0; at < 4; ++at) Data(1, at, 1, OpcodeOfFour(at));
  const auto told = AethTo(0, roce::IsAck);
  ASSERT_EQ(told.size(), 1u) << "four results more, so a window has room behind index 8";
  EXPECT_EQ(told[0].packet.bth.psn, Psn(kInPsn) + 8);
}

TEST_F(AugmentedTest, TheParentIsToldOfWhatAllBelowHave) {
  InstallAugmented(false);
  for (const uint32_t end : {0u, 1u, 2u}) Control(end, 64 * 4);
  EXPECT_TRUE(AethTo(2, roce::IsAck).empty());
  for (const uint32_t child : {0u, 1u}) {
    for (int64_t at = 0; at < 4; ++at) Data(child, at, 1, OpcodeOfFour(at));
  }
  for (int64_t at = 0; at < 4; ++at) Data(2, at, 2, OpcodeOfFour(at));
  EXPECT_TRUE(AethTo(2, roce::IsAck).empty());
  Ack(0, roce::kSyndromeAck, 4);
  EXPECT_TRUE(AethTo(2, roce::IsAck).empty()) << "host 1 has nothing yet";
  Ack(1, roce::kSyndromeAck, 4);
  const auto told = AethTo(2, roce::IsAck);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].packet.bth.psn, Psn(kInPsn) + 4);
}

TEST_F(AugmentedTest, NoMoreThanAWindowIsUnderWayToTheParent) {
  InstallAugmented(false);
  for (const uint32_t end : {0u, 1u}) Control(end, 64 * 8);
  size_t sums = 0;
  for (int64_t at = 0; at < 7; ++at) {
    Data(0, at, 1, OpcodeOfFour(at));
    Data(1, at, 1, OpcodeOfFour(at));
    sums += To(2, OpcodeOfFour(at)).size();
  }
  EXPECT_EQ(sums, 3u) << "with the control packet a window";
  Ack(2, roce::kSyndromeAck, 1);
  EXPECT_EQ(To(2, Opcode::kRcSendLast).size(), 1u);
  EXPECT_EQ(To(2, Opcode::kRcSendFirst).size(), 1u);
}

TEST_F(AugmentedTest, AcknowledgesWhateverTheAckReqBitSays) {
  Begin(8);
  Data(0, 0, 1, Opcode::kRcSendFirst);
  EXPECT_TRUE(sent.empty());
  Data(0, 1, 1, Opcode::kRcSendMiddle);
  ASSERT_EQ(sent.size(), 1u) << "every N/4 packets";
  EXPECT_EQ(sent[0].packet.aeth.syndrome, roce::kSyndromeAck);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kInPsn) + 2);
}

TEST_F(AugmentedTest, ResultsAskForAnAcknowledgementByThemselves) {
  Begin(8);
  int asking = 0;
  for (int64_t at = 0; at < 4; ++at) {
    Both(at);
    for (const Sent& s : To(0, OpcodeOfFour(at))) asking += s.packet.bth.ack_req;
  }
  EXPECT_EQ(asking, 2) << "every N/4 packets, although no host asked";
}

TEST_F(AugmentedTest, WhatIsSentAgainAsksForAnAcknowledgementAndGoesOnlyWhereItIsMissing) {
  Begin(8);
  Both(0);
  Both(1);
  ASSERT_FALSE(To(0, Opcode::kRcSendMiddle).at(0).packet.bth.ack_req);
  Ack(0, roce::kSyndromeNakSequence, 2);
  const auto again = To(0, Opcode::kRcSendMiddle);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(again[0].packet.bth.ack_req);
  EXPECT_TRUE(std::none_of(sent.begin(), sent.end(), [](const Sent& s) { return s.port == 1; }));
}

TEST_F(AugmentedTest, TheRootAdmitsToTheDownPipeOnlyWhatAllChildrenLeaveRoomFor) {
  Begin(16);
  for (int64_t at = 0; at < 7; ++at) {
    Both(at);
    Ack(0, roce::kSyndromeAck, at + 1);
  }
  // Host 1 has not acknowledged index 0 yet: the down pipe holds 0 to 7, and index 8 waits, complete.
  Both(7);
  EXPECT_TRUE(To(0, OpcodeOfFour(7)).empty());
  EXPECT_EQ(context().results_end, 8);
  Ack(1, roce::kSyndromeAck, 3);
  EXPECT_EQ(To(0, OpcodeOfFour(7)).size(), 1u) << "tried again when the down pipe advances";
  EXPECT_EQ(To(1, OpcodeOfFour(7)).size(), 1u);
}

}  // namespace
}  // namespace epic::engine
