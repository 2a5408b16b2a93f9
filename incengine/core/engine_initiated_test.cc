// Mode VI at one switch, packet in, packets out (docs/PROTOCOL-MODE-VI.md): what it reads of hosts, what it
// writes, and when it replies.
#include "incengine/core/engine_initiated_testing.h"

namespace epic::engine {
namespace {

using roce::Opcode;

TEST_F(InitiatedTest, NothingIsReadBeforeAllHaveCalled) {
  InstallInitiated(true);
  const ControlHeader call = Call(Collective::kAllReduce, 2);
  Doorbell(0, 0, call);
  EXPECT_TRUE(To(0).empty() && To(1).empty());
  Doorbell(1, 0, call);
  for (const uint32_t rank : {0u, 1u}) {
    const auto reads = To(static_cast<PortId>(rank));
    ASSERT_EQ(reads.size(), 1u);
    ExpectRead(reads[0], kSource, KeyOf(rank), 2 * kPacketBytes);
    EXPECT_EQ(reads[0].packet.bth.psn, Psn(kOutPsn));
  }
}

TEST_F(InitiatedTest, TheSumIsWrittenAndTheReplyComesBehindIt) {
  InstallInitiated(true);
  const ControlHeader call = Call(Collective::kAllReduce, 2);
  Open(call);
  Read(0, 0, 5);
  EXPECT_TRUE(To(0).empty() && To(1).empty()) << "rank 1's is missing";
  Read(1, 0, 7);
  for (const uint32_t rank : {0u, 1u}) {
    const auto packets = To(static_cast<PortId>(rank));
    ASSERT_EQ(OpcodesTo(static_cast<PortId>(rank)), kWriteAndReply);
    EXPECT_EQ(packets[0].packet.reth.virtual_address, kDestination);
    EXPECT_EQ(packets[0].packet.reth.rkey, KeyOf(rank) + 1);
    EXPECT_EQ(packets[0].packet.reth.dma_length, 2 * kPacketBytes);
    EXPECT_EQ(Word(packets[0]), 12);
    EXPECT_EQ(Word(packets[1], 63), 12);
    EXPECT_EQ(DecodeControl(packets[2].payload), call);
    EXPECT_EQ(packets[2].packet.imm, 0u);
  }
}

// Two messages in the window, and another when one has been used.
TEST_F(InitiatedTest, NoMoreIsUnderWayFromAHostThanAWindow) {
  InstallInitiated(true);
  Open(Call(Collective::kAllReduce, 8));
  ASSERT_EQ(To(1).size(), 2u);
  ExpectRead(To(1)[1], kSource + 2 * kPacketBytes, KeyOf(1), 2 * kPacketBytes);
  Read(1, 0, 1);
  ASSERT_EQ(To(1).size(), 1u) << "there is room for it";
  ExpectRead(To(1)[0], kSource + 4 * kPacketBytes, KeyOf(1), 2 * kPacketBytes);
  Read(1, 2, 1);
  EXPECT_TRUE(To(1).empty()) << "three are there, or come, and nothing has been used";
  Read(0, 0, 1);
  EXPECT_EQ(OpcodesTo(1), (std::vector{Opcode::kRcWriteFirst, Opcode::kRcWriteLast, Opcode::kRcReadRequest}));
}

TEST_F(InitiatedTest, OfSeveralMessagesEachIsWrittenWhenAllHaveIt) {
  InstallInitiated(true);
  Open(Call(Collective::kAllReduce, 4));
  Read(0, 0, 1);
  Read(0, 2, 2);
  EXPECT_TRUE(To(0).empty());
  Read(1, 0, 10);
  ASSERT_EQ(OpcodesTo(0), (std::vector{Opcode::kRcWriteFirst, Opcode::kRcWriteLast}));
  EXPECT_EQ(Word(To(0)[0]), 11);
  Read(1, 2, 20);
  ASSERT_EQ(OpcodesTo(0), kWriteAndReply);
  EXPECT_EQ(To(0)[0].packet.reth.virtual_address, kDestination + 2 * kPacketBytes);
  EXPECT_EQ(Word(To(0)[0]), 22);
}

// The other ranks hear that it is done, too, though nothing is written there.
TEST_F(InitiatedTest, OfAReduceTheRootAloneIsWrittenTo) {
  InstallInitiated(true);
  ControlHeader call = Call(Collective::kReduce, 2);
  call.root = 1;
  Open(call);
  Read(0, 0, 3);
  Read(1, 0, 4);
  EXPECT_EQ(OpcodesTo(0), std::vector{Opcode::kRcSendOnlyImm});
  ASSERT_EQ(OpcodesTo(1), kWriteAndReply);
  EXPECT_EQ(Word(To(1)[0]), 7);
}

TEST_F(InitiatedTest, OfABroadcastTheRootAloneIsRead) {
  InstallInitiated(true);
  ControlHeader call = Call(Collective::kBroadcast, 2);
  call.root = 1;
  Open(call);
  EXPECT_TRUE(To(0).empty());
  ASSERT_EQ(To(1).size(), 1u);
  Read(1, 0, 9);
  EXPECT_EQ(OpcodesTo(1), std::vector{Opcode::kRcSendOnlyImm});
  ASSERT_EQ(OpcodesTo(0), kWriteAndReply);
  EXPECT_EQ(Word(To(0)[0]), 9);
}

TEST_F(InitiatedTest, PartsLieWhereTheStrideSays) {
  InstallInitiated(true);
  const ControlHeader scatter = Call(Collective::kReduceScatter, 2);
  for (const uint32_t rank : {0u, 1u}) {
    Descriptor descriptor = Described(scatter, rank);
    descriptor.source.stride = 0x1000;
    Doorbell(rank, 0, scatter, descriptor);
  }
  ASSERT_EQ(To(1).size(), 2u);
  ExpectRead(To(1)[1], kSource + 0x1000, KeyOf(1), 2 * kPacketBytes);
  for (const uint32_t rank : {0u, 1u}) Read(rank, 0, 1);
  EXPECT_EQ(OpcodesTo(0), (std::vector{Opcode::kRcWriteFirst, Opcode::kRcWriteLast}));
  for (const uint32_t rank : {0u, 1u}) Read(rank, 2, 2);
  EXPECT_EQ(OpcodesTo(0), std::vector{Opcode::kRcSendOnlyImm}) << "its part is there";
  ASSERT_EQ(OpcodesTo(1), kWriteAndReply);
  EXPECT_EQ(To(1)[0].packet.reth.virtual_address, kDestination) << "it receives one part";
}

TEST_F(InitiatedTest, AnAllGatherWritesEachPartAtItsPlace) {
  InstallInitiated(true);
  Open(Call(Collective::kAllGather, 2));
  ASSERT_EQ(To(1).size(), 1u) << "each is read of its own part alone";
  Read(1, 0, 6);
  EXPECT_TRUE(To(0).empty()) << "rank 0's part comes first";
  Read(0, 0, 5);
  ASSERT_EQ(OpcodesTo(0), kWriteAndReply);
  EXPECT_EQ(To(0)[0].packet.reth.virtual_address, kDestination + 2 * kPacketBytes);
  EXPECT_EQ(Word(To(0)[0]), 6);
  ASSERT_EQ(OpcodesTo(1), kWriteAndReply);
  EXPECT_EQ(To(1)[0].packet.reth.virtual_address, kDestination);
  EXPECT_EQ(Word(To(1)[0]), 5);
}

TEST_F(InitiatedTest, ABarrierAndInlinedDataNeedNoMemoryOfHosts) {
  InstallInitiated(true);
  Header(0, 0, {.collective = Collective::kBarrier});
  Header(1, 0, {.collective = Collective::kBarrier});
  EXPECT_EQ(OpcodesTo(0), std::vector{Opcode::kRcSendOnlyImm});
  ControlHeader small = Call(Collective::kAllReduce, 1, 1);
  small.count = 2;
  small.flags = kInlinedFlag;
  std::array<uint8_t, kControlBytes + 8> bytes{};
  Encode(small, std::span(bytes).first<kControlBytes>());
  bytes[kControlBytes] = 3;
  Only(0, 1, bytes);
  Only(1, 1, bytes);
  ASSERT_EQ(OpcodesTo(1), std::vector{Opcode::kRcSendOnlyImm});
  EXPECT_EQ(To(1)[0].payload.size(), bytes.size());
  EXPECT_EQ(Word(To(1)[0], kControlBytes / 4), 6);
}

// The next call's comes while this one's data are being read.
TEST_F(InitiatedTest, ADoorbellWaitsForTheCallsBeforeIt) {
  InstallInitiated(true);
  Open(Call(Collective::kAllReduce, 2));
  for (const uint32_t rank : {0u, 1u}) {
    const ControlHeader next = Call(Collective::kAllReduce, 2, 1);
    Descriptor descriptor = Described(next, rank);
    descriptor.source.address += 0x5000;
    descriptor.destination.address += 0x5000;
    Doorbell(rank, 1, next, descriptor);
    EXPECT_TRUE(To(0).empty() && To(1).empty());
  }
  Read(0, 0, 1);
  Read(1, 0, 1);
  auto behind = kWriteAndReply;
  behind.push_back(Opcode::kRcReadRequest);
  ASSERT_EQ(OpcodesTo(0), behind);
  EXPECT_EQ(To(0)[0].packet.reth.virtual_address, kDestination) << "of its own descriptor";
  ExpectRead(To(0)[3], kSource + 0x5000, KeyOf(0), 2 * kPacketBytes);
}

TEST_F(InitiatedTest, BelowAParentSumsGoUpAndResultsAreWritten) {
  InstallInitiated(false);
  const ControlHeader call = Call(Collective::kAllReduce, 2);
  Open(call);
  EXPECT_EQ(OpcodesTo(0), std::vector{Opcode::kRcReadRequest})
      << "before the parent replies: all get it back";
  ASSERT_EQ(OpcodesTo(kParentPort), std::vector{Opcode::kRcSendOnlyImm});
  EXPECT_EQ(To(kParentPort)[0].payload.size(), kControlBytes) << "without a descriptor";
  Acknowledge(kParentPort, 0);
  Read(0, 0, 1);
  Read(1, 0, 2);
  ASSERT_EQ(OpcodesTo(kParentPort), (std::vector{Opcode::kRcSendFirst, Opcode::kRcSendLast}));
  EXPECT_EQ(Word(To(kParentPort)[0]), 3);
  Header(kParentPort, 0, call);
  EXPECT_TRUE(To(0).empty() && To(1).empty()) << "hosts get the reply behind their results";
  const std::vector<int32_t> words(kPacketBytes / 4, 30);
  const std::span payload(reinterpret_cast<const uint8_t*>(words.data()), kPacketBytes);
  Only(kParentPort, 1, payload, Opcode::kRcSendFirst);
  Only(kParentPort, 2, payload, Opcode::kRcSendLast);
  ASSERT_EQ(OpcodesTo(0), kWriteAndReply);
  EXPECT_EQ(Word(To(0)[0]), 30);
  EXPECT_EQ(OpcodesTo(1), kWriteAndReply);
}

// They would meet ranks that have not called.
TEST_F(InitiatedTest, BelowAParentWhatSendersDoNotGetBackIsReadWhenAllHaveCalled) {
  InstallInitiated(false);
  ControlHeader call = Call(Collective::kReduce, 2);
  call.root = 0;
  Open(call);
  EXPECT_TRUE(To(0).empty() && To(1).empty());
  Header(kParentPort, 0, call);
  EXPECT_EQ(OpcodesTo(0), std::vector{Opcode::kRcReadRequest});
  EXPECT_EQ(OpcodesTo(1), std::vector{Opcode::kRcReadRequest});
}

// Of a Reduce to elsewhere nothing comes down but the reply: hosts get it when they have been read.
TEST_F(InitiatedTest, AReplyIsOwedUntilAllHasBeenRead) {
  GroupConfig config = Config(false);
  config.mode = Mode::kInitiated;
  config.world_size = 3;
  ASSERT_TRUE(engine.Install(config).ok());
  ControlHeader call = Call(Collective::kReduce, 2);
  call.root = 2;
  for (const uint32_t rank : {0u, 1u}) Doorbell(rank, 0, call);
  Header(kParentPort, 0, call);
  ASSERT_EQ(OpcodesTo(0), std::vector{Opcode::kRcReadRequest});
  Read(0, 0, 1);
  EXPECT_TRUE(To(0).empty()) << "rank 1 has not been read";
  Read(1, 0, 1);
  EXPECT_EQ(OpcodesTo(0), std::vector{Opcode::kRcSendOnlyImm});
  EXPECT_EQ(OpcodesTo(1), std::vector{Opcode::kRcSendOnlyImm});
  EXPECT_EQ(ControlIn(To(1)), call);
}

// What is between switches is mode I's: the reply at once, and data in messages.
TEST_F(InitiatedTest, ASwitchBelowGetsWhatModeIsDoes) {
  InstallInitiated(true, /*switch_below=*/true);
  const ControlHeader call = Call(Collective::kAllReduce, 2);
  Doorbell(0, 0, call);
  Header(1, 0, call);
  EXPECT_EQ(OpcodesTo(0), std::vector{Opcode::kRcReadRequest});
  EXPECT_EQ(OpcodesTo(1), std::vector{Opcode::kRcSendOnlyImm});
  Read(0, 0, 1);
  const std::vector<int32_t> words(kPacketBytes / 4, 30);
  const std::span payload(reinterpret_cast<const uint8_t*>(words.data()), kPacketBytes);
  Only(1, 1, payload, Opcode::kRcSendFirst);
  Only(1, 2, payload, Opcode::kRcSendLast);
  EXPECT_EQ(OpcodesTo(0), kWriteAndReply);
  EXPECT_EQ(OpcodesTo(1), (std::vector{Opcode::kRcSendFirst, Opcode::kRcSendLast}));
  EXPECT_EQ(Word(To(1)[0]), 31);
}

}  // namespace
}  // namespace epic::engine
