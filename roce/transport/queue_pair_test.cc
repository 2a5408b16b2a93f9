#include "roce/transport/queue_pair.h"

#include <gtest/gtest.h>

#include <vector>

#include "roce/rnr_timer.h"
#include "roce/transport/transport_testing.h"

namespace epic::roce::testing {
namespace {

QpChange Rtr() {
  return {.state = QpState::kRtr,
          .remote_ip = kRemoteIp,
          .remote_qpn = kRemoteQpn,
          .path_mtu = 1024,
          .rq_psn = Psn(1),
          .max_dest_rd_atomic = 1,
          .min_rnr_timer = 1};
}
QpChange Rts() {
  return {.state = QpState::kRts,
          .sq_psn = Psn(1),
          .timeout = 14,
          .retry_cnt = 7,
          .rnr_retry = 7,
          .max_rd_atomic = 1};
}

TEST(QueuePairTest, GoesThroughItsStates) {
  QueuePair qp({.local_ip = kLocalIp, .local_qpn = kLocalQpn});
  EXPECT_EQ(qp.PostRecv({}), PostResult::kBadState);
  EXPECT_EQ(qp.Modify(Rtr()), ModifyResult::kBadTransition);
  EXPECT_EQ(qp.Modify({.state = QpState::kInit}), ModifyResult::kOk);
  EXPECT_EQ(qp.PostRecv({}), PostResult::kOk);
  EXPECT_EQ(qp.PostSend({}), PostResult::kBadState);
  EXPECT_EQ(qp.Modify({.state = QpState::kRtr}), ModifyResult::kMissingAttribute);
  QpChange change = Rtr();
  change.path_mtu = 1000;
  EXPECT_EQ(qp.Modify(change), ModifyResult::kBadAttribute);
  change = Rtr();
  change.sq_psn = Psn(3);
  EXPECT_EQ(qp.Modify(change), ModifyResult::kAttributeNotNow);
  EXPECT_EQ(qp.state(), QpState::kInit);
  EXPECT_EQ(qp.Modify(Rtr()), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.state = QpState::kRts}), ModifyResult::kMissingAttribute);
  EXPECT_EQ(qp.Modify(Rts()), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.path_mtu = 512}), ModifyResult::kAttributeNotNow);
  EXPECT_EQ(qp.Modify({.min_rnr_timer = 5}), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.state = QpState::kSqd}), ModifyResult::kOk);
  EXPECT_TRUE(qp.sq_drained());
  EXPECT_EQ(qp.Modify({.state = QpState::kRts}), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.state = QpState::kErr}), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.state = QpState::kRts}), ModifyResult::kBadTransition);
  Completion c;
  ASSERT_TRUE(qp.NextCompletion(&c));
  EXPECT_EQ(c.status, WcStatus::kWrFlushErr);
  EXPECT_EQ(qp.Modify({.state = QpState::kReset}), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.state = QpState::kInit}), ModifyResult::kOk);
}

TEST(QueuePairTest, RefusesWhatCannotBePosted) {
  QueuePair qp = Connected({.rd_atomic = 0});
  SendWr wr;
  wr.sges.count = kMaxSge + 1;
  EXPECT_EQ(qp.PostSend(wr), PostResult::kInvalid);
  wr = {.opcode = WrOpcode::kRead};
  EXPECT_EQ(qp.PostSend(wr), PostResult::kInvalid) << "no Reads were agreed on";
  wr = {.opcode = WrOpcode::kBindMw};
  EXPECT_EQ(qp.PostSend(wr), PostResult::kInvalid) << "no window";
  wr = {};
  wr.sges = OneSge(0, (1u << 30) + 1, 1);
  EXPECT_EQ(qp.PostSend(wr), PostResult::kInvalid);
  const std::vector<uint8_t> much(65);
  wr = {};
  wr.inline_bytes = much;
  EXPECT_EQ(qp.PostSend(wr), PostResult::kInvalid);
  for (uint32_t i = 0; i < qp.config().send_depth; ++i) ASSERT_EQ(qp.PostSend({}), PostResult::kOk);
  EXPECT_EQ(qp.PostSend({}), PostResult::kFull);
}

// Completions that nobody takes keep their places, so that there is always room for them.
TEST(QueuePairTest, CompletionsAreBounded) {
  QueuePair qp = Connected({});
  ASSERT_EQ(qp.Modify({.state = QpState::kErr}), ModifyResult::kOk);
  uint32_t posted = 0;
  while (qp.PostSend({}) == PostResult::kOk) ++posted;
  EXPECT_EQ(posted, qp.config().send_depth + qp.config().recv_depth);
  EXPECT_EQ(qp.PostRecv({}), PostResult::kFull);
  Completion c;
  ASSERT_TRUE(qp.NextCompletion(&c));
  EXPECT_EQ(qp.PostRecv({}), PostResult::kOk);
}

// rdma_rxe: AckReq on every 66th packet and on the last; the count goes on through a repetition, so that the
// repeated packet has another bit.
TEST(QueuePairTest, AsksForAnAckEvery66Packets) {
  FlatMemory memory;
  memory.Add(1, 0, 100 * 256);
  QueuePair qp = Connected({.policy = RxeLike()});
  ASSERT_EQ(qp.PostSend({.sges = OneSge(0, 100 * 256, 1)}), PostResult::kOk);
  const auto asked = [&](Nanos now) {
    KeepingSink sink;
    qp.Poll(now, memory, sink);
    std::vector<uint32_t> psns;
    for (const OwnedPacket& p : sink.sent) {
      if (p.head.bth.ack_req) psns.push_back(p.head.bth.psn.raw());
    }
    return psns;
  };
  EXPECT_EQ(asked(0), (std::vector<uint32_t>{165, 199}));
  qp.OnPacket(1,
              {.src_ip = kRemoteIp,
               .dst_ip = kLocalIp,
               .bth = {.opcode = Opcode::kRcAck, .dest_qp = kLocalQpn, .psn = Psn(110)},
               .aeth = {.syndrome = kSyndromeNakSequence}},
              memory);
  EXPECT_EQ(asked(1), (std::vector<uint32_t>{175, 199}));
}

// A copy is a snapshot: both go on independently and alike.
TEST(QueuePairTest, CopyIsASnapshot) {
  FlatMemory memory;
  memory.Add(1, 0, 4096);
  QueuePair qp = Connected({.policy = {.max_outstanding = 1}});
  const std::vector<uint8_t> inline_bytes(60, 7);
  ASSERT_EQ(qp.PostSend({.wr_id = 1, .sges = OneSge(0, 300, 1)}), PostResult::kOk);
  ASSERT_EQ(qp.PostSend({.wr_id = 2, .inline_bytes = inline_bytes}), PostResult::kOk);
  KeepingSink before;
  qp.Poll(0, memory, before);
  ASSERT_EQ(before.sent.size(), 1u);
  QueuePair copy = qp;
  const auto finish = [&](QueuePair& one) {
    KeepingSink sink;
    for (uint32_t psn = 100; psn < 103; ++psn) {
      one.OnPacket(1,
                   {.src_ip = kRemoteIp,
                    .dst_ip = kLocalIp,
                    .bth = {.opcode = Opcode::kRcAck, .dest_qp = kLocalQpn, .psn = Psn(psn)},
                    .aeth = {.syndrome = kSyndromeAck}},
                   memory);
      one.Poll(1, memory, sink);
    }
    EXPECT_EQ(sink.sent.size(), 2u);
    EXPECT_EQ(sink.sent.back().payload, inline_bytes);
    std::vector<uint64_t> ids;
    for (Completion c; one.NextCompletion(&c);) ids.push_back(c.wr_id);
    EXPECT_EQ(ids, (std::vector<uint64_t>{1, 2}));
  };
  finish(copy);
  finish(qp);
}

TEST(QueuePairTest, BudgetLeavesTheRestForTheNextPoll) {
  FlatMemory memory;
  memory.Add(1, 0, 4096);
  QueuePair qp = Connected({});
  EXPECT_EQ(qp.next_deadline(), kNever);
  ASSERT_EQ(qp.PostSend({.sges = OneSge(0, 1024, 1)}), PostResult::kOk);
  EXPECT_EQ(qp.next_deadline(), 0);
  KeepingSink sink;
  qp.Poll(5, memory, sink, 3);
  EXPECT_EQ(sink.sent.size(), 3u);
  EXPECT_EQ(qp.next_deadline(), 0);
  qp.Poll(5, memory, sink, 3);
  EXPECT_EQ(sink.sent.size(), 4u);
  EXPECT_EQ(qp.next_deadline(), 5 + TimeoutNanos(14));
}

// A repeated Read that asks for responses which have gone out already is answered again; one that asks for
// what is still to come is not answered twice.
TEST(QueuePairTest, ReadRepeatedWhileItIsAnswered) {
  FlatMemory memory;
  memory.Add(7, 0x8000, 4096, /*remote=*/true);
  QueuePair qp = Connected({});
  const auto request = [&](uint32_t skip) {
    qp.OnPacket(0,
                {.src_ip = kRemoteIp,
                 .dst_ip = kLocalIp,
                 .bth = {.opcode = Opcode::kRcReadRequest, .dest_qp = kLocalQpn, .psn = Psn(500 + skip)},
                 .reth = {0x8000 + skip * 256, 7, 1024 - skip * 256}},
                memory);
  };
  KeepingSink sink;
  request(0);
  qp.Poll(0, memory, sink, 2);
  request(2);
  request(1);
  qp.Poll(0, memory, sink);
  std::vector<uint32_t> psns;
  for (const OwnedPacket& p : sink.sent) psns.push_back(p.head.bth.psn.raw());
  EXPECT_EQ(psns, (std::vector<uint32_t>{500, 501, 502, 503, 501, 502, 503}));
}

TEST(RnrTimerTest, TableOfTheSpecification) {
  EXPECT_EQ(RnrTimerNanos(0), 655'360 * kMicrosecond);
  EXPECT_EQ(RnrTimerNanos(1), 10 * kMicrosecond);
  EXPECT_EQ(RnrTimerNanos(12), 640 * kMicrosecond);
  EXPECT_EQ(RnrTimerNanos(31), 491'520 * kMicrosecond);
  EXPECT_EQ(TimeoutNanos(0), kNever);
  EXPECT_EQ(TimeoutNanos(18), 1'073'741'824);
}

TEST(MemoryTest, GatherAndScatterOverPieces) {
  FlatMemory memory;
  FlatMemory::Region& region = memory.Add(1, 0, 100);
  for (size_t i = 0; i < 100; ++i) region.bytes[i] = static_cast<uint8_t>(i);
  SgeList list;
  list.count = 3;
  list.sge[0] = {10, 5, 1};
  list.sge[1] = {50, 0, 99};  // empty: its key is not looked at
  list.sge[2] = {80, 10, 1};
  std::vector<uint8_t> scratch(16);
  std::span<const uint8_t> out;
  ASSERT_TRUE(Gather(list, 3, 4, memory, scratch, &out));
  EXPECT_EQ(std::vector<uint8_t>(out.begin(), out.end()), (std::vector<uint8_t>{13, 14, 80, 81}));
  ASSERT_TRUE(Gather(list, 6, 4, memory, scratch, &out));
  EXPECT_EQ(out.data(), &region.bytes[81]) << "one piece is viewed, not copied";
  EXPECT_FALSE(Gather(list, 12, 4, memory, scratch, &out)) << "the list ends";
  const std::vector<uint8_t> data = {201, 202, 203};
  ASSERT_TRUE(Scatter(list, 4, data, memory));
  EXPECT_EQ(region.bytes[14], 201);
  EXPECT_EQ(region.bytes[80], 202);
  EXPECT_EQ(region.bytes[81], 203);
  list.sge[2].lkey = 2;
  EXPECT_FALSE(Scatter(list, 4, data, memory));
}

// PSNs of the acknowledgements that the queue pair sends now.
std::vector<Psn> AcksAt(Nanos now, QueuePair& qp, FlatMemory& memory) {
  KeepingSink sink;
  qp.Poll(now, memory, sink);
  std::vector<Psn> acks;
  for (const OwnedPacket& packet : sink.sent) acks.push_back(packet.head.bth.psn);
  return acks;
}

TEST(QueuePairTest, MessagesMayShareAnAcknowledgement) {
  QueuePair qp({.local_ip = kLocalIp, .local_qpn = kLocalQpn});
  FlatMemory memory;
  EXPECT_EQ(qp.Modify({.state = QpState::kInit}), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify(Rtr()), ModifyResult::kOk);
  uint32_t psn = 1;
  const auto come = [&](Nanos now) {
    EXPECT_EQ(qp.PostRecv({}), PostResult::kOk);
    Packet packet;
    packet.src_ip = kRemoteIp;
    packet.dst_ip = kLocalIp;
    packet.bth = {.opcode = Opcode::kRcSendOnly, .dest_qp = kLocalQpn, .ack_req = true, .psn = Psn(psn++)};
    qp.OnPacket(now, packet, memory);
  };
  qp.ShareAcks(3, 100);
  come(0);
  come(50);
  EXPECT_TRUE(AcksAt(50, qp, memory).empty());
  come(60);
  EXPECT_EQ(AcksAt(60, qp, memory), std::vector{Psn(3)}) << "one for three";
  come(200);
  EXPECT_EQ(qp.next_deadline(), 300);
  EXPECT_TRUE(AcksAt(299, qp, memory).empty());
  EXPECT_EQ(AcksAt(300, qp, memory), std::vector{Psn(4)}) << "no longer than that";
  come(400);
  qp.ShareAcks(1, 0);
  EXPECT_EQ(AcksAt(400, qp, memory), std::vector{Psn(5)}) << "what has waited";
  come(500);
  EXPECT_EQ(AcksAt(500, qp, memory), std::vector{Psn(6)});
}

// A request without an answer, whose time-outs are looked at by somebody who may be late.
class UnansweredTest : public ::testing::Test {
 protected:
  static constexpr Nanos kTimeout = 67'108'864;  // as code 14 says

  UnansweredTest() {
    EXPECT_EQ(qp_.PostSend({.wr_id = 4}), PostResult::kOk);
    qp_.Poll(0, memory_, sink_);
  }
  // Looks so long after the next time-out, of whose time he has waited for a processor for `waited`. False
  // when the request has failed.
  bool Look(Nanos late, Nanos waited = 0) {
    if (qp_.state() != QpState::kRts) return false;
    now_ = qp_.next_deadline() + late;
    qp_.NoteWaited(waited_ += waited);
    qp_.Poll(now_, memory_, sink_);
    return qp_.state() == QpState::kRts;
  }

  QueuePair qp_ = Connected({.timeout = 14, .retry_cnt = 3});
  FlatMemory memory_;
  KeepingSink sink_;
  Nanos now_ = 0;
  Nanos waited_ = 0;
};

TEST_F(UnansweredTest, FailsWhenItsRetriesAreUsedUp) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Look(0, kTimeout / 2)) << i;
  EXPECT_FALSE(Look(0, kTimeout / 2));
  EXPECT_EQ(now_, 4 * kTimeout);
  Completion c;
  ASSERT_TRUE(qp_.NextCompletion(&c));
  EXPECT_EQ(c.status, WcStatus::kRetryExcErr);
}

TEST_F(UnansweredTest, ATimeOutThatIsSeenLateUsesUpNoRetryAndRepeatsAllTheSame) {
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Look(kTimeout + 2)) << i;
  EXPECT_EQ(sink_.sent.size(), 11u);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Look(kTimeout - 2)) << i;
  EXPECT_FALSE(Look(0));
}

TEST_F(UnansweredTest, NorDoesOneMostOfWhichWhoLooksHasWaitedForAProcessor) {
  EXPECT_TRUE(Look(0, kTimeout)) << "how much of it was before the request is not known: it counts";
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Look(0, kTimeout * 2 / 3)) << i;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Look(0)) << i;
  EXPECT_FALSE(Look(0));
}

TEST_F(UnansweredTest, ButNotForEver) {
  int looks = 1;
  while (Look(kTimeout * 2)) ++looks;
  EXPECT_EQ(looks, 30 * kSecond / kTimeout + 4);
}

TEST_F(UnansweredTest, AnAnswerBeginsThatAnew) {
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(Look(kTimeout * 2)) << i;
  Packet nak;
  nak.src_ip = kRemoteIp;
  nak.dst_ip = kLocalIp;
  nak.bth = {.opcode = Opcode::kRcAck, .dest_qp = kLocalQpn, .psn = Psn(100)};
  nak.aeth = {.syndrome = kSyndromeRnrNak, .msn = 0};
  qp_.OnPacket(now_, nak, memory_);
  EXPECT_EQ(qp_.counters().rnr_naks_received, 1u);
  while (qp_.next_deadline() < now_ + kTimeout / 2) qp_.Poll(now_ = qp_.next_deadline(), memory_, sink_);
  for (int i = 0; i < 400; ++i) EXPECT_TRUE(Look(kTimeout * 2)) << i;
}

TEST(QueuePairTest, RetriesMayChangeInSqd) {
  QueuePair qp = Connected({.timeout = 14, .retry_cnt = 3});
  QpChange change{.max_dest_rd_atomic = 1, .timeout = 10, .retry_cnt = 1, .rnr_retry = 2, .max_rd_atomic = 2};
  EXPECT_EQ(qp.Modify(change), ModifyResult::kAttributeNotNow) << "in RTS";
  ASSERT_EQ(qp.Modify({.state = QpState::kSqd}), ModifyResult::kOk);
  change.retry_cnt = 8;
  EXPECT_EQ(qp.Modify(change), ModifyResult::kBadAttribute);
  change.retry_cnt = 1;
  ASSERT_EQ(qp.Modify(change), ModifyResult::kOk);
  EXPECT_EQ(qp.attributes().max_rd_atomic, 2);
  EXPECT_EQ(qp.attributes().max_dest_rd_atomic, 1);
  ASSERT_EQ(qp.Modify({.state = QpState::kRts}), ModifyResult::kOk);
  ASSERT_EQ(qp.PostSend({.wr_id = 4}), PostResult::kOk);
  FlatMemory memory;
  KeepingSink sink;
  Nanos now = 0;
  qp.Poll(now, memory, sink);
  EXPECT_EQ(qp.next_deadline(), 4096 * 1024) << "as timeout 10 says";
  while (qp.state() == QpState::kRts) qp.Poll(now = qp.next_deadline(), memory, sink);
  EXPECT_EQ(sink.sent.size(), 2u) << "with one repetition";
  Completion c;
  ASSERT_TRUE(qp.NextCompletion(&c));
  EXPECT_EQ(c.status, WcStatus::kRetryExcErr);
}

}  // namespace
}  // namespace epic::roce::testing
