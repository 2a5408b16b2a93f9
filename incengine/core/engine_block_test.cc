// Blocks: the recorder, and who may use the memory when (docs/PROTOCOL-BLOCKS.md), packet by packet. How
// groups fare with it is in sim/blocks_test.cc and epic-check.
#include "incengine/core/engine_testing.h"
#include "incengine/modes/table.h"

namespace epic::engine {
namespace {

using roce::Opcode;

constexpr uint64_t kBlock = 5;

// Two groups of two hosts at this switch: 7, whose QPNs begin at 0x100, and 8, whose QPNs begin at 0x200.
class BlockTest : public EngineTest {
 protected:
  static GroupConfig Owner(uint64_t group, bool root = true, Mode mode = Mode::kTranslated) {
    GroupConfig config = Config(root);
    config.group_id = group;
    config.mode = mode;
    const auto move = [group](EndpointConfig& ep) {
      ep.local_qpn = Qpn{Raw(ep.local_qpn) + 0x100 * static_cast<uint32_t>(group - 7)};
    };
    for (EndpointConfig& child : config.children) move(child);
    if (config.parent) move(*config.parent);
    config.block = kBlock;
    config.block_bytes = ArenaBytes(config);
    return config;
  }
  void InstallOwner(const GroupConfig& config) {
    const auto bytes = engine.Install(config);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
  }

  static ControlHeader AllReduceOf(uint64_t count, uint32_t flags, uint64_t invocation) {
    return {.collective = Collective::kAllReduce,
            .op = ReduceOp::kSum,
            .type = DataType::kInt32,
            .invocation = invocation,
            .count = count,
            .flags = flags,
            .window = (flags & kRequestFlag) != 0 ? 2u : 0u};
  }
  // A control packet of a child (2: the parent) of a group, with the index.
  void Say(uint64_t group, uint32_t child, const ControlHeader& header, Index index) {
    std::array<uint8_t, kControlBytes> bytes;
    Encode(header, bytes);
    DeliverTo(group, From(child, Psn(kInPsn) + index, Opcode::kRcSendOnlyImm, bytes));
  }
  void Request(uint64_t group, uint32_t child, uint64_t count = 64, uint64_t invocation = 0,
               Index index = 0) {
    Say(group, child, AllReduceOf(count, kRequestFlag, invocation), index);
  }
  void DeliverTo(uint64_t group, roce::Packet packet) {
    const auto port = static_cast<PortId>(Raw(packet.bth.dest_qp) - 0x100);
    packet.bth.dest_qp = Qpn{Raw(packet.bth.dest_qp) + 0x100 * static_cast<uint32_t>(group - 7)};
    DeliverBy(port, packet);
  }
  void AckOf(uint64_t group, uint32_t child, Index index) {
    roce::Packet p = From(child, Psn(kOutPsn) + index, Opcode::kRcAck);
    p.aeth.syndrome = roce::kSyndromeAck;
    DeliverTo(group, p);
  }
  void DataOf(uint64_t group, uint32_t child, Index index, int32_t value) {
    std::vector<int32_t> words(64, value);
    DeliverTo(group, From(child, Psn(kInPsn) + index, Opcode::kRcSendOnly,
                          {reinterpret_cast<const uint8_t*>(words.data()), words.size() * 4}));
  }
  // What the first packet sent says.
  ControlHeader Said() const {
    const auto header = sent.empty() ? std::nullopt : HeaderOf(sent.front().payload);
    return header.value_or(ControlHeader{});
  }
  const Block& block() const { return engine.blocks().at(kBlock); }
  std::optional<uint64_t> holder() const { return block().holder; }
};

TEST_F(BlockTest, TheFirstWhoseRanksHaveAllCalledHasItAndTheOtherIsBusy) {
  InstallOwner(Owner(7));
  InstallOwner(Owner(8));
  EXPECT_EQ(engine.arena().size() - engine.arena().free_bytes(), block().bytes);
  Request(7, 0);
  EXPECT_FALSE(holder()) << "a rank alone has asked";
  Request(8, 0);
  Request(8, 1);
  EXPECT_EQ(holder(), 8u);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(Said().status, ControlStatus::kOk);
  EXPECT_EQ(Said().window, 2u);
  Request(7, 1);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(Said().status, ControlStatus::kBusy);
  EXPECT_EQ(engine.groups().at(7).state, GroupState::kRunning);
  EXPECT_EQ(engine.groups().at(7).counters.busy, 1u);
  EXPECT_EQ(engine.groups().at(8).counters.grants, 1u);
}

TEST_F(BlockTest, ItIsFreeWhenAllHaveAcknowledgedWhatWasGranted) {
  for (const Mode mode : {Mode::kTranslated, Mode::kAugmented}) {
    engine = Engine(kOwn, 4, 1 << 20);
    InstallOwner(Owner(7, true, mode));
    InstallOwner(Owner(8, true, mode));
    for (const uint32_t c : {0u, 1u}) Request(7, c);
    for (const uint32_t c : {0u, 1u}) AckOf(7, c, 0);
    for (const uint32_t c : {0u, 1u}) {
      Say(7, c, AllReduceOf(64, kGrantedFlag, 1), 1);
      DataOf(7, c, 2, 3);
    }
    ASSERT_EQ(sent.size() >= 2, true);
    AckOf(7, 0, 2);
    EXPECT_EQ(holder(), 7u) << "the other rank may ask for it again";
    AckOf(7, 1, 1);
    EXPECT_EQ(holder(), 7u);
    AckOf(7, 1, 2);
    EXPECT_FALSE(holder());
    for (const uint32_t c : {0u, 1u}) Request(8, c);
    EXPECT_EQ(holder(), 8u);
    // What comes late of the first group's call is answered without the memory.
    DataOf(7, 0, 2, 3);
    for (const Sent& s : sent) EXPECT_EQ(s.packet.bth.opcode, Opcode::kRcAck);
  }
}

TEST_F(BlockTest, ItIsKeptForAllSlicesThatWereGranted) {
  InstallOwner(Owner(7));
  for (const uint32_t c : {0u, 1u}) Say(7, c, AllReduceOf(64, kRequestFlag | 1 << kSlicesLeftShift, 0), 0);
  const auto slice = [&](uint64_t number, uint32_t left) {
    const Index at = 1 + 2 * static_cast<Index>(number - 1);
    for (const uint32_t c : {0u, 1u}) {
      Say(7, c, AllReduceOf(64, kGrantedFlag | left << kSlicesLeftShift, number), at);
      DataOf(7, c, at + 1, 1);
    }
    for (const uint32_t c : {0u, 1u}) AckOf(7, c, at + 1);
  };
  slice(1, 1);
  EXPECT_EQ(holder(), 7u);
  slice(2, 0);
  EXPECT_FALSE(holder());
}

TEST_F(BlockTest, BusyAtAParentGivesBackWhatWasTakenHere) {
  for (const Mode mode : {Mode::kTranslated, Mode::kAugmented}) {
    engine = Engine(kOwn, 4, 1 << 20);
    InstallOwner(Owner(7, false, mode));
    for (const uint32_t c : {0u, 1u}) Request(7, c);
    EXPECT_EQ(holder(), 7u);
    ControlHeader busy = AllReduceOf(64, kRequestFlag, 0);
    busy.status = ControlStatus::kBusy;
    Say(7, 2, busy, 0);
    ASSERT_GE(sent.size(), 2u);
    EXPECT_FALSE(holder());
    EXPECT_EQ(engine.groups().at(7).state, GroupState::kRunning);
  }
}

TEST_F(BlockTest, AGrantOfWhatIsNotHereIsNone) {
  InstallOwner(Owner(7, false));
  InstallOwner(Owner(8, false));
  for (const uint64_t group : {7u, 8u}) {
    for (const uint32_t c : {0u, 1u}) Request(group, c);
  }
  EXPECT_EQ(Said().status, ControlStatus::kBusy) << "of group 8, to the parent";
  Request(8, 2);
  EXPECT_EQ(drops, std::vector{DropReason::kBadControl});
  EXPECT_TRUE(sent.empty());
}

TEST_F(BlockTest, AGrantOfMoreThanWasAskedForIsNone) {
  for (const uint32_t window : {0u, 3u, 2u}) {
    engine = Engine(kOwn, 4, 1 << 20);
    drops.clear();
    InstallOwner(Owner(7, false));
    for (const uint32_t c : {0u, 1u}) Request(7, c);
    ControlHeader grant = AllReduceOf(64, kRequestFlag, 0);
    grant.window = window;
    Say(7, 2, grant, 0);
    EXPECT_EQ(drops.empty(), window == 2) << window;
  }
}

// What it has asked for behind a call that fails is never answered.
TEST_F(BlockTest, AGroupThatFailsGivesItBackThoughItAsks) {
  for (const bool asks_first : {false, true}) {
    engine = Engine(kOwn, 4, 1 << 20);
    InstallOwner(Owner(7, false));
    for (const uint32_t c : {0u, 1u}) Say(7, c, {.collective = Collective::kBarrier}, 0);
    const auto ask = [this] {
      for (const uint32_t c : {0u, 1u}) Request(7, c, 64, 1, 1);
    };
    if (asks_first) ask();
    EXPECT_EQ(holder().has_value(), asks_first);
    ControlHeader mismatch{.collective = Collective::kBarrier};
    mismatch.status = ControlStatus::kMismatch;
    Say(7, 2, mismatch, 0);
    EXPECT_EQ(engine.groups().at(7).state, GroupState::kFailed);
    if (!asks_first) ask();
    EXPECT_FALSE(holder());
  }
}

TEST_F(BlockTest, DataThatWereNotGrantedAreRefused) {
  for (const uint32_t flags : {0u, kGrantedFlag}) {
    engine = Engine(kOwn, 4, 1 << 20);
    InstallOwner(Owner(7));
    for (const uint32_t c : {0u, 1u}) Say(7, c, AllReduceOf(64, flags, 0), 0);
    EXPECT_EQ(Said().status, ControlStatus::kUnsupported);
    EXPECT_EQ(Said().field, ControlField::kFlags);
    EXPECT_FALSE(holder());
  }
}

// Nor do they touch what the group that has the block keeps in it.
TEST_F(BlockTest, InlinedDataThatWereNotGrantedAreRefusedToo) {
  InstallOwner(Owner(7));
  InstallOwner(Owner(8));
  for (const uint32_t c : {0u, 1u}) Request(8, c);
  ASSERT_EQ(holder(), 8u);
  const auto in_it = [&] { return engine.arena().At(block().offset, block().bytes); };
  const std::vector<uint8_t> before(in_it().begin(), in_it().end());
  for (const uint32_t c : {0u, 1u}) {
    std::array<uint8_t, kControlBytes + 32> bytes{};
    Encode(AllReduceOf(8, kInlinedFlag, 0), std::span(bytes).first<kControlBytes>());
    DeliverTo(7, From(c, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes));
  }
  EXPECT_EQ(Said().status, ControlStatus::kUnsupported);
  EXPECT_EQ(Said().field, ControlField::kFlags);
  EXPECT_TRUE(std::ranges::equal(before, in_it()));
}

TEST_F(BlockTest, CallsWithoutDataNeedNone) {
  InstallOwner(Owner(7));
  InstallOwner(Owner(8));
  for (const uint32_t c : {0u, 1u}) Request(8, c);
  for (const uint32_t c : {0u, 1u}) Say(7, c, {.collective = Collective::kBarrier}, 0);
  EXPECT_EQ(Said().status, ControlStatus::kOk);
  for (const uint32_t c : {0u, 1u}) Say(7, c, AllReduceOf(64, kByHostsFlag, 1), 1);
  EXPECT_EQ(Said().status, ControlStatus::kOk);
  EXPECT_EQ(holder(), 8u);
}

// A mismatch counts more than a block that is taken, in whichever order the switch learns of them.
TEST_F(BlockTest, AMismatchIsToldAlthoughAChildIsBusy) {
  for (const bool busy_first : {false, true}) {
    engine = Engine(kOwn, 4, 1 << 20);
    GroupConfig config = Owner(7);
    config.children[0].is_host = false;
    InstallOwner(config);
    ControlHeader busy = AllReduceOf(64, kRequestFlag, 0);
    busy.status = ControlStatus::kBusy;
    if (busy_first) Say(7, 0, busy, 0);
    Request(7, 1, 65);
    if (!busy_first) Say(7, 0, busy, 0);
    EXPECT_EQ(Said().status, ControlStatus::kMismatch);
    EXPECT_EQ(Said().field, ControlField::kCount);
    EXPECT_FALSE(holder());
  }
}

TEST_F(BlockTest, AGroupThatEndsGivesItBack) {
  InstallOwner(Owner(7));
  InstallOwner(Owner(8));
  for (const uint32_t c : {0u, 1u}) Request(7, c);
  engine.Fail(7, 1);
  EXPECT_FALSE(holder());
  for (const uint32_t c : {0u, 1u}) Request(8, c);
  EXPECT_EQ(holder(), 8u);
  engine.Remove(8, 1);
  EXPECT_FALSE(holder());
  engine.Remove(7, 1);
  EXPECT_TRUE(engine.blocks().empty());
  EXPECT_EQ(engine.arena().free_bytes(), engine.arena().size());
}

TEST_F(BlockTest, ItIsAsLargeAsItsOwnersWantAndTheReplySaysTheWindow) {
  const GroupConfig large = Owner(8);
  GroupConfig small = Owner(7);
  small.window_messages = 1;
  small.slots = 4;
  const size_t for_small = ArenaBytes(small);
  small = Owner(7);
  small.block_bytes = for_small;
  InstallOwner(small);
  for (const uint32_t c : {0u, 1u}) Request(7, c);
  EXPECT_EQ(Said().window, 1u);
  InstallOwner(large);
  EXPECT_EQ(block().bytes, for_small) << "it is in use";
  for (const uint32_t c : {0u, 1u}) AckOf(7, c, 0);
  for (const uint32_t c : {0u, 1u}) {
    Say(7, c, AllReduceOf(64, kGrantedFlag, 1), 1);
    DataOf(7, c, 2, 3);
  }
  for (const uint32_t c : {0u, 1u}) AckOf(7, c, 2);
  EXPECT_FALSE(holder());
  EXPECT_EQ(block().bytes, ArenaBytes(large));
  for (const uint32_t c : {0u, 1u}) Request(7, c, 64, 2, 3);
  EXPECT_EQ(Said().window, 2u);
  engine.Remove(7, 1);
  engine.Remove(8, 1);
  EXPECT_EQ(engine.arena().free_bytes(), engine.arena().size());
}

// Gaps between regions that are in use, none of them long enough.
TEST_F(BlockTest, RegionsMoveTogetherWhenOnlyTheGapsAreInTheWay) {
  GroupConfig config = Config(true);
  const size_t bytes = Arena::RoundUp(ArenaBytes(config));
  engine = Engine(kOwn, 4, 4 * bytes);
  for (uint64_t group = 7; group < 11; ++group) {
    GroupConfig own = Owner(group);
    own.block = 0;
    ASSERT_TRUE(engine.Install(own).ok());
  }
  for (const uint64_t group : {8u, 10u}) {
    for (const uint32_t c : {0u, 1u}) Say(group, c, AllReduceOf(64, 0, 0), 0);
    DataOf(group, 0, 1, static_cast<int32_t>(group));
  }
  engine.Remove(7, 1);
  engine.Remove(9, 1);
  int moves = 0;
  engine.BeforeMoves([&] {
    ++moves;
    EXPECT_EQ(engine.groups().at(8).arena_offset, bytes) << "nothing has been moved yet";
  });
  GroupConfig wide = Owner(11);
  wide.block = 0;
  wide.slots *= 2;
  ASSERT_GT(ArenaBytes(wide), bytes);
  ASSERT_TRUE(engine.Install(wide).ok());
  EXPECT_EQ(moves, 1);
  EXPECT_EQ(engine.groups().at(8).arena_offset, 0u);
  EXPECT_LT(engine.arena().free_bytes(), bytes);
  for (const uint64_t group : {8u, 10u}) {
    DataOf(group, 1, 1, 100);
    ASSERT_EQ(sent.size(), 2u);
    EXPECT_EQ(Word(sent[0], 63), static_cast<int32_t>(100 + group)) << "half of it was summed before";
  }
}

TEST_F(BlockTest, WhatCannotBeABlockIsRefused) {
  GroupConfig config = Owner(7, true, Mode::kTerminated);
  EXPECT_EQ(engine.Install(config).status().code(), absl::StatusCode::kInvalidArgument);
  config = Owner(7);
  config.block_bytes = 100;
  const auto refused = engine.Install(config);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("block_bytes: 100"), std::string::npos) << refused.status();
  config.block_bytes = SIZE_MAX;
  EXPECT_EQ(engine.Install(config).status().code(), absl::StatusCode::kInvalidArgument);
  // More than there is, as of a group with memory of its own: another switch may have it.
  config.block_bytes = 2 * engine.arena().size();
  Shortage shortage;
  EXPECT_EQ(engine.Install(config, &shortage).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(shortage.needed, config.block_bytes);
  EXPECT_EQ(shortage.left, engine.arena().free_bytes());
  EXPECT_EQ(shortage.all, engine.arena().size());
  EXPECT_TRUE(engine.blocks().empty());
  EXPECT_TRUE(engine.groups().empty());
}

}  // namespace
}  // namespace epic::engine
