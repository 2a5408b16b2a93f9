#include "roce/transport/uc.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "roce/transport/transport_testing.h"

namespace epic::roce::testing {
namespace {

constexpr uint32_t kMtu = 256;
constexpr uint32_t kLkey = 1, kRkey = 7;
constexpr uint64_t kRemote = 0x8000;  // where the peer may write 4096 bytes

UcQueuePair Ready(bool mirrored = false, const UcConfig& config = {}) {
  UcConfig own = config;
  own.local_ip = mirrored ? kRemoteIp : kLocalIp;
  own.local_qpn = mirrored ? kRemoteQpn : kLocalQpn;
  UcQueuePair qp(own);
  EXPECT_EQ(qp.Modify({.state = QpState::kInit, .remote_write = true}), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.state = QpState::kRtr,
                       .remote_ip = mirrored ? kLocalIp : kRemoteIp,
                       .remote_qpn = mirrored ? kLocalQpn : kRemoteQpn,
                       .path_mtu = kMtu,
                       .rq_psn = Psn(0xfffffe)}),
            ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.state = QpState::kRts, .sq_psn = Psn(0xfffffe)}), ModifyResult::kOk);
  return qp;
}

class UcTest : public ::testing::Test {
 protected:
  UcTest() {
    auto& bytes = memory_.Add(kLkey, 0, 0x8000).bytes;
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + (i >> 8));
    memory_.Add(kRkey, kRemote, 4096, /*remote=*/true);
  }

  std::span<const uint8_t> bytes(size_t at, size_t count) {
    return std::span(memory_.region(kLkey).bytes).subspan(at, count);
  }
  bool Arrived(uint32_t bytes_sent, size_t at) {
    return std::ranges::equal(bytes(0, bytes_sent), bytes(at, bytes_sent));
  }

  // The packets of one request; its completion is checked.
  std::vector<OwnedPacket> PacketsOf(WrOpcode opcode, uint32_t bytes, uint32_t imm = 0) {
    SendWr wr{.wr_id = 5, .opcode = opcode, .sges = OneSge(0, bytes, kLkey), .imm = imm};
    wr.remote_address = kRemote;
    wr.rkey = kRkey;
    EXPECT_EQ(from_.PostSend(wr), PostResult::kOk);
    KeepingSink sink;
    from_.Poll(memory_, sink);
    Completion c;
    EXPECT_TRUE(from_.NextCompletion(&c) && c.ok() && c.bytes == bytes && c.opcode == DoneAs(opcode));
    return {sink.sent.begin(), sink.sent.end()};
  }
  void Receive(uint64_t id, uint64_t at, uint32_t bytes) {
    ASSERT_EQ(to_.PostRecv({.wr_id = id, .sges = OneSge(at, bytes, kLkey)}), PostResult::kOk);
  }
  // Hands over packets, but for those named; what they complete. Nothing is ever answered.
  std::vector<Completion> Take(const std::vector<OwnedPacket>& packets, std::vector<size_t> lost = {}) {
    for (size_t i = 0; i < packets.size(); ++i) {
      if (std::ranges::find(lost, i) == lost.end()) to_.OnPacket(packets[i].packet(), memory_);
    }
    KeepingSink sink;
    to_.Poll(memory_, sink);
    EXPECT_TRUE(sink.sent.empty());
    std::vector<Completion> out;
    for (Completion c; to_.NextCompletion(&c);) out.push_back(c);
    return out;
  }

  FlatMemory memory_;
  UcQueuePair from_ = Ready();
  UcQueuePair to_ = Ready(true);
};

TEST_F(UcTest, ASendIsCutAndCompletesWhenItsLastPacketHasGone) {
  SendWr wr{.wr_id = 5, .solicited = true, .sges = OneSge(0, 600, kLkey)};
  ASSERT_EQ(from_.PostSend(wr), PostResult::kOk);
  KeepingSink sink;
  from_.Poll(memory_, sink, 2);
  Completion c;
  EXPECT_FALSE(from_.NextCompletion(&c));
  EXPECT_TRUE(from_.wants_poll());
  from_.Poll(memory_, sink);
  EXPECT_TRUE(from_.NextCompletion(&c) && c.ok());
  EXPECT_FALSE(from_.wants_poll());
  ASSERT_EQ(sink.sent.size(), 3u);
  const Opcode opcodes[] = {Opcode::kUcSendFirst, Opcode::kUcSendMiddle, Opcode::kUcSendLast};
  for (uint32_t i = 0; i < 3; ++i) {
    const Bth& bth = sink.sent[i].head.bth;
    EXPECT_EQ(bth.opcode, opcodes[i]);
    EXPECT_EQ(bth.psn, Psn(0xfffffe) + i) << "over the wrap";
    EXPECT_FALSE(bth.ack_req) << "there is nobody to acknowledge";
    EXPECT_EQ(bth.solicited, i == 2);
  }
  Receive(9, 4096, 600);
  const auto done = Take({sink.sent.begin(), sink.sent.end()});
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].ok() && done[0].is_recv() && done[0].solicited && !done[0].has_imm);
  EXPECT_EQ(done[0].wr_id, 9u);
  EXPECT_EQ(done[0].bytes, 600u);
  EXPECT_TRUE(Arrived(600, 4096));
}

TEST_F(UcTest, ImmediateDataComesWithTheLastPacket) {
  for (const auto& [opcode, bytes] : {std::pair(WrOpcode::kSendImm, 300u),
                                      {WrOpcode::kSendImm, 0u},
                                      {WrOpcode::kWriteImm, 300u},
                                      {WrOpcode::kWriteImm, 0u}}) {
    Receive(9, 4096, 300);
    const auto packets = PacketsOf(opcode, bytes, 77);
    EXPECT_EQ(packets.size(), bytes == 0 ? 1u : 2u);
    EXPECT_TRUE(Info(packets.back().head.bth.opcode).imm);
    const auto done = Take(packets);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_TRUE(done[0].ok() && done[0].has_imm && done[0].imm == 77 && done[0].bytes == bytes);
    EXPECT_EQ(done[0].opcode, opcode == WrOpcode::kSendImm ? WcOpcode::kRecv : WcOpcode::kRecvWriteImm);
  }
}

TEST_F(UcTest, AWriteIsThereWithoutACompletion) {
  EXPECT_TRUE(Take(PacketsOf(WrOpcode::kWrite, 1000)).empty());
  EXPECT_TRUE(std::ranges::equal(bytes(0, 1000), std::span(memory_.region(kRkey).bytes).first(1000)));
  EXPECT_EQ(to_.counters().cut_short + to_.counters().refused, 0u);
}

TEST_F(UcTest, AMessageWithAGapIsAsIfItHadNeverCome) {
  Receive(1, 4096, 1024);
  for (const std::vector<size_t>& lost : std::vector<std::vector<size_t>>{{0}, {1}, {2}, {3}, {0, 1, 2}}) {
    EXPECT_TRUE(Take(PacketsOf(WrOpcode::kSend, 1000), lost).empty());
  }
  // The same receive serves the first that comes whole.
  const auto done = Take(PacketsOf(WrOpcode::kSend, 700));
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].ok());
  EXPECT_EQ(done[0].wr_id, 1u);
  EXPECT_EQ(done[0].bytes, 700u);
  EXPECT_TRUE(Arrived(700, 4096));
  EXPECT_EQ(to_.counters().cut_short, 3u) << "of those that had begun to come: 1, 2 and 3";
}

TEST_F(UcTest, AMessageMayBeginAnywhereAndEndsTheOneInHand) {
  Receive(1, 4096, 1024);
  const auto first = PacketsOf(WrOpcode::kSend, 600), second = PacketsOf(WrOpcode::kSend, 600);
  // The beginning of one, of a second, and the rest of the first.
  EXPECT_TRUE(Take({first[0], second[0], first[1], first[2], second[1], second[2]}).empty());
  EXPECT_EQ(to_.counters().cut_short, 2u);
  EXPECT_EQ(to_.counters().out_of_sequence, 4u);
  // A repeated packet is a gap, too; a repeated message is one more message.
  EXPECT_TRUE(Take({first[0], first[0], first[1], first[1], first[2]}).empty());
  EXPECT_EQ(Take(second).size(), 1u);
  // A Write's continuation does not continue a Send.
  Receive(2, 4096, 1024);
  auto mixed = PacketsOf(WrOpcode::kSend, 600);
  mixed[1].head.bth.opcode = Opcode::kUcWriteMiddle;
  EXPECT_TRUE(Take(mixed).empty());
}

TEST_F(UcTest, ASendWithoutAReceiveIsDroppedWhole) {
  const auto packets = PacketsOf(WrOpcode::kSend, 600);
  to_.OnPacket(packets[0].packet(), memory_);
  Receive(1, 4096, 1024);
  EXPECT_TRUE(Take(packets, {0}).empty());
  EXPECT_EQ(to_.counters().no_recv, 1u);
  EXPECT_EQ(to_.counters().out_of_sequence, 2u);
  EXPECT_EQ(Take(packets).size(), 1u);
  // Of a Write with immediate data the data is there.
  EXPECT_TRUE(Take(PacketsOf(WrOpcode::kWriteImm, 600)).empty());
  EXPECT_EQ(to_.counters().no_recv, 2u);
  EXPECT_EQ(to_.counters().cut_short, 1u);
}

TEST_F(UcTest, WhatDoesNotFitIsDroppedAndHurtsNobody) {
  Receive(1, 4096, 599);
  EXPECT_TRUE(Take(PacketsOf(WrOpcode::kSend, 600)).empty());
  EXPECT_EQ(to_.counters().refused, 1u);
  auto packets = PacketsOf(WrOpcode::kWrite, 300);
  packets[0].head.reth.rkey = kRkey + 1;
  EXPECT_TRUE(Take(packets).empty());
  packets[0].head.reth = {kRemote + 4000, kRkey, 300};
  EXPECT_TRUE(Take(packets).empty());
  packets[0].head.reth = {kRemote, kRkey, 301};
  EXPECT_TRUE(Take(packets).empty());
  EXPECT_EQ(to_.counters().refused, 4u);
  packets[0].head.reth.dma_length = 144;
  packets[0].payload.resize(100);  // not full, though the sum is right
  EXPECT_TRUE(Take(packets).empty());
  EXPECT_EQ(to_.counters().refused, 5u);
  ASSERT_EQ(to_.Modify({.remote_write = false}), ModifyResult::kOk);
  EXPECT_TRUE(Take(PacketsOf(WrOpcode::kWrite, 300)).empty());
  EXPECT_EQ(to_.counters().refused, 6u);
  EXPECT_EQ(to_.state(), QpState::kRts);
  EXPECT_EQ(Take(PacketsOf(WrOpcode::kSend, 599)).size(), 1u);
}

TEST_F(UcTest, ARegionThatGoesAwayEndsTheWrite) {
  const auto packets = PacketsOf(WrOpcode::kWrite, 600);
  to_.OnPacket(packets[0].packet(), memory_);
  memory_.Remove(kRkey);
  Take(packets, {0});
  EXPECT_EQ(to_.counters().refused, 1u);
  EXPECT_EQ(to_.counters().out_of_sequence, 1u);
}

TEST_F(UcTest, OwnMemoryThatCannotBeUsedIsAnError) {
  ASSERT_EQ(to_.PostRecv({.wr_id = 1, .sges = OneSge(0, 600, 99)}), PostResult::kOk);
  Receive(2, 4096, 600);
  const auto done = Take(PacketsOf(WrOpcode::kSend, 600));
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].wr_id, 1u);
  EXPECT_EQ(done[0].status, WcStatus::kLocProtErr);
  EXPECT_EQ(done[1].status, WcStatus::kWrFlushErr);
  EXPECT_EQ(to_.state(), QpState::kErr);
  EXPECT_EQ(to_.PostSend({.wr_id = 3}), PostResult::kOk) << "and is flushed";
  EXPECT_TRUE(to_.PostRecv({.wr_id = 4}) == PostResult::kOk && Take({}).size() == 2);
}

TEST_F(UcTest, ASendErrorLeadsToSqeAndBack) {
  SgeList list = OneSge(0, 300, kLkey);
  list.sge[list.count++] = {0, 300, 99};
  ASSERT_EQ(from_.PostSend({.wr_id = 1, .signaled = false, .sges = list}), PostResult::kOk);
  ASSERT_EQ(from_.PostSend({.wr_id = 2, .sges = OneSge(0, 10, kLkey)}), PostResult::kOk);
  KeepingSink sink;
  from_.Poll(memory_, sink);
  EXPECT_EQ(sink.sent.size(), 1u) << "the second packet cannot be made";
  Completion c;
  ASSERT_TRUE(from_.NextCompletion(&c));
  EXPECT_EQ(c.status, WcStatus::kLocProtErr);
  ASSERT_TRUE(from_.NextCompletion(&c));
  EXPECT_EQ(c.status, WcStatus::kWrFlushErr);
  EXPECT_EQ(from_.state(), QpState::kSqe);
  ASSERT_EQ(from_.Modify({.state = QpState::kRts}), ModifyResult::kOk);
  Receive(9, 4096, 300);
  to_.OnPacket(sink.sent.front().packet(), memory_);
  EXPECT_EQ(Take(PacketsOf(WrOpcode::kSend, 300)).size(), 1u) << "what was half sent is given up";
}

TEST_F(UcTest, DrainingEndsTheMessageBegun) {
  ASSERT_EQ(from_.PostSend({.wr_id = 1, .sges = OneSge(0, 600, kLkey)}), PostResult::kOk);
  ASSERT_EQ(from_.PostSend({.wr_id = 2, .sges = OneSge(0, 600, kLkey)}), PostResult::kOk);
  KeepingSink sink;
  from_.Poll(memory_, sink, 1);
  ASSERT_EQ(from_.Modify({.state = QpState::kSqd}), ModifyResult::kOk);
  EXPECT_FALSE(from_.sq_drained());
  from_.Poll(memory_, sink);
  EXPECT_TRUE(from_.sq_drained());
  EXPECT_EQ(sink.sent.size(), 3u);
  ASSERT_EQ(from_.Modify({.state = QpState::kRts}), ModifyResult::kOk);
  from_.Poll(memory_, sink);
  EXPECT_EQ(sink.sent.size(), 6u);
}

TEST_F(UcTest, StatesAttributesAndLimits) {
  UcQueuePair qp({.local_ip = kLocalIp, .local_qpn = kLocalQpn, .send_depth = 1});
  EXPECT_EQ(qp.PostRecv({}), PostResult::kBadState);
  EXPECT_EQ(qp.Modify({.state = QpState::kInit, .timeout = 14}), ModifyResult::kAttributeNotNow);
  EXPECT_EQ(qp.Modify({.state = QpState::kInit, .remote_read = true}), ModifyResult::kOk);
  QpChange rtr{.state = QpState::kRtr, .remote_ip = kRemoteIp, .remote_qpn = kRemoteQpn, .path_mtu = 257};
  EXPECT_EQ(qp.Modify(rtr), ModifyResult::kBadAttribute);
  rtr.path_mtu = 256;
  EXPECT_EQ(qp.Modify(rtr), ModifyResult::kMissingAttribute);
  rtr.rq_psn = Psn(0);
  rtr.max_dest_rd_atomic = 1;
  EXPECT_EQ(qp.Modify(rtr), ModifyResult::kAttributeNotNow);
  rtr.max_dest_rd_atomic.reset();
  rtr.min_rnr_timer = 12;
  EXPECT_EQ(qp.Modify(rtr), ModifyResult::kAttributeNotNow);
  rtr.min_rnr_timer.reset();
  EXPECT_EQ(qp.Modify(rtr), ModifyResult::kOk);
  EXPECT_EQ(qp.PostSend({}), PostResult::kBadState);
  EXPECT_EQ(qp.Modify({.state = QpState::kRts}), ModifyResult::kMissingAttribute);
  EXPECT_EQ(qp.Modify({.state = QpState::kRts, .sq_psn = Psn(0), .retry_cnt = 7}),
            ModifyResult::kAttributeNotNow);
  EXPECT_EQ(qp.Modify({.state = QpState::kRts, .sq_psn = Psn(0)}), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.sq_psn = Psn(0)}), ModifyResult::kAttributeNotNow);
  EXPECT_EQ(qp.PostSend({.opcode = WrOpcode::kRead}), PostResult::kInvalid);
  const std::vector<uint8_t> much(65);
  EXPECT_EQ(qp.PostSend({.inline_bytes = much}), PostResult::kInvalid);
  EXPECT_EQ(qp.PostSend({.sges = OneSge(0, (1 << 30) + 1, kLkey)}), PostResult::kInvalid);
  EXPECT_EQ(qp.PostSend({.inline_bytes = std::span(much).first(3)}), PostResult::kOk);
  EXPECT_EQ(qp.PostSend({}), PostResult::kFull);
  KeepingSink sink;
  qp.Poll(memory_, sink);
  EXPECT_EQ(sink.sent.front().payload.size(), 3u);
  ASSERT_EQ(qp.Modify({.state = QpState::kReset}), ModifyResult::kOk);
  Completion c;
  EXPECT_FALSE(qp.NextCompletion(&c));
}

TEST_F(UcTest, OnlyItsPeersUcPacketsAreHeard) {
  Receive(1, 4096, 1024);
  const auto packets = PacketsOf(WrOpcode::kSend, 100);
  for (const auto& change : std::initializer_list<void (*)(Packet&)>{
           [](Packet& p) { p.bth.opcode = Opcode::kRcSendOnly; },
           [](Packet& p) { p.bth.opcode = Opcode::kCnp; }, [](Packet& p) { p.src_ip = Ipv4{9}; },
           [](Packet& p) { p.bth.pkey = 1; }, [](Packet& p) { p.bth.dest_qp = Qpn{9}; }}) {
    OwnedPacket other = packets[0];
    change(other.head);
    EXPECT_TRUE(Take({other}).empty());
  }
  EXPECT_EQ(to_.counters().not_ours, 5u);
  EXPECT_EQ(Take(packets).size(), 1u);
}

// A UC packet is nothing to a reliable connection, whatever it says.
TEST_F(UcTest, AReliableConnectionDropsUcPackets) {
  Wiring wiring{.path_mtu = kMtu, .sq_psn = 0xfffffe};
  wiring.mirrored = true;
  QueuePair rc = Connected(wiring);
  ASSERT_EQ(rc.PostRecv({.wr_id = 1, .sges = OneSge(4096, 1024, kLkey)}), PostResult::kOk);
  uint64_t dropped = 0;
  for (const WrOpcode opcode : {WrOpcode::kSend, WrOpcode::kSendImm, WrOpcode::kWrite, WrOpcode::kWriteImm}) {
    for (const uint32_t bytes : {100u, 600u}) {
      for (OwnedPacket& packet : PacketsOf(opcode, bytes)) {
        packet.head.bth.ack_req = true;
        packet.head.tos = 3;  // marked by a switch
        rc.OnPacket(0, packet.packet(), memory_);
        EXPECT_EQ(rc.counters().bad_state, ++dropped);
      }
    }
  }
  KeepingSink sink;
  rc.Poll(0, memory_, sink);
  EXPECT_TRUE(sink.sent.empty());
  Completion c;
  EXPECT_FALSE(rc.NextCompletion(&c));
  EXPECT_EQ(rc.state(), QpState::kRts);
}

// Receives of a shared queue, as long as there are some.
class UcMemory final : public Memory {
 public:
  explicit UcMemory(FlatMemory& memory) : memory_(memory) {}
  std::optional<std::span<uint8_t>> Map(Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override {
    return memory_.Map(access, key, address, length);
  }
  std::optional<RecvWr> TakeSharedReceive() override {
    if (left == 0) return std::nullopt;
    return RecvWr{.wr_id = left--, .sges = OneSge(4096, 1024, kLkey)};
  }
  uint64_t left = 2;

 private:
  FlatMemory& memory_;
};

TEST_F(UcTest, ASharedReceiveThatWasNotUsedUpServesTheNextMessage) {
  UcMemory shared(memory_);
  UcQueuePair to = Ready(true, {.shared_receives = true});
  EXPECT_EQ(to.PostRecv({}), PostResult::kInvalid);
  const auto send = [&](uint32_t bytes, size_t lost) {
    const auto packets = PacketsOf(WrOpcode::kSend, bytes);
    for (size_t i = 0; i < packets.size(); ++i) {
      if (i != lost) to.OnPacket(packets[i].packet(), shared);
    }
  };
  send(600, 1);
  EXPECT_EQ(shared.left, 1u);
  send(600, 9);
  EXPECT_EQ(shared.left, 1u);
  send(600, 9);
  send(600, 9);
  Completion c;
  EXPECT_TRUE(to.NextCompletion(&c) && c.wr_id == 2);
  EXPECT_TRUE(to.NextCompletion(&c) && c.wr_id == 1);
  EXPECT_FALSE(to.NextCompletion(&c));
  EXPECT_EQ(to.counters().no_recv, 1u);
}

}  // namespace
}  // namespace epic::roce::testing
