#include "roce/transport/ud.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "roce/transport/transport_testing.h"
#include "roce/view.h"

namespace epic::roce::testing {
namespace {

constexpr uint32_t kUdQkey = 0x11111111;
constexpr Ipv4 kGroup{0xef010101};  // 239.1.1.1

void MakeReady(UdQueuePair& qp) {
  EXPECT_EQ(qp.Modify(QpState::kInit, kUdQkey), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify(QpState::kRtr), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify(QpState::kRts, {}, Psn(7)), ModifyResult::kOk);
}

UdQueuePair Ready(Ipv4 ip, Qpn qpn) {
  UdQueuePair qp({.local_ip = ip, .local_qpn = qpn, .mtu = 256});
  MakeReady(qp);
  return qp;
}

class UdTest : public ::testing::Test {
 protected:
  UdTest() {
    for (uint8_t& byte : memory_.Add(1, 0, 4096).bytes) byte = static_cast<uint8_t>(&byte - bytes());
  }
  uint8_t* bytes() { return memory_.region(1).bytes.data(); }

  // Posts a datagram of 100 bytes and hands what is sent to the other side.
  OwnedPacket SendTo(const UdAddress& to, std::optional<uint32_t> imm = {}) {
    SendWr wr{.wr_id = 5, .opcode = imm ? WrOpcode::kSendImm : WrOpcode::kSend, .sges = OneSge(3, 100, 1)};
    wr.imm = imm.value_or(0);
    wr.ud = to;
    EXPECT_EQ(from_.PostSend(wr), PostResult::kOk);
    KeepingSink sink;
    from_.Poll(memory_, sink);
    EXPECT_EQ(sink.sent.size(), 1u);
    to_.OnPacket(sink.sent.front().packet(), memory_);
    return sink.sent.front();
  }

  FlatMemory memory_;
  UdQueuePair from_ = Ready(kLocalIp, kLocalQpn);
  UdQueuePair to_ = Ready(kRemoteIp, kRemoteQpn);
};

TEST_F(UdTest, ADatagramArrivesBehindItsHeader) {
  ASSERT_EQ(to_.PostRecv({.wr_id = 9, .sges = OneSge(1000, 140, 1)}), PostResult::kOk);
  const OwnedPacket packet = SendTo({kRemoteIp, kRemoteQpn, kUdQkey}, 77);
  EXPECT_EQ(packet.head.bth.opcode, Opcode::kUdSendOnlyImm);
  EXPECT_EQ(packet.head.bth.psn, Psn(7));
  Completion c;
  ASSERT_TRUE(from_.NextCompletion(&c));
  EXPECT_EQ(c.wr_id, 5u);
  ASSERT_TRUE(to_.NextCompletion(&c));
  EXPECT_TRUE(c.ok() && c.is_recv() && c.has_imm);
  EXPECT_EQ(c.wr_id, 9u);
  EXPECT_EQ(c.bytes, 140u);
  EXPECT_EQ(c.imm, 77u);
  EXPECT_EQ(c.src_qpn, kLocalQpn);
  EXPECT_FALSE(c.over_ipv6);
  EXPECT_TRUE(std::equal(bytes() + 3, bytes() + 103, bytes() + 1040));
  EXPECT_EQ(bytes()[1020], 0x45);
  EXPECT_EQ(InternetChecksum({bytes() + 1020, 20}), 0) << "a right checksum sums to nothing";
}

TEST_F(UdTest, WhatIsNotForUsIsDroppedAndUsesNoReceive) {
  ASSERT_EQ(to_.PostRecv({.sges = OneSge(1000, 139, 1)}), PostResult::kOk);
  SendTo({kRemoteIp, kRemoteQpn, kUdQkey + 1});
  SendTo({kRemoteIp, kLocalQpn, kUdQkey});
  SendTo({kGroup, {}, kUdQkey});
  SendTo({kRemoteIp, kRemoteQpn, kUdQkey});  // one byte too long
  EXPECT_EQ(to_.counters().bad_qkey, 1u);
  EXPECT_EQ(to_.counters().not_ours, 2u);
  EXPECT_EQ(to_.counters().too_long, 1u);
  Completion c;
  EXPECT_FALSE(to_.NextCompletion(&c));
  UdQueuePair none = Ready(kRemoteIp, kRemoteQpn);
  to_ = none;
  SendTo({kRemoteIp, kRemoteQpn, kUdQkey});
  EXPECT_EQ(to_.counters().no_recv, 1u);
}

TEST_F(UdTest, Multicast) {
  EXPECT_FALSE(to_.Attach(kRemoteIp));
  ASSERT_TRUE(to_.Attach(kGroup));
  ASSERT_TRUE(to_.Attach(kGroup));
  ASSERT_EQ(to_.PostRecv({.sges = OneSge(1000, 200, 1)}), PostResult::kOk);
  EXPECT_EQ(SendTo({kGroup, {}, kUdQkey}).head.bth.dest_qp, kMulticastQpn);
  Completion c;
  EXPECT_TRUE(to_.NextCompletion(&c));
  to_.Detach(kGroup);
  SendTo({kGroup, {}, kUdQkey});
  EXPECT_EQ(to_.counters().not_ours, 1u);
}

TEST_F(UdTest, MembershipsOutliveAReset) {
  ASSERT_TRUE(to_.Attach(kGroup));
  ASSERT_EQ(to_.Modify(QpState::kReset), ModifyResult::kOk);
  EXPECT_TRUE(to_.IsAttached(kGroup));
  SendTo({kGroup, {}, kUdQkey});
  EXPECT_EQ(to_.counters().bad_state, 1u);
  MakeReady(to_);
  ASSERT_EQ(to_.PostRecv({.sges = OneSge(1000, 200, 1)}), PostResult::kOk);
  SendTo({kGroup, {}, kUdQkey});
  Completion c;
  EXPECT_TRUE(to_.NextCompletion(&c));
  EXPECT_TRUE(to_.Detach(kGroup));
}

TEST_F(UdTest, AQkeyWithTheTopBitStandsForOurOwn) {
  EXPECT_EQ(SendTo({kRemoteIp, kRemoteQpn, 0x80000000}).head.deth.qkey, kUdQkey);
}

TEST_F(UdTest, ASendErrorLeadsToSqeAndBack) {
  const UdAddress to{kRemoteIp, kRemoteQpn, kUdQkey};
  ASSERT_EQ(from_.PostSend({.wr_id = 1, .signaled = false, .sges = OneSge(0, 10, 99), .ud = to}),
            PostResult::kOk);
  ASSERT_EQ(from_.PostSend({.wr_id = 2, .sges = OneSge(0, 10, 1), .ud = to}), PostResult::kOk);
  KeepingSink sink;
  from_.Poll(memory_, sink);
  EXPECT_TRUE(sink.sent.empty());
  Completion c;
  ASSERT_TRUE(from_.NextCompletion(&c));
  EXPECT_EQ(c.status, WcStatus::kLocProtErr);
  ASSERT_TRUE(from_.NextCompletion(&c));
  EXPECT_EQ(c.status, WcStatus::kWrFlushErr);
  EXPECT_EQ(from_.state(), QpState::kSqe);
  EXPECT_EQ(from_.Modify(QpState::kRts), ModifyResult::kOk);
  EXPECT_EQ(SendTo({kRemoteIp, kRemoteQpn, kUdQkey}).head.bth.psn, Psn(7));
}

// Who sends it need not copy it then.
TEST_F(UdTest, APayloadStaysThatLiesInOnePieceOfRegisteredMemory) {
  const UdAddress to{kRemoteIp, kRemoteQpn, kUdQkey};
  const std::vector<uint8_t> inline_bytes = {1, 2, 3};
  SgeList two = OneSge(0, 10, 1);
  two.sge[two.count++] = {.address = 100, .length = 10, .lkey = 1};
  ASSERT_EQ(from_.PostSend({.sges = OneSge(0, 10, 1), .ud = to}), PostResult::kOk);
  ASSERT_EQ(from_.PostSend({.inline_bytes = inline_bytes, .ud = to}), PostResult::kOk);
  ASSERT_EQ(from_.PostSend({.sges = two, .ud = to}), PostResult::kOk);
  KeepingSink sink;
  from_.Poll(memory_, sink);
  ASSERT_EQ(sink.sent.size(), 3u);
  EXPECT_TRUE(sink.sent[0].head.payload_stays);
  EXPECT_FALSE(sink.sent[1].head.payload_stays) << "inline: the place is the next request's";
  EXPECT_FALSE(sink.sent[2].head.payload_stays) << "gathered";
}

TEST_F(UdTest, TheQkeyMayChange) {
  UdQueuePair qp({.local_ip = kLocalIp, .local_qpn = kLocalQpn});
  const auto modify = [&](QpState to, std::optional<Psn> psn = {}) { return qp.Modify(to, kUdQkey, psn); };
  for (const QpState to : {QpState::kInit, QpState::kInit, QpState::kRtr})
    EXPECT_EQ(modify(to), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify(QpState::kRtr), ModifyResult::kBadTransition);
  EXPECT_EQ(modify(QpState::kRts, Psn(1)), ModifyResult::kOk);
  EXPECT_EQ(modify(QpState::kRts), ModifyResult::kOk);
  EXPECT_EQ(modify(QpState::kSqd), ModifyResult::kAttributeNotNow);
  EXPECT_EQ(qp.Modify(QpState::kSqd), ModifyResult::kOk);
  EXPECT_EQ(modify(QpState::kSqd), ModifyResult::kOk);
  EXPECT_EQ(modify(QpState::kRts), ModifyResult::kOk);
  for (const QpState to : {QpState::kErr, QpState::kReset})
    EXPECT_EQ(modify(to), ModifyResult::kAttributeNotNow);
  // It holds for the next datagram.
  ASSERT_EQ(to_.PostRecv({.sges = OneSge(1000, 200, 1)}), PostResult::kOk);
  ASSERT_EQ(to_.Modify(QpState::kRts, kUdQkey + 1), ModifyResult::kOk);
  SendTo({kRemoteIp, kRemoteQpn, kUdQkey});
  EXPECT_EQ(to_.counters().bad_qkey, 1u);
  SendTo({kRemoteIp, kRemoteQpn, kUdQkey + 1});
  Completion c;
  EXPECT_TRUE(to_.NextCompletion(&c));
}

TEST_F(UdTest, StatesAndLimits) {
  UdQueuePair qp({.local_ip = kLocalIp, .local_qpn = kLocalQpn, .mtu = 256});
  EXPECT_EQ(qp.PostRecv({}), PostResult::kBadState);
  EXPECT_EQ(qp.Modify(QpState::kInit), ModifyResult::kMissingAttribute);
  EXPECT_EQ(qp.Modify(QpState::kInit, kUdQkey), ModifyResult::kOk);
  EXPECT_EQ(qp.PostSend({}), PostResult::kBadState);
  EXPECT_EQ(qp.Modify(QpState::kRts, {}, Psn(1)), ModifyResult::kBadTransition);
  const UdAddress to{kRemoteIp, kRemoteQpn, kUdQkey};
  EXPECT_EQ(from_.PostSend({.sges = OneSge(0, 257, 1), .ud = to}), PostResult::kInvalid);
  EXPECT_EQ(from_.PostSend({.opcode = WrOpcode::kRead, .ud = to}), PostResult::kInvalid);
  const std::vector<uint8_t> inline_bytes = {1, 2, 3};
  EXPECT_EQ(from_.PostSend({.inline_bytes = inline_bytes}), PostResult::kInvalid) << "to nobody";
  ASSERT_EQ(from_.PostSend({.inline_bytes = inline_bytes, .ud = to}), PostResult::kOk);
  KeepingSink sink;
  from_.Poll(memory_, sink);
  EXPECT_EQ(sink.sent.front().payload, inline_bytes);
  ASSERT_EQ(from_.PostRecv({.wr_id = 3}), PostResult::kOk);
  ASSERT_EQ(from_.Modify(QpState::kErr), ModifyResult::kOk);
  Completion c;
  ASSERT_TRUE(from_.NextCompletion(&c));
  ASSERT_TRUE(from_.NextCompletion(&c));
  EXPECT_EQ(c.wr_id, 3u);
  EXPECT_EQ(c.status, WcStatus::kWrFlushErr);
}

}  // namespace
}  // namespace epic::roce::testing
