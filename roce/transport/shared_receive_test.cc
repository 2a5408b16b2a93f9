// Queue pairs that take their receives from a shared receive queue (InfiniBand specification 10.2.9).
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "roce/transport/transport_testing.h"
#include "roce/transport/ud.h"

namespace epic::roce::testing {
namespace {

class SharedMemory final : public Memory {
 public:
  std::optional<std::span<uint8_t>> Map(Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override {
    return flat.Map(access, key, address, length);
  }
  std::optional<RecvWr> TakeSharedReceive() override {
    if (queue.empty()) return std::nullopt;
    const RecvWr wr = queue.front();
    queue.pop_front();
    return wr;
  }
  FlatMemory flat;
  std::deque<RecvWr> queue;
};

class SharedReceiveTest : public ::testing::Test {
 protected:
  SharedReceiveTest() {
    memory_.flat.Add(1, 0, 4096);
    EPIC_CHECK(qp_.Modify({.state = QpState::kReset}) == ModifyResult::kOk);
    EPIC_CHECK(qp_.Modify({.state = QpState::kInit}) == ModifyResult::kOk);
    EPIC_CHECK(qp_.Modify({.state = QpState::kRtr,
                           .remote_ip = kRemoteIp,
                           .remote_qpn = kRemoteQpn,
                           .path_mtu = 256,
                           .rq_psn = Psn(500),
                           .max_dest_rd_atomic = 1,
                           .min_rnr_timer = 12}) == ModifyResult::kOk);
  }

  void Post(uint64_t id) { memory_.queue.push_back({id, OneSge(id * 512, 512, 1)}); }

  // What the queue pair answers.
  uint8_t Arrive(Opcode opcode, uint32_t psn, size_t bytes) {
    const std::vector<uint8_t> payload(bytes, static_cast<uint8_t>(psn));
    qp_.OnPacket(0,
                 {.src_ip = kRemoteIp,
                  .dst_ip = kLocalIp,
                  .bth = {.opcode = opcode, .dest_qp = kLocalQpn, .ack_req = true, .psn = Psn(psn)},
                  .payload = payload},
                 memory_);
    KeepingSink sink;
    qp_.Poll(0, memory_, sink);
    return sink.sent.empty() ? 0xff : sink.sent.back().head.aeth.syndrome;
  }

  SharedMemory memory_;
  QueuePair qp_{{.local_ip = kLocalIp,
                 .local_qpn = kLocalQpn,
                 .shared_receives = true,
                 .policy = {.give_credits = true}}};
};

TEST_F(SharedReceiveTest, TakesOneForEachMessage) {
  Post(1);
  Post(2);
  EXPECT_EQ(Arrive(Opcode::kRcSendFirst, 500, 256), kSyndromeAck) << "no credits are given";
  EXPECT_EQ(memory_.queue.size(), 1u);
  EXPECT_EQ(Arrive(Opcode::kRcSendLast, 501, 100), kSyndromeAck);
  EXPECT_EQ(memory_.queue.size(), 1u) << "the second packet is of the same message";
  EXPECT_EQ(Arrive(Opcode::kRcSendLast, 501, 100), kSyndromeAck);
  EXPECT_EQ(memory_.queue.size(), 1u) << "a repetition needs none";
  Completion c;
  ASSERT_TRUE(qp_.NextCompletion(&c));
  EXPECT_EQ(c.wr_id, 1u);
  EXPECT_EQ(c.bytes, 356u);
  EXPECT_FALSE(qp_.NextCompletion(&c));
}

TEST_F(SharedReceiveTest, AnEmptyQueueIsReceiverNotReady) {
  EXPECT_TRUE(IsRnrNak(Arrive(Opcode::kRcSendOnly, 500, 10)));
  Post(3);
  EXPECT_EQ(Arrive(Opcode::kRcSendOnly, 500, 10), kSyndromeAck);
  EXPECT_EQ(Arrive(Opcode::kRcWriteOnly, 501, 0), kSyndromeNakInvalidRequest)
      << "writes are not allowed here";
}

TEST_F(SharedReceiveTest, ErrorsLeaveTheSharedQueueAlone) {
  Post(1);
  Post(2);
  EXPECT_EQ(qp_.PostRecv({}), PostResult::kInvalid);
  EXPECT_EQ(Arrive(Opcode::kRcSendFirst, 500, 256), kSyndromeAck);
  EXPECT_EQ(Arrive(Opcode::kRcSendOnly, 501, 1), kSyndromeNakInvalidRequest) << "a message within a message";
  EXPECT_EQ(qp_.state(), QpState::kErr);
  EXPECT_EQ(qp_.refused_with(), kSyndromeNakInvalidRequest);
  Completion c;
  ASSERT_TRUE(qp_.NextCompletion(&c));
  EXPECT_EQ(c.wr_id, 1u) << "the one that was begun";
  EXPECT_EQ(c.status, WcStatus::kRemInvReqErr);
  EXPECT_FALSE(qp_.NextCompletion(&c));
  EXPECT_EQ(memory_.queue.size(), 1u);
}

TEST_F(SharedReceiveTest, DatagramsTakeOneEach) {
  constexpr uint32_t kSharedQkey = 5;
  UdQueuePair ud({.local_ip = kLocalIp, .local_qpn = kLocalQpn, .shared_receives = true});
  EXPECT_EQ(ud.Modify(QpState::kInit, kSharedQkey), ModifyResult::kOk);
  EXPECT_EQ(ud.Modify(QpState::kRtr), ModifyResult::kOk);
  const auto arrive = [&](uint32_t qkey, size_t bytes) {
    const std::vector<uint8_t> payload(bytes);
    Packet packet{.src_ip = kRemoteIp, .dst_ip = kLocalIp, .payload = payload};
    packet.bth = {.opcode = Opcode::kUdSendOnly, .dest_qp = kLocalQpn};
    packet.deth = {.qkey = qkey, .src_qp = kRemoteQpn};
    ud.OnPacket(packet, memory_);
  };
  EXPECT_EQ(ud.PostRecv({}), PostResult::kInvalid) << "it has no receives of its own";
  arrive(kSharedQkey, 10);
  EXPECT_EQ(ud.counters().no_recv, 1u);
  for (uint64_t id = 1; id <= 3; ++id) Post(id);
  arrive(kSharedQkey + 1, 10);
  EXPECT_EQ(memory_.queue.size(), 3u) << "what is dropped takes none";
  arrive(kSharedQkey, 10);
  Completion c;
  ASSERT_TRUE(ud.NextCompletion(&c));
  EXPECT_EQ(c.wr_id, 1u);
  EXPECT_EQ(c.bytes, kGrhBytes + 10);
  arrive(kSharedQkey, 512);
  EXPECT_EQ(ud.counters().too_long, 1u);
  EXPECT_EQ(memory_.queue.size(), 1u);
  arrive(kSharedQkey, 10);
  ASSERT_TRUE(ud.NextCompletion(&c));
  EXPECT_EQ(c.wr_id, 2u) << "it has stayed";
  arrive(kSharedQkey, 512);
  EXPECT_EQ(ud.Modify(QpState::kErr), ModifyResult::kOk);
  ASSERT_TRUE(ud.NextCompletion(&c));
  EXPECT_EQ(c.wr_id, 3u);
  EXPECT_EQ(c.status, WcStatus::kWrFlushErr);
}

}  // namespace
}  // namespace epic::roce::testing
