// Mode I at one switch, packet in, packets out (docs/PROTOCOL-MODE-I.md): its rules, and how a group ends
// when a peer breaks the stream or a queue pair fails.
#include <algorithm>
#include <optional>

#include "incengine/core/engine_testing.h"

namespace epic::engine {
namespace {

using roce::Opcode;

constexpr uint32_t kAbove = 2;  // the parent's port and number

class TerminatedTest : public EngineTest {
 protected:
  void InstallTerminated(bool root, bool switch_below = false) {
    GroupConfig config = Config(root);
    config.mode = Mode::kTerminated;
    if (switch_below) {
      config.world_size = 3;
      config.children[1].is_host = false;
      config.children[1].ranks = {1, 2};
    }
    ASSERT_TRUE(engine.Install(config).ok());
  }

  // A Send of one packet, `at` packets into the peer's stream.
  void Only(uint32_t from, int64_t at, std::span<const uint8_t> payload,
            Opcode opcode = Opcode::kRcSendOnly) {
    roce::Packet p = From(from, Psn(kInPsn) + at, opcode, payload);
    p.bth.ack_req = true;
    Deliver(p);
  }
  void Header(uint32_t from, int64_t at, const ControlHeader& header) {
    std::array<uint8_t, kControlBytes> bytes;
    Encode(header, bytes);
    Only(from, at, bytes, Opcode::kRcSendOnlyImm);
  }
  static ControlHeader Call(uint64_t count, DataType type = DataType::kInt32) {
    return {.collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = type, .count = count};
  }
  // A message of `count` words of one value.
  template <typename T>
  void Words(uint32_t from, int64_t at, T value, size_t count = 64) {
    const std::vector<T> words(count, value);
    Only(from, at, {reinterpret_cast<const uint8_t*>(words.data()), count * sizeof(T)});
  }
  // Acknowledges everything up to what is `at` packets into the stream to the peer.
  void Acknowledge(uint32_t from, int64_t at) { Ack(from, roce::kSyndromeAck, at); }

  std::vector<Sent> To(PortId port, bool data) const {
    std::vector<Sent> found;
    for (const Sent& s : sent) {
      if (s.port == port && (s.packet.bth.opcode != Opcode::kRcAck) == data) found.push_back(s);
    }
    return found;
  }
  // The syndrome of the only answer to the peer; nothing if there is none, or more than one.
  std::optional<uint8_t> AnswerTo(PortId port) const {
    const auto answers = To(port, false);
    return answers.size() == 1 ? std::optional(answers[0].packet.aeth.syndrome) : std::nullopt;
  }
  // The control packet that went to the port; nothing if none did.
  std::optional<ControlHeader> ControlTo(PortId port) const {
    for (const Sent& s : To(port, true)) {
      if (s.packet.bth.opcode == Opcode::kRcSendOnlyImm) return DecodeControl(s.payload);
    }
    return std::nullopt;
  }
  void ExpectAborted(PortId port, uint32_t culprit) {
    const auto header = ControlTo(port);
    ASSERT_TRUE(header.has_value()) << "port " << port;
    EXPECT_EQ(header->status, ControlStatus::kAborted) << "port " << port;
    EXPECT_EQ(header->culprit, culprit) << "port " << port;
  }
  // Both children have called an AllReduce of `count` words; a parent has answered.
  void Open(uint64_t count, DataType type = DataType::kInt32) {
    Header(0, 0, Call(count, type));
    Header(1, 0, Call(count, type));
    if (!context().is_root()) Header(kAbove, 0, Call(count, type));
  }
  // At the root, messages of one packet and four of them in the window.
  void OpenWithAWindowOfFour() {
    GroupConfig config = Config(true);
    config.mode = Mode::kTerminated;
    config.message_packets = 1;
    config.window_messages = 4;
    ASSERT_TRUE(engine.Install(config).ok());
    Open(10000);
  }
};

TEST_F(TerminatedTest, AMessageIsAcknowledgedBeforeAnybodyElseHasSentIts) {
  InstallTerminated(true);
  Header(0, 0, Call(64));
  EXPECT_EQ(AnswerTo(0), roce::kSyndromeAck);
  EXPECT_EQ(sent.size(), 1u);
}

TEST_F(TerminatedTest, TheSumGoesToEveryChildInItsOwnPsns) {
  InstallTerminated(true);
  Open(64);
  Words<int32_t>(0, 1, 5);
  Words<int32_t>(1, 1, 7);
  for (const PortId port : {PortId{0}, PortId{1}}) {
    ASSERT_EQ(To(port, true).size(), 1u);
    EXPECT_EQ(To(port, true)[0].packet.bth.psn, Psn(kOutPsn) + 1);
    EXPECT_EQ(Word(To(port, true)[0], 63), 12);
  }
}

TEST_F(TerminatedTest, ChildrenAreAddedInTheirOrderWhateverTheOrderOfArrival) {
  // Of three summands only one order gives 1: first the two large ones.
  GroupConfig config = Config(true);
  config.mode = Mode::kTerminated;
  config.world_size = 3;
  config.children.push_back(Child(2, true));
  ASSERT_TRUE(engine.Install(config).ok());
  for (const uint32_t child : {0u, 1u, 2u}) Header(child, 0, Call(64, DataType::kFloat32));
  Words(2, 1, 1.0f);
  Words(1, 1, -1e20f);
  Words(0, 1, 1e20f);
  ASSERT_EQ(To(0, true).size(), 1u);
  float sum;
  std::memcpy(&sum, To(0, true)[0].payload.data(), 4);
  EXPECT_EQ(sum, 1.0f);
}

TEST_F(TerminatedTest, WithoutRoomForAMessageItsSenderIsToldToWait) {
  InstallTerminated(true);
  // Nobody else calls: what the child sends stays in its ring of W + 2 messages.
  Header(0, 0, Call(10000));
  int64_t at = 1;
  for (; at < 30 && AnswerTo(0) == roce::kSyndromeAck; ++at) Words<int32_t>(0, at, 1);
  ASSERT_TRUE(AnswerTo(0).has_value());
  EXPECT_TRUE(roce::IsRnrNak(*AnswerTo(0)));
  EXPECT_GE(at, 4) << "a window fits";
  EXPECT_EQ(drops.size(), 1u);
}

// Of a Reduce, so that the child runs ahead of a sibling that has called but sends nothing.
TEST_F(TerminatedTest, TrackedDataAreAcknowledgedWhenTheyAreInTheSum) {
  InstallTerminated(true);
  ControlHeader reduce = Call(64 * 8);
  reduce.collective = Collective::kReduce;
  for (const uint32_t child : {0u, 1u}) Header(child, 0, reduce);
  for (const uint32_t child : {0u, 1u}) Acknowledge(child, 0);
  const auto message = [&](uint32_t from, int64_t at) {
    const std::vector<int32_t> words(64, 1);
    const std::span payload(reinterpret_cast<const uint8_t*>(words.data()), 256);
    Only(from, at, payload, Opcode::kRcSendFirst);
    Only(from, at + 1, payload, Opcode::kRcSendLast);
  };
  message(1, 1);
  EXPECT_FALSE(AnswerTo(1).has_value()) << "child 0 comes first";
  message(0, 1);
  EXPECT_EQ(AnswerTo(0), roce::kSyndromeAck);
  EXPECT_EQ(AnswerTo(1), roce::kSyndromeAck);
  message(0, 3);
  EXPECT_EQ(AnswerTo(0), roce::kSyndromeAck) << "its part of the sum";
  message(0, 5);
  EXPECT_FALSE(AnswerTo(0).has_value()) << "it waits for a sibling";
  message(0, 5);
  ASSERT_EQ(AnswerTo(0), roce::kSyndromeAck);
  EXPECT_EQ(To(0, false)[0].packet.bth.psn, Psn(kInPsn) + 6) << "its timer has run out";
}

TEST_F(TerminatedTest, TheParentIsToldOfWhatAllBelowHave) {
  InstallTerminated(false);
  Header(0, 0, Call(64));
  Header(1, 0, Call(64));
  Header(kAbove, 0, Call(64));
  EXPECT_FALSE(AnswerTo(kAbove).has_value());
  Acknowledge(0, 0);
  EXPECT_FALSE(AnswerTo(kAbove).has_value());
  Acknowledge(1, 0);
  EXPECT_EQ(AnswerTo(kAbove), roce::kSyndromeAck);
}

TEST_F(TerminatedTest, NoMoreThanAWindowIsUnderWayToAPeer) {
  OpenWithAWindowOfFour();
  size_t results = 0;
  for (int at = 1; at <= 6; ++at) {
    for (const uint32_t child : {0u, 1u}) Words<int32_t>(child, at, at);
    results += To(1, true).size();
  }
  EXPECT_EQ(results, 3u) << "with the reply a window";
}

TEST_F(TerminatedTest, AResultIsKeptForItsSlowestReceiver) {
  OpenWithAWindowOfFour();
  size_t results = 0;
  for (int at = 1; at <= 12; ++at) {
    for (const uint32_t child : {0u, 1u}) Words<int32_t>(child, at, at);
    results += To(1, true).size();
    Acknowledge(0, at);
  }
  EXPECT_LT(results, 12u) << "child 1 has acknowledged nothing";
  Fire();
  const auto repeated = To(1, true);
  ASSERT_EQ(repeated.size(), 1 + results);
  for (size_t k = 1; k < repeated.size(); ++k) EXPECT_EQ(Word(repeated[k]), 2 * static_cast<int32_t>(k));
}

TEST_F(TerminatedTest, AResultThatIsNotAcknowledgedIsRepeatedFromTheRing) {
  InstallTerminated(true);
  Open(64);
  Acknowledge(0, 0);
  Acknowledge(1, 0);
  Words<int32_t>(0, 1, 5);
  Words<int32_t>(1, 1, 7);
  Acknowledge(0, 1);
  Fire();
  EXPECT_TRUE(To(0, true).empty()) << "it has it";
  ASSERT_EQ(To(1, true).size(), 1u);
  EXPECT_EQ(Word(To(1, true)[0]), 12);
}

TEST_F(TerminatedTest, RetriesHaveNoEnd) {
  InstallTerminated(true);
  Open(64);
  for (int k = 0; k < 100; ++k) Fire();
  EXPECT_EQ(context().terminated->children[1].qp.state(), roce::QpState::kRts);
  EXPECT_FALSE(To(1, true).empty());
}

TEST_F(TerminatedTest, AMessageOfAnotherLengthEndsTheGroupOnEveryRank) {
  InstallTerminated(true);
  Open(64);
  Words<int32_t>(0, 1, 1);
  Words<int32_t>(1, 1, 1, 63);
  EXPECT_EQ(drops, std::vector{DropReason::kBadLength});
  ExpectAborted(0, 1);
  ExpectAborted(1, 1);
  EXPECT_EQ(To(0, true).size(), 1u);
  EXPECT_EQ(context().state, GroupState::kFailed);
  Words<int32_t>(0, 2, 1);
  EXPECT_TRUE(To(1, true).empty()) << "nothing more is summed";
}

TEST_F(TerminatedTest, AMalformedControlPacketEndsTheGroup) {
  InstallTerminated(true);
  Header(0, 0, Call(64));
  Only(1, 0, std::vector<uint8_t>(kControlBytes, 1), Opcode::kRcSendOnlyImm);
  EXPECT_EQ(drops, std::vector{DropReason::kBadControl});
  ExpectAborted(0, 1);
}

TEST_F(TerminatedTest, APriorityEndsTheGroup) {
  InstallTerminated(true);
  ControlHeader header = Call(64);
  header.priority = 1;
  Header(0, 0, header);
  EXPECT_EQ(drops, std::vector{DropReason::kBadControl});
  ExpectAborted(1, 0);
}

TEST_F(TerminatedTest, AControlPacketOfAnotherInvocationEndsTheGroup) {
  InstallTerminated(true);
  ControlHeader header = Call(64);
  header.invocation = 1;
  Header(0, 0, header);
  EXPECT_EQ(drops, std::vector{DropReason::kBadControl});
  ExpectAborted(1, 0);
}

TEST_F(TerminatedTest, AHostMayNotRefuseACall) {
  InstallTerminated(true);
  ControlHeader header = Call(64);
  header.status = ControlStatus::kMismatch;
  Header(0, 0, header);
  ExpectAborted(1, 0);
}

TEST_F(TerminatedTest, AQueuePairThatFailsEndsTheGroupForTheOthers) {
  InstallTerminated(true);
  Open(64);
  Only(1, 1, std::vector<uint8_t>(256), Opcode::kRcSendLast);  // of a message that has not begun
  EXPECT_EQ(AnswerTo(1), roce::kSyndromeNakInvalidRequest);
  EXPECT_EQ(context().terminated->children[1].qp.state(), roce::QpState::kErr);
  ExpectAborted(0, 1);
  Words<int32_t>(1, 1, 1);
  EXPECT_EQ(drops, std::vector{DropReason::kGroupFailed});
}

TEST_F(TerminatedTest, WritesAndReadsAreRefused) {
  for (const Opcode opcode :
       {Opcode::kRcWriteOnly, Opcode::kRcReadRequest, Opcode::kRcCompareSwap, Opcode::kRcFetchAdd}) {
    engine = Engine(kOwn, 4, 1 << 20);
    InstallTerminated(true);
    Only(1, 0, {}, opcode);
    EXPECT_EQ(AnswerTo(1), roce::kSyndromeNakInvalidRequest);
    ExpectAborted(0, 1);
  }
}

TEST_F(TerminatedTest, AbortedGoesUpFromALeafInPlaceOfItsData) {
  InstallTerminated(false);
  Open(64);
  Words<int32_t>(0, 1, 1);
  Words<int32_t>(1, 1, 1, 63);
  ExpectAborted(kAbove, 1);
  EXPECT_FALSE(ControlTo(0).has_value()) << "its ranks hear of it from above";
  Words<int32_t>(0, 2, 1);
  EXPECT_TRUE(To(kAbove, true).empty()) << "it was the last message";
}

TEST_F(TerminatedTest, WhatEndedASwitchBelowIsPassedOnAsItIs) {
  InstallTerminated(true, /*switch_below=*/true);
  Open(64);
  Words<int32_t>(0, 1, 1);
  ControlHeader header = Call(64);
  header.status = ControlStatus::kAborted;
  header.culprit = 2;
  Header(1, 1, header);
  ExpectAborted(0, 2);
  ExpectAborted(1, 2);
}

TEST_F(TerminatedTest, AResultOfAnotherLengthEndsTheGroupBelow) {
  InstallTerminated(false);
  Open(64);
  Words<int32_t>(kAbove, 1, 1, 63);
  EXPECT_EQ(drops, std::vector{DropReason::kUnexpectedResult});
  ExpectAborted(0, 0);
  ExpectAborted(1, 0);
  Words<int32_t>(0, 1, 1);
  Words<int32_t>(1, 1, 1);
  EXPECT_TRUE(To(kAbove, true).empty()) << "nothing goes up any more";
}

TEST_F(TerminatedTest, AnAbortedFromAboveIsTheLastMessageBelow) {
  InstallTerminated(false);
  Open(64);
  ControlHeader header = Call(64);
  header.status = ControlStatus::kAborted;
  header.culprit = 1;
  Header(kAbove, 1, header);
  ExpectAborted(0, 1);
  ExpectAborted(1, 1);
  EXPECT_EQ(context().state, GroupState::kFailed);
  Words<int32_t>(kAbove, 2, 1);
  EXPECT_TRUE(To(0, true).empty());
}

TEST_F(TerminatedTest, AFailedQueuePairToTheParentEndsTheGroupBelow) {
  InstallTerminated(false);
  Open(64);
  Only(kAbove, 1, std::vector<uint8_t>(256), Opcode::kRcSendLast);
  EXPECT_EQ(context().state, GroupState::kFailed);
  ExpectAborted(0, 0);
  ExpectAborted(1, 0);
}

}  // namespace
}  // namespace epic::engine
