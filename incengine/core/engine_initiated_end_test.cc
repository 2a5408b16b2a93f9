// Mode VI at one switch, packet in, packets out (docs/PROTOCOL-MODE-VI.md): what it does about losses, and
// how a group ends.
#include "incengine/core/engine_initiated_testing.h"
#include "incengine/core/wait.h"

namespace epic::engine {
namespace {

using roce::Opcode;

// Losses, each found by the queue pair's timer.

TEST_F(InitiatedTest, ALostReadRequestOrResponseIsAskedForAgain) {
  InstallInitiated(true);
  Open(Call(Collective::kAllReduce, 2));
  Fire();
  ASSERT_EQ(OpcodesTo(1), std::vector{Opcode::kRcReadRequest}) << "the request was lost";
  ExpectRead(To(1)[0], kSource, KeyOf(1), 2 * kPacketBytes);
  Response(1, 0, 7, Opcode::kRcReadResponseFirst);
  Response(0, 0, 5, Opcode::kRcReadResponseFirst);
  Fire();
  ASSERT_EQ(OpcodesTo(1), std::vector{Opcode::kRcReadRequest}) << "the second response was lost";
  ExpectRead(To(1)[0], kSource + kPacketBytes, KeyOf(1), kPacketBytes);
  EXPECT_EQ(To(1)[0].packet.bth.psn, Psn(kOutPsn) + 1);
  Response(0, 1, 5, Opcode::kRcReadResponseLast);
  Response(1, 1, 7, Opcode::kRcReadResponseLast);
  ASSERT_EQ(OpcodesTo(1), kWriteAndReply);
  EXPECT_EQ(Word(To(1)[1]), 12);
}

// An answer to what was asked before comes late, when the host's memory has the result: it is not the second
// summand of anything.
TEST_F(InitiatedTest, ALateResponseChangesNothing) {
  InstallInitiated(true);
  Open(Call(Collective::kAllReduce, 4));
  for (const int64_t at : {0, 2}) {
    Read(0, at, 1);
    if (at == 0) Read(1, at, 1);
  }
  Response(1, 0, 99, Opcode::kRcReadResponseFirst);
  Response(1, 1, 99, Opcode::kRcReadResponseLast);
  EXPECT_TRUE(To(0).empty() && To(1).empty());
  Read(1, 2, 1);
  ASSERT_EQ(OpcodesTo(0), kWriteAndReply);
  EXPECT_EQ(Word(To(0)[0]), 2);
}

TEST_F(InitiatedTest, ALostWriteIsSentAgainFromTheSumThatIsKept) {
  InstallInitiated(true);
  Open(Call(Collective::kAllReduce, 2));
  Read(0, 0, 5);
  Read(1, 0, 7);
  Acknowledge(0, 4);
  Ack(1, roce::kSyndromeNakSequence, 3);
  ASSERT_EQ(OpcodesTo(1), (std::vector{Opcode::kRcWriteLast, Opcode::kRcSendOnlyImm}));
  EXPECT_EQ(Word(To(1)[0]), 12);
  Fire();
  EXPECT_EQ(OpcodesTo(1), (std::vector{Opcode::kRcWriteLast, Opcode::kRcSendOnlyImm}));
  EXPECT_TRUE(To(0).empty()) << "it has acknowledged all";
}

// How groups end.

TEST_F(InitiatedTest, AMismatchIsToldAtOnceAndNothingIsRead) {
  InstallInitiated(true);
  Doorbell(0, 0, Call(Collective::kAllReduce, 2));
  Doorbell(1, 0, Call(Collective::kAllReduce, 4));
  for (const PortId port : {PortId{0}, PortId{1}}) {
    ASSERT_EQ(OpcodesTo(port), std::vector{Opcode::kRcSendOnlyImm});
    const auto header = ControlIn(To(port));
    EXPECT_EQ(header->status, ControlStatus::kMismatch);
    EXPECT_EQ(header->field, ControlField::kCount);
    EXPECT_EQ(header->culprit, 1u);
  }
}

TEST_F(InitiatedTest, ADescriptorThatIsNotSoundEndsTheGroupByName) {
  const ControlHeader call = Call(Collective::kReduce, 2);  // to rank 0
  const Descriptor good = Described(call, 1);
  std::vector<Descriptor> bad(4, good);
  bad[0].source.address = UINT64_MAX - 100;
  bad[1].source.stride = 512;
  bad[2].destination.address = 8;
  bad[3].destination.rkey = 1;
  for (const Descriptor& descriptor : bad) {
    InstallInitiated(true);
    Doorbell(0, 0, call);
    Doorbell(1, 0, call, descriptor);
    ExpectAborted(0, 1);
    ExpectAborted(1, 1);
    EXPECT_EQ(drops, std::vector{DropReason::kBadControl});
    engine.Remove(7, 1);
  }
  // Without one, with one where there are no data, with bytes that are none.
  InstallInitiated(true);
  Header(0, 0, call);
  ExpectAborted(1, 0);
  engine.Remove(7, 1);
  InstallInitiated(true);
  Doorbell(0, 0, {.collective = Collective::kBarrier}, {});
  ExpectAborted(1, 0);
  engine.Remove(7, 1);
  InstallInitiated(true);
  std::array<uint8_t, kControlBytes + kDescriptorBytes> bytes{};
  Encode(call, std::span(bytes).first<kControlBytes>());
  Only(0, 0, bytes);
  ExpectAborted(1, 0);
}

// Its NIC has refused: a wrong key, or bounds.
TEST_F(InitiatedTest, ARefusalOfAHostsNicEndsTheGroupByName) {
  InstallInitiated(true);
  Open(Call(Collective::kAllReduce, 8));
  Ack(1, roce::kSyndromeNakRemoteAccess, 0);
  ExpectAborted(0, 1);
  EXPECT_TRUE(To(1).empty()) << "its queue pair has ended";
  EXPECT_EQ(drops, std::vector{DropReason::kRemoteAccess});
  Read(0, 0, 1);
  EXPECT_TRUE(To(0).empty()) << "nothing more is read or written";
  EXPECT_EQ(context().state, GroupState::kFailed);
}

TEST_F(InitiatedTest, BelowAParentARefusalGoesUpInPlaceOfTheSum) {
  InstallInitiated(false);
  Open(Call(Collective::kAllReduce, 2));
  Read(0, 0, 1);
  Ack(1, roce::kSyndromeNakRemoteAccess, 0);
  const auto header = ControlIn(To(kParentPort));
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->status, ControlStatus::kAborted);
  EXPECT_EQ(header->culprit, 1u);
}

TEST_F(InitiatedTest, WhatAHostSendsBesideDoorbellsEndsTheGroup) {
  InstallInitiated(true);
  Open(Call(Collective::kAllReduce, 2));
  const std::array<uint8_t, kPacketBytes> data{};
  Only(0, 1, data, Opcode::kRcSendOnly);
  Read(0, 0, 1);
  Read(1, 0, 1);
  ExpectAborted(1, 0);
}

// It neither reads nor writes any more: who has had the memory may have it back.
TEST_F(InitiatedTest, OfAGroupThatIsStoppedNothingIsTouched) {
  InstallInitiated(true);
  Open(Call(Collective::kAllReduce, 2));
  engine.Fail(7, 1);
  Read(0, 0, 1);
  Read(1, 0, 1);
  EXPECT_TRUE(sent.empty());
  if (timer != kNever) Fire();
  EXPECT_TRUE(sent.empty());
}

TEST_F(InitiatedTest, WhoIsWaitedForIsWhoHasNotBeenRead) {
  InstallInitiated(true);
  Open(Call(Collective::kAllReduce, 2));
  Read(0, 0, 1);
  const GroupWait wait = WaitOf(context(), engine.arena());
  ASSERT_EQ(wait.children.size(), 2u);
  EXPECT_FALSE(wait.children[0].owes);
  EXPECT_TRUE(wait.children[1].owes);
}

TEST_F(InitiatedTest, ItsMemoryIsNotLent) {
  GroupConfig config = Config(true);
  config.mode = Mode::kInitiated;
  config.block = 1;
  config.block_bytes = 1 << 16;
  EXPECT_EQ(engine.Install(config).status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(engine.Offers(Mode::kInitiated)) << "it is being built";
}

}  // namespace
}  // namespace epic::engine
