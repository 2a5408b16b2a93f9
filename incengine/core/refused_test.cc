// Which endpoints the manager is told of since all that they send is refused (docs/PROTOCOL-CONTROL.md,
// section 7.4).
#include "incengine/core/refused.h"

#include <array>
#include <vector>

#include "incengine/core/engine_testing.h"

namespace epic::engine {
namespace {

using roce::Opcode;

class RefusedTest : public EngineTest {
 protected:
  RefusedTest() {
    now = kSecond;
    Encode({.collective = Collective::kBarrier}, bytes_);
  }
  roce::Packet Call() { return From(0, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes_); }
  // As a host that repeats does: so many times, a second apart.
  void Repeat(const roce::Packet& packet, PortId port, int times) {
    for (int i = 0; i < times; ++i) {
      DeliverBy(port, packet);
      now += kSecond;
    }
  }
  std::vector<RefusedEndpoint> Refused() const { return RefusedEndpoints(engine, now); }

 private:
  std::array<uint8_t, kControlBytes> bytes_;
};

TEST_F(RefusedTest, AHostThatRepeatsByAnotherPortIsTold) {
  Install(true);
  Repeat(Call(), 3, 2);
  EXPECT_TRUE(Refused().empty()) << "that may be chance";
  Repeat(Call(), 3, 1);
  const auto refused = Refused();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].group_id, 7u);
  EXPECT_EQ(refused[0].generation, 1u);
  EXPECT_EQ(refused[0].local_qpn, Qpn{0x100});
  EXPECT_EQ(refused[0].refusals.packets, 3u);
  EXPECT_EQ(refused[0].refusals.reason, DropReason::kWrongPort);
  EXPECT_EQ(refused[0].refusals.port, 3);
  EXPECT_EQ(refused[0].refusals.last_at - refused[0].refusals.first_at, 2 * kSecond);
}

TEST_F(RefusedTest, ManyAtOnceMayBeForged) {
  Install(true);
  for (int i = 0; i < 100; ++i) DeliverBy(3, Call());
  EXPECT_TRUE(Refused().empty());
}

TEST_F(RefusedTest, ARowIsOfOneReason) {
  Install(true);
  Repeat(Call(), 3, 2);
  roce::Packet other = Call();
  other.bth.pkey = 0x1234;
  Repeat(other, 0, 2);
  EXPECT_TRUE(Refused().empty()) << "two of each";
  Repeat(other, 0, 1);
  ASSERT_EQ(Refused().size(), 1u);
  EXPECT_EQ(Refused()[0].refusals.reason, DropReason::kBadPkey);
  EXPECT_EQ(Refused()[0].refusals.packets, 3u);
}

TEST_F(RefusedTest, WhatIsUsedEndsTheRow) {
  Install(true);
  Repeat(Call(), 3, 3);
  Deliver(Call());
  EXPECT_TRUE(Refused().empty());
  Repeat(Call(), 3, 2);
  EXPECT_TRUE(Refused().empty()) << "it is counted anew";
  Repeat(Call(), 0, 1);
  EXPECT_TRUE(Refused().empty()) << "a repetition of what has come, which passes";
  EXPECT_EQ(context().children[0].counters.refusals.packets, 0u);
}

TEST_F(RefusedTest, ItIsForgottenWhenNothingComesAnyMore) {
  Install(true);
  Repeat(Call(), 3, 3);
  now += kRefusedLately;
  EXPECT_TRUE(Refused().empty());
}

TEST_F(RefusedTest, AStrangerCountsAtTheEdgesPortOnly) {
  Install(true);
  roce::Packet other = Call();
  other.src_ip = Ipv4{0x0a000063};
  Repeat(other, 3, 5);
  EXPECT_TRUE(Refused().empty()) << "anybody may send that";
  Repeat(other, 0, 3);
  ASSERT_EQ(Refused().size(), 1u);
  EXPECT_EQ(Refused()[0].refusals.reason, DropReason::kStranger);
  EXPECT_EQ(Refused()[0].refusals.source, other.src_ip);
}

TEST_F(RefusedTest, AnotherPartitionIsToldInAllModes) {
  for (const Mode mode : ModesOfOwnMemory()) {
    engine = Engine(kOwn, 4, 1 << 20);
    GroupConfig config = Config(false);
    config.mode = mode;
    ASSERT_TRUE(engine.Install(config).ok());
    roce::Packet other = From(2, Psn(kInPsn), Opcode::kRcSendOnlyImm);
    other.bth.pkey = 0x8001;
    Repeat(other, 2, 3);
    ASSERT_EQ(Refused().size(), 1u) << "the parent's";
    EXPECT_EQ(Refused()[0].local_qpn, Qpn{0x102});
    EXPECT_EQ(Refused()[0].refusals.reason, DropReason::kBadPkey);
  }
}

// In mode I a message waits until it is its turn, and may then be found to be wrong: that says nothing of who
// sent the packet with which its turn has come.
TEST_F(RefusedTest, WhatAnotherOneHasSentIsNotToldOfThePacketsSender) {
  GroupConfig config = Config(true);
  config.mode = Mode::kTerminated;
  ASSERT_TRUE(engine.Install(config).ok());
  const std::array<uint8_t, kControlBytes> zeroes{};
  Deliver(From(1, Psn(kInPsn), Opcode::kRcSendOnlyImm, zeroes));
  EXPECT_TRUE(drops.empty());
  Deliver(Call());
  EXPECT_EQ(drops, std::vector{DropReason::kBadControl}) << "of child 1's message";
  EXPECT_EQ(context().children[0].counters.refusals.packets, 0u);
}

// What is not due yet, or has come already, comes right or is answered.
TEST_F(RefusedTest, WhatIsRepairedIsNot) {
  Install(true);
  roce::Packet ahead = Call();
  ahead.bth.psn = Psn(kInPsn) + 1;
  Control(0, 0);
  ahead.bth.psn = Psn(kInPsn) + 3;
  Repeat(ahead, 0, 9);
  EXPECT_EQ(drops, std::vector{DropReason::kGap});
  EXPECT_TRUE(Refused().empty());
}

TEST_F(RefusedTest, AGroupThatHasBeenStoppedIsNot) {
  Install(true);
  Repeat(Call(), 3, 3);
  engine.Fail(7, 1);
  EXPECT_TRUE(Refused().empty());
}

}  // namespace
}  // namespace epic::engine
