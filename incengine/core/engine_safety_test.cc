// What the engine refuses: bad packets, bad configurations, too much of anything.
#include "incengine/core/engine_testing.h"

namespace epic::engine {
namespace {

using roce::Opcode;

TEST_F(EngineTest, MismatchNamesFieldAndRankAndStopsData) {
  Install(true);
  Control(0, 64);
  Control(1, 128);
  ASSERT_EQ(sent.size(), 2u);
  const auto reply = DecodeControl(sent[0].payload);
  EXPECT_EQ(reply->status, ControlStatus::kMismatch);
  EXPECT_EQ(reply->field, ControlField::kCount);
  EXPECT_EQ(reply->culprit, 1u);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  EXPECT_EQ(drops, std::vector{DropReason::kGroupFailed});
}

TEST_F(EngineTest, UnsupportedCollectiveIsRefusedByTheReply) {
  Install(true);
  for (uint32_t child : {0u, 1u}) {
    const ControlHeader header{.collective = Collective::kReduce, .type = DataType::kInt32, .count = 1};
    std::array<uint8_t, kControlBytes> bytes;
    Encode(header, bytes);
    Deliver(From(child, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes));
  }
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(DecodeControl(sent[0].payload)->status, ControlStatus::kUnsupported);
}

TEST_F(EngineTest, MalformedPacketsChangeNothing) {
  Install(true);
  Data(0, -1, 5, Opcode::kRcSendOnly);
  EXPECT_EQ(drops, std::vector{DropReason::kBadControl}) << "data where a control packet is due";
  Control(0, 64, /*invocation=*/1);
  EXPECT_EQ(drops, std::vector{DropReason::kBadControl}) << "the wrong invocation";
  Control(0, 128);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  EXPECT_EQ(drops, std::vector{DropReason::kUnexpectedOpcode}) << "the position demands FIRST";
  std::vector<uint8_t> small(252);
  Deliver(From(0, Psn(kInPsn) + 1, Opcode::kRcSendFirst, small));
  EXPECT_EQ(drops, std::vector{DropReason::kBadLength});
  Deliver(From(0, Psn(kInPsn) + 1, Opcode::kRcWriteFirst, small));
  EXPECT_EQ(drops, std::vector{DropReason::kUnexpectedOpcode});
  EXPECT_EQ(context().children[0].progress.up_epsn, 1);
}

// Earlier versions would not take it. Mode I: TerminatedTest.APriorityEndsTheGroup.
TEST_F(EngineTest, OnlyInAPoolACallHasAPriority) {
  Install(true);
  const ControlHeader header{.collective = Collective::kBarrier, .priority = 1};
  std::array<uint8_t, kControlBytes> bytes;
  Encode(header, bytes);
  Deliver(From(0, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes));
  EXPECT_EQ(drops, std::vector{DropReason::kBadControl});
  EXPECT_EQ(context().children[0].progress.up_epsn, 0);
}

// So that an acknowledgement of the switch cannot meet a Read (docs/SOFTNIC.md, What rdma_rxe takes our
// packets for). Mode I: TerminatedTest.WritesAndReadsAreRefused.
TEST_F(EngineTest, ReadsAndWritesAreNotAnswered) {
  for (const ModeInfo& mode : kModesOfOwnMemory) {
    if (mode.ends_connections) continue;
    engine = Engine(kOwn, 4, 1 << 20);
    GroupConfig config = Config(true);
    config.mode = mode.mode;
    ASSERT_TRUE(engine.Install(config).ok());
    Control(0, 128);
    for (const Opcode opcode : {Opcode::kRcWriteOnly, Opcode::kRcReadRequest, Opcode::kRcFetchAdd,
                                Opcode::kRcAtomicAck, Opcode::kRcSendOnlyInv}) {
      for (const int32_t at : {0, 1, 2}) {  // a repetition, the next, and one behind a gap
        Deliver(From(0, Psn(kInPsn) + at, opcode));
        EXPECT_EQ(drops, std::vector{DropReason::kUnexpectedOpcode}) << at;
        EXPECT_TRUE(sent.empty()) << at;
      }
    }
  }
}

TEST_F(EngineTest, StrangersAreDropped) {
  Install(true);
  roce::Packet p = From(0, Psn(kInPsn), Opcode::kRcSendOnlyImm);
  p.src_ip = Ipv4{0x0a000063};
  Deliver(p);
  EXPECT_EQ(drops, std::vector{DropReason::kStranger});
  p.bth.dest_qp = Qpn{0x999};
  Deliver(p);
  EXPECT_EQ(drops, std::vector{DropReason::kUnknownQpn});
}

// A neighbour knows everything but how to send by another's port.
TEST_F(EngineTest, APacketByAnotherPortThanTheEdgesChangesNothing) {
  for (const Mode mode : ModesOfOwnMemory()) {
    engine = Engine(kOwn, 4, 1 << 20);
    GroupConfig config = Config(false);
    config.mode = mode;
    ASSERT_TRUE(engine.Install(config).ok());
    std::array<uint8_t, kControlBytes> bytes;
    Encode(
        {.collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kInt32, .count = 64},
        bytes);
    const roce::Packet packets[] = {From(0, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes),
                                    From(0, Psn(kInPsn) + 5, Opcode::kRcSendOnly, bytes),
                                    From(2, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes),
                                    From(1, Psn(kOutPsn), Opcode::kRcAck), From(0, Psn(0), Opcode::kCnp)};
    for (const roce::Packet& packet : packets) {
      for (PortId port = 0; port < 4; ++port) {
        if (port == Raw(packet.bth.dest_qp) - 0x100) continue;
        DeliverBy(port, packet);
        EXPECT_EQ(drops, std::vector{DropReason::kWrongPort});
        EXPECT_TRUE(sent.empty());
      }
    }
    EXPECT_EQ(context().counters.drops[static_cast<size_t>(DropReason::kWrongPort)], 15u);
    EXPECT_EQ(context().counters.aggregated_packets, 0u);
    Deliver(packets[0]);
    EXPECT_TRUE(drops.empty()) << "the right one still has its position";
    EXPECT_GT(context().counters.aggregated_packets, 0u);
  }
}

TEST_F(EngineTest, AnEdgeMayHaveAnotherPortForWhatComesIn) {
  GroupConfig config = Config(true);
  config.children[0].ingress_port = 3;
  ASSERT_TRUE(engine.Install(config).ok());
  std::array<uint8_t, kControlBytes> bytes;
  Encode({.collective = Collective::kBarrier}, bytes);
  DeliverBy(0, From(0, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes));
  EXPECT_EQ(drops, std::vector{DropReason::kWrongPort});
  DeliverBy(3, From(0, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes));
  Deliver(From(1, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].port, 0) << "what it is sent leaves by the other";
}

TEST_F(EngineTest, PacketBeyondTheSlotsIsRefused) {
  Install(true);
  Control(0, 64 * 100);
  for (int at = 0; at < 7; ++at) Data(0, at, 1, at % 2 == 0 ? Opcode::kRcSendFirst : Opcode::kRcSendLast);
  EXPECT_TRUE(drops.empty());
  Data(0, 7, 1, Opcode::kRcSendLast);  // index 8, N = 8, no result yet
  EXPECT_EQ(drops, std::vector{DropReason::kAboveWindow});
}

TEST_F(EngineTest, HostThatNeverAcknowledgesCannotPushOutWhatOthersNeed) {
  Install(true);
  for (uint64_t k = 0; k < 2 * kKeptInvocations; ++k) {
    for (uint32_t c : {0u, 1u}) {
      Control(c, 0, k, static_cast<Index>(k));
      if (c == 0 && context().results_end > 0) Ack(0, roce::kSyndromeAck, context().results_end - 1);
    }
  }
  EXPECT_EQ(context().children[1].progress.down_acked_end, 0);
  EXPECT_EQ(context().results_end, kKeptInvocations);
  now = timer;
  Fire();  // prompts host 1 at index 0, which must still be known
}

// Ended the engine once: such data had positions, and the kernels do not know the type.
TEST_F(EngineTest, DataBehindACallThatCannotBeComputedAreRefused) {
  for (const Mode mode : ModesOfOwnMemory()) {
    engine = Engine(kOwn, 4, 1 << 20);
    GroupConfig config = Config(true);
    config.mode = mode;
    ASSERT_TRUE(engine.Install(config).ok());
    std::array<uint8_t, kControlBytes> bytes;
    Encode({.collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kByte, .count = 50},
           bytes);
    for (const uint32_t child : {0u, 1u}) {
      Deliver(From(child, Psn(kInPsn), roce::Opcode::kRcSendOnlyImm, bytes));
      Deliver(From(child, Psn(kInPsn) + 1, roce::Opcode::kRcSendOnly, std::span(bytes).first(50)));
    }
    // Mode I counts the ends of the two streams as well.
    EXPECT_EQ(context().counters.aggregated_packets, mode == Mode::kTerminated ? 4u : 2u);
    EXPECT_EQ(context().state, GroupState::kFailed);
  }
}

TEST_F(EngineTest, ArenaIsBoundedAndGivenBack) {
  Engine small{kOwn, 4, 8192};
  GroupConfig config = Config(true);
  const auto first = small.Install(config);
  ASSERT_TRUE(first.ok());
  config.group_id = 8;
  for (auto& child : config.children) child.local_qpn = Qpn{Raw(child.local_qpn) + 16};
  const auto second = small.Install(config);
  EXPECT_EQ(second.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(second.status().message()).find(std::to_string(*first)), std::string::npos);
  small.Remove(7, 99);
  EXPECT_EQ(small.groups().size(), 1u) << "another generation";
  small.Remove(7, 1);
  EXPECT_EQ(small.arena().free_bytes(), small.arena().size());
  EXPECT_TRUE(small.Install(config).ok());
}

TEST_F(EngineTest, InstallRefusesBadConfigurationsByField) {
  const auto refused = [&](auto change, const char* field) {
    GroupConfig config = Config(true);
    change(config);
    const auto status = engine.Install(config).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find(field), std::string::npos) << status.message();
  };
  refused([](GroupConfig& c) { c.name.assign(65, 'x'); }, "name");
  refused([](GroupConfig& c) { c.world_size = UINT32_MAX; }, "world_size");
  refused([](GroupConfig& c) { c.path_mtu = 1000; }, "path_mtu");
  refused([](GroupConfig& c) { c.slots = 4; }, "slots");
  refused([](GroupConfig& c) { c.slots = 12; }, "slots");
  refused([](GroupConfig& c) { c.accumulator_mtus = 3; }, "accumulator_mtus");
  refused([](GroupConfig& c) { c.children.clear(); }, "children");
  refused([](GroupConfig& c) { c.children.resize(65, c.children[0]); }, "children");
  refused([](GroupConfig& c) { c.children[1].port = 9; }, "children[1]");
  refused([](GroupConfig& c) { c.children[1].ingress_port = 9; }, "children[1]");
  refused([](GroupConfig& c) { c.children[1].local_qpn = c.children[0].local_qpn; }, "QPN");
  GroupConfig other = Config(true);
  other.mode = static_cast<Mode>(99);
  EXPECT_EQ(engine.Install(other).status().code(), StatusCode::kUnimplemented);
}

TEST_F(EngineTest, StoppedGroupMovesNothing) {
  Install(true);
  Control(0, 64);
  engine.Fail(7, 1);
  Control(1, 64);
  EXPECT_EQ(drops, std::vector{DropReason::kGroupFailed});
  Fire();
  EXPECT_TRUE(sent.empty());
}

TEST_F(EngineTest, AStoppedGroupPromptsNobody) {
  Install(true);
  Control(0, 64);
  Control(1, 64);  // nobody acknowledges the reply
  engine.Fail(7, 1);
  Fire();
  EXPECT_TRUE(sent.empty());
}

TEST_F(EngineTest, CopyIsASnapshot) {
  Install(true);
  Control(0, 64);
  Control(1, 64);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  const Engine snapshot = engine;
  Data(1, 0, 7, Opcode::kRcSendOnly);
  EXPECT_EQ(Word(sent.at(0)), 12);
  engine = snapshot;
  Data(1, 0, 8, Opcode::kRcSendOnly);
  EXPECT_EQ(Word(sent.at(0)), 13);
}

}  // namespace
}  // namespace epic::engine
