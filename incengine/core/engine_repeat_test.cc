// What a host that repeats packets is told, and when: the rules that keep a real requester in step
// (docs/PROTOCOL.md, section 5.5).
#include <gtest/gtest.h>

#include "incengine/core/engine_testing.h"
#include "incengine/modules/admit.h"
#include "incengine/modules/buffer.h"

namespace epic::engine {
namespace {

using roce::Opcode;

Opcode OfMessageOfTwo(int at) { return at % 2 == 0 ? Opcode::kRcSendFirst : Opcode::kRcSendLast; }

class RepeatTest : public EngineTest {
 protected:
  // Host 0 has sent its control packet and four packets of data; host 1 has not called.
  void SetUp() override {
    Install(true);
    Control(0, 64 * 4);
    for (int at = 0; at < 4; ++at) Data(0, at, 1, OfMessageOfTwo(at));
  }
  bool SentRnrTo(uint32_t child) const {
    for (const Sent& s : sent) {
      if (s.port == child && s.packet.bth.opcode == Opcode::kRcAck && roce::IsRnrNak(s.packet.aeth.syndrome))
        return true;
    }
    return false;
  }
  size_t NaksTo(uint32_t child, uint8_t syndrome) const {
    size_t n = 0;
    for (const Sent& s : sent)
      n += s.port == child && s.packet.bth.opcode == Opcode::kRcAck && s.packet.aeth.syndrome == syndrome;
    return n;
  }
};

// Fails with an answer to every duplicate, as it was until a real guest's stream came out of step.
TEST_F(RepeatTest, IsToldToWaitOnlyWhenItHasRepeatedAll) {
  Control(0, 64 * 4);
  EXPECT_FALSE(SentRnrTo(0));
  for (int at = 0; at < 3; ++at) {
    Data(0, at, 1, OfMessageOfTwo(at));
    EXPECT_FALSE(SentRnrTo(0)) << at;
  }
  Data(0, 3, 1, Opcode::kRcSendLast);
  EXPECT_TRUE(SentRnrTo(0));
}

// Fails if prompts are always RNR NAKs.
TEST_F(RepeatTest, IsPromptedBySequenceNakWhileItRepeats) {
  Control(1, 64 * 4);
  Data(1, 0, 1, Opcode::kRcSendFirst);
  Control(1, 64 * 4);  // begins to repeat, and the rest is lost
  EXPECT_TRUE(context().children[1].repair.repeating);
  Fire();
  EXPECT_FALSE(SentRnrTo(1));
  EXPECT_EQ(NaksTo(1, roce::kSyndromeNakSequence), 1u);
  while (now < context().children[1].repair.heard_at + 16 * kMillisecond) Fire();
  EXPECT_TRUE(SentRnrTo(1)) << "it is not taken to repeat for ever";
}

TEST_F(RepeatTest, AHostThatHasRepeatedAllIsPromptedByRnrNak) {
  Control(1, 64 * 4);
  Data(1, 0, 1, Opcode::kRcSendFirst);
  Control(1, 64 * 4);
  Data(1, 0, 1, Opcode::kRcSendFirst);
  EXPECT_FALSE(context().children[1].repair.repeating);
  Fire();
  EXPECT_TRUE(SentRnrTo(1));
}

// Fails if such a packet is only dropped: its sender then repeats a shifted stream, whose packets fit again.
TEST_F(RepeatTest, WhatItsPositionDoesNotAllowEndsTheQueuePair) {
  Control(1, 64 * 4);
  Data(1, 0, 1, Opcode::kRcSendOnly);
  EXPECT_EQ(drops, std::vector{DropReason::kUnexpectedOpcode});
  EXPECT_EQ(NaksTo(1, roce::kSyndromeNakInvalidRequest), 1u);
  Deliver(From(1, Psn(kInPsn) + 1, Opcode::kRcSendFirst));
  EXPECT_EQ(drops, std::vector{DropReason::kBadLength});
  EXPECT_EQ(NaksTo(1, roce::kSyndromeNakInvalidRequest), 1u);
}

TEST_F(RepeatTest, AfterAMismatchPositionsMayDiffer) {
  Control(1, 64);  // another count
  ASSERT_EQ(context().state, GroupState::kFailed);
  Deliver(From(1, Psn(kInPsn) + 1, Opcode::kRcSendOnly));
  EXPECT_EQ(NaksTo(1, roce::kSyndromeNakInvalidRequest), 0u);
}

// The order in which indices are taken keeps one from being handed to AdmitData at all.
TEST_F(RepeatTest, AnOldPacketNeverEntersASlotThatANewerIndexHolds) {
  engine.Remove(7, 1);
  Install(true);  // eight slots: indices 1 and 9 share one
  for (const uint32_t child : {0u, 1u}) Control(child, 64 * 16);
  for (int at = 0; at < 8; ++at)
    for (const uint32_t child : {0u, 1u}) Data(child, at, 1, OfMessageOfTwo(at));
  Data(0, 8, 1, Opcode::kRcSendFirst);
  Context ctx = context();
  Arena arena = engine.arena();
  Env env{.now = now, .address = kOwn, .arena = arena, .effects = *this};
  const std::vector<uint8_t> payload(256);
  EXPECT_FALSE(AdmitData(ctx, 1, 1, From(1, Psn(kInPsn) + 1, Opcode::kRcSendFirst, payload), env));
  EXPECT_EQ(drops, std::vector{DropReason::kStaleSlot});
  EXPECT_EQ(SlotOf(ctx, 9, arena).index, 9);
  EXPECT_EQ(SlotOf(ctx, 9, arena).arrived, 1u);
}

}  // namespace
}  // namespace epic::engine
