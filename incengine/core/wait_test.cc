// Whom a group waits for at one switch, packet in by packet (docs/PROTOCOL-CONTROL.md, section 7.3).
#include "incengine/core/wait.h"

#include <array>
#include <vector>

#include "incengine/core/engine_testing.h"

namespace epic::engine {
namespace {

using roce::Opcode;

class WaitTest : public EngineTest, public ::testing::WithParamInterface<Mode> {
 protected:
  void InstallMode(bool root) {
    GroupConfig config = Config(root);
    config.mode = GetParam();
    ASSERT_TRUE(engine.Install(config).ok());
  }
  GroupWait Wait() const { return WaitOf(context(), engine.arena()); }
  // Bit per child, of those for which it holds.
  template <typename Of>
  uint32_t Mask(const Of& of) const {
    uint32_t mask = 0;
    const GroupWait wait = Wait();
    for (size_t c = 0; c < wait.children.size(); ++c) mask |= of(wait.children[c]) ? 1u << c : 0;
    return mask;
  }
  uint32_t Owes() const {
    return Mask([](const ChildWait& child) { return child.owes; });
  }
  uint32_t NotTaken() const {
    return Mask([](const ChildWait& child) { return child.not_taken; });
  }
  std::vector<int64_t> Calls() const {
    std::vector<int64_t> calls;
    for (const ChildWait& child : Wait().children) calls.push_back(child.calls);
    return calls;
  }
  void Call(uint32_t child, Collective collective, uint64_t count, uint64_t invocation = 0, int64_t at = 0) {
    const bool sums = Reduces(collective);
    const ControlHeader header{.collective = collective,
                               .op = sums ? ReduceOp::kSum : ReduceOp::kNone,
                               .type = count == 0 ? DataType::kNone : DataType::kInt32,
                               .invocation = invocation,
                               .count = count};
    std::array<uint8_t, kControlBytes> bytes;
    Encode(header, bytes);
    roce::Packet p = From(child, Psn(kInPsn) + at, Opcode::kRcSendOnlyImm, bytes);
    p.bth.ack_req = true;
    Deliver(p);
  }
};

using Counts = std::vector<int64_t>;

TEST_P(WaitTest, NamesWhoHasNotCalled) {
  InstallMode(true);
  EXPECT_FALSE(Wait().open);
  EXPECT_EQ(Calls(), (Counts{0, 0}));
  // The last child first, so that mode I cannot merge it yet.
  now = 5 * kMillisecond;
  Call(1, Collective::kAllReduce, 64);
  now = 7 * kMillisecond;
  const GroupWait wait = Wait();
  ASSERT_TRUE(wait.open);
  EXPECT_EQ(wait.open->number, 0);
  EXPECT_EQ(wait.open->header.collective, Collective::kAllReduce);
  EXPECT_EQ(wait.open->called_at, 5 * kMillisecond);
  EXPECT_EQ(Calls(), (Counts{0, 1}));
  EXPECT_EQ(Owes(), 0u) << "it has not called";
}

TEST_P(WaitTest, NamesWhoseDataAreMissing) {
  InstallMode(true);
  now = 5 * kMillisecond;
  Call(0, Collective::kAllReduce, 64);
  now = 6 * kMillisecond;
  Call(1, Collective::kAllReduce, 64);
  EXPECT_EQ(Calls(), (Counts{1, 1}));
  EXPECT_EQ(Owes(), 3u);
  ASSERT_TRUE(Wait().open);
  EXPECT_EQ(Wait().open->number, 0);
  EXPECT_EQ(Wait().open->called_at, 5 * kMillisecond);
  Data(0, 0, 1, Opcode::kRcSendOnly);
  EXPECT_EQ(Owes(), 2u);
  Data(1, 0, 1, Opcode::kRcSendOnly);
  EXPECT_FALSE(Wait().open);
  EXPECT_EQ(Owes(), 0u);
  EXPECT_EQ(NotTaken(), 3u) << "the results have gone down";
  Ack(0, roce::kSyndromeAck, 1);
  EXPECT_EQ(NotTaken(), 2u);
  Ack(1, roce::kSyndromeAck, 1);
  EXPECT_EQ(NotTaken(), 0u);
}

// Nobody else sends any.
TEST_P(WaitTest, OfABroadcastOnlyTheRootOwes) {
  InstallMode(true);
  Call(0, Collective::kBroadcast, 64);
  Call(1, Collective::kBroadcast, 64);
  EXPECT_EQ(Owes(), 1u);
  EXPECT_EQ(Calls(), (Counts{1, 1}));
}

TEST_P(WaitTest, OfABarrierNothingIsOwed) {
  InstallMode(true);
  Call(0, Collective::kBarrier, 0);
  EXPECT_EQ(Calls(), (Counts{1, 0}));
  Call(1, Collective::kBarrier, 0);
  EXPECT_EQ(Owes(), 0u);
  EXPECT_FALSE(Wait().open);
  Ack(0, roce::kSyndromeAck, 0);
  Ack(1, roce::kSyndromeAck, 0);
  Call(0, Collective::kBarrier, 0, 1, 1);
  EXPECT_EQ(Calls(), (Counts{2, 1}));
  ASSERT_TRUE(Wait().open);
  EXPECT_EQ(Wait().open->number, 1);
}

// All below have called and sent: others are in the way.
TEST_P(WaitTest, BelowAParentItsOwnChildrenOweNothing) {
  InstallMode(false);
  for (const uint32_t child : {0u, 1u}) {
    Call(child, Collective::kAllReduce, 64);
    Data(child, 0, 1, Opcode::kRcSendOnly);
  }
  EXPECT_EQ(Calls(), (Counts{1, 1}));
  EXPECT_EQ(Owes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Modes, WaitTest, ::testing::ValuesIn(ModesOfOwnMemory()),
                         [](const auto& of) { return std::string(FindMode(of.param)->numeral); });

}  // namespace
}  // namespace epic::engine
