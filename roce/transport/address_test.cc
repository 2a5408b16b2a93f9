// Queue pairs at IPv6 addresses, and at another address than the one that they were made with.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>

#include "roce/frame.h"
#include "roce/frame_testing.h"
#include "roce/transport/queue_pair.h"
#include "roce/transport/transport_testing.h"
#include "roce/transport/uc.h"
#include "roce/transport/ud.h"
#include "roce/view_ipv6.h"

namespace epic::roce::testing {
namespace {

constexpr uint32_t kQkey = 0x11111111;

Ip Ipv6(uint8_t first, uint8_t last) {
  const std::array<uint8_t, Ip::kBytes> bytes = {first, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  return Ip::Of(bytes.data());
}
const Ip kLocal6 = Ipv6(0x20, 1), kRemote6 = Ipv6(0x20, 2), kGroup6 = Ipv6(0xff, 3);

QpChange RtrTo(Ip remote, std::optional<Ip> local) {
  return {.state = QpState::kRtr,
          .remote_ip = remote,
          .local_ip = local,
          .remote_qpn = kRemoteQpn,
          .path_mtu = 256,
          .rq_psn = Psn(1),
          .max_dest_rd_atomic = 1,
          .min_rnr_timer = 1};
}

TEST(AddressTest, AConnectionIsBetweenTheAddressesThatItWasTold) {
  QueuePair qp({.local_ip = kLocalIp, .local_qpn = kLocalQpn});
  ASSERT_EQ(qp.Modify({.state = QpState::kInit}), ModifyResult::kOk);
  ASSERT_EQ(qp.Modify(RtrTo(kRemote6, kLocal6)), ModifyResult::kOk);
  ASSERT_EQ(qp.Modify({.state = QpState::kRts,
                       .sq_psn = Psn(1),
                       .timeout = 14,
                       .retry_cnt = 7,
                       .rnr_retry = 7,
                       .max_rd_atomic = 1}),
            ModifyResult::kOk);
  FlatMemory memory;
  memory.Add(1, 0, 64);
  ASSERT_EQ(qp.PostSend({.sges = OneSge(0, 64, 1)}), PostResult::kOk);
  KeepingSink sink;
  qp.Poll(0, memory, sink);
  ASSERT_EQ(sink.sent.size(), 1u);
  EXPECT_EQ(sink.sent.front().head.src_ip, kLocal6);
  EXPECT_EQ(sink.sent.front().head.dst_ip, kRemote6);

  ASSERT_EQ(qp.PostRecv({.wr_id = 4, .sges = OneSge(0, 64, 1)}), PostResult::kOk);
  Packet packet;
  packet.bth = {.opcode = Opcode::kRcSendOnly, .dest_qp = kLocalQpn, .psn = Psn(1)};
  for (const auto& [src, dst] : {std::pair<Ip, Ip>{kRemote6, kLocalIp},
                                 {kRemoteIp, kLocalIp},
                                 {kLocal6, kLocal6},
                                 {kRemote6, kRemote6}}) {
    packet.src_ip = src;
    packet.dst_ip = dst;
    qp.OnPacket(0, packet, memory);
  }
  EXPECT_EQ(qp.counters().not_ours, 4u);
  packet.src_ip = kRemote6;
  packet.dst_ip = kLocal6;
  qp.OnPacket(0, packet, memory);
  Completion c;
  ASSERT_TRUE(qp.NextCompletion(&c));
  EXPECT_EQ(c.wr_id, 4u);

  // RESET forgets it.
  ASSERT_EQ(qp.Modify({.state = QpState::kReset}), ModifyResult::kOk);
  EXPECT_EQ(qp.attributes().local_ip, Ip(kLocalIp));
}

TEST(AddressTest, BothEndsHaveOneVersion) {
  QueuePair qp({.local_ip = kLocalIp, .local_qpn = kLocalQpn});
  ASSERT_EQ(qp.Modify({.state = QpState::kInit}), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify(RtrTo(kRemote6, {})), ModifyResult::kBadAttribute);
  EXPECT_EQ(qp.Modify(RtrTo(kRemoteIp, kLocal6)), ModifyResult::kBadAttribute);
  EXPECT_EQ(qp.state(), QpState::kInit);
  EXPECT_EQ(qp.Modify(RtrTo(kRemoteIp, {})), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.local_ip = kLocalIp}), ModifyResult::kAttributeNotNow);
}

// Where the next packet goes from and to.
template <typename Connection>
void ExpectOtherPathInSqd(Connection& qp, const std::function<void(KeepingSink&)>& poll) {
  EXPECT_EQ(qp.Modify({.remote_ip = kRemote6, .local_ip = kLocal6}), ModifyResult::kAttributeNotNow);
  ASSERT_EQ(qp.Modify({.state = QpState::kSqd}), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.remote_ip = kRemote6}), ModifyResult::kBadAttribute);
  EXPECT_EQ(qp.Modify({.local_ip = kLocal6}), ModifyResult::kBadAttribute);
  for (const QpChange& change : {QpChange{.remote_qpn = Qpn{3}}, {.path_mtu = 512}, {.rq_psn = Psn(3)}})
    EXPECT_EQ(qp.Modify(change), ModifyResult::kAttributeNotNow);
  EXPECT_EQ(qp.Modify({.sq_psn = Psn(3)}), ModifyResult::kAttributeNotNow);
  ASSERT_EQ(qp.Modify({.remote_ip = kRemote6, .local_ip = kLocal6, .traffic_class = 0x2a}),
            ModifyResult::kOk);
  ASSERT_EQ(qp.Modify({.state = QpState::kRts}), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.traffic_class = 1}), ModifyResult::kAttributeNotNow);
  ASSERT_EQ(qp.PostSend({}), PostResult::kOk);
  KeepingSink sink;
  poll(sink);
  ASSERT_EQ(sink.sent.size(), 1u);
  EXPECT_EQ(sink.sent.front().head.src_ip, kLocal6);
  EXPECT_EQ(sink.sent.front().head.dst_ip, kRemote6);
  EXPECT_EQ(sink.sent.front().head.tos, 0x2a);
}

TEST(AddressTest, AnswersHaveTheirOwnSidesClass) {
  FlatMemory memory;
  QueuePair qp({.local_ip = kLocalIp, .local_qpn = kLocalQpn});
  ASSERT_EQ(qp.Modify({.state = QpState::kInit}), ModifyResult::kOk);
  QpChange rtr = RtrTo(kRemoteIp, {});
  rtr.traffic_class = 0x68;
  ASSERT_EQ(qp.Modify(rtr), ModifyResult::kOk);
  ASSERT_EQ(qp.PostRecv({}), PostResult::kOk);
  Packet packet;
  packet.src_ip = kRemoteIp;
  packet.dst_ip = kLocalIp;
  packet.tos = 0x04;
  packet.bth.opcode = Opcode::kRcSendOnly;
  packet.bth.ack_req = true;
  packet.bth.dest_qp = kLocalQpn;
  packet.bth.psn = *rtr.rq_psn;
  qp.OnPacket(0, packet, memory);
  KeepingSink sink;
  qp.Poll(0, memory, sink);
  ASSERT_EQ(sink.sent.size(), 1u);
  EXPECT_EQ(sink.sent.front().head.bth.opcode, Opcode::kRcAck);
  EXPECT_EQ(sink.sent.front().head.tos, 0x68);
}

TEST(AddressTest, ADrainedConnectionMayTakeAnotherPath) {
  FlatMemory memory;
  QueuePair rc = Connected({});
  ExpectOtherPathInSqd(rc, [&](KeepingSink& sink) { rc.Poll(0, memory, sink); });
  UcQueuePair uc({.local_ip = kLocalIp, .local_qpn = kLocalQpn});
  ASSERT_EQ(uc.Modify({.state = QpState::kInit}), ModifyResult::kOk);
  QpChange rtr = RtrTo(kRemoteIp, {});
  rtr.max_dest_rd_atomic = rtr.min_rnr_timer = std::nullopt;
  ASSERT_EQ(uc.Modify(rtr), ModifyResult::kOk);
  ASSERT_EQ(uc.Modify({.state = QpState::kRts, .sq_psn = Psn(1)}), ModifyResult::kOk);
  ExpectOtherPathInSqd(uc, [&](KeepingSink& sink) { uc.Poll(memory, sink); });
}

class UdAddressTest : public ::testing::Test {
 protected:
  UdAddressTest() {
    for (UdQueuePair* qp : {&from_, &to_}) {
      EXPECT_EQ(qp->Modify(QpState::kInit, kQkey), ModifyResult::kOk);
      EXPECT_EQ(qp->Modify(QpState::kRtr), ModifyResult::kOk);
      EXPECT_EQ(qp->Modify(QpState::kRts, {}, Psn(7)), ModifyResult::kOk);
    }
    memory_.Add(1, 0, 4096);
  }
  PostResult Post(const UdAddress& to) {
    SendWr wr{.sges = OneSge(3, 99, 1)};
    wr.ud = to;
    return from_.PostSend(wr);
  }
  // Sends a datagram of 99 bytes and hands it to the other side, with this traffic class and flow label.
  Packet SendTo(const UdAddress& to) {
    EXPECT_EQ(Post(to), PostResult::kOk);
    KeepingSink sink;
    from_.Poll(memory_, sink);
    sent_ = sink.sent.front();
    sent_.head.tos = 0x2e;
    sent_.head.flow_label = 0x54321;
    to_.OnPacket(sent_.packet(), memory_);
    return sent_.packet();
  }

  FlatMemory memory_;
  OwnedPacket sent_;
  UdQueuePair from_{{.local_ip = kLocalIp, .local_qpn = kLocalQpn, .mtu = 256}};
  UdQueuePair to_{{.local_ip = kRemoteIp, .any_address = true, .local_qpn = kRemoteQpn, .mtu = 256}};
};

TEST_F(UdAddressTest, ADatagramArrivesBehindItsIpv6Header) {
  ASSERT_EQ(to_.PostRecv({.wr_id = 9, .sges = OneSge(1000, 200, 1)}), PostResult::kOk);
  const Packet packet = SendTo({kRemote6, kRemoteQpn, kQkey, kLocal6});
  EXPECT_EQ(packet.src_ip, kLocal6);
  EXPECT_EQ(packet.dst_ip, kRemote6);
  Completion c;
  ASSERT_TRUE(to_.NextCompletion(&c));
  EXPECT_TRUE(c.ok());
  EXPECT_TRUE(c.over_ipv6);
  EXPECT_EQ(c.bytes, kGrhBytes + 99);
  // All 40 bytes are those of the frame.
  std::vector<uint8_t> frame(FrameBytes(packet));
  WriteFrame({}, packet, frame);
  const auto& bytes = memory_.region(1).bytes;
  EXPECT_TRUE(std::equal(frame.begin() + 14, frame.begin() + 14 + kGrhBytes, bytes.begin() + 1000));
  EXPECT_EQ(Ipv6View::Of(std::span(bytes).subspan(1000))->flow_label(), 0x54321u);
}

TEST_F(UdAddressTest, AGroupMayBeOneOfIpv6) {
  for (int i = 0; i < 2; ++i) ASSERT_EQ(to_.PostRecv({.sges = OneSge(1000, 200, 1)}), PostResult::kOk);
  SendTo({kGroup6, {}, kQkey, kLocal6});
  EXPECT_EQ(to_.counters().not_ours, 1u);
  EXPECT_FALSE(to_.Attach(kRemote6)) << "no group";
  EXPECT_TRUE(to_.Attach(kGroup6));
  EXPECT_EQ(SendTo({kGroup6, {}, kQkey, kLocal6}).bth.dest_qp, kMulticastQpn);
  Completion c;
  EXPECT_TRUE(to_.NextCompletion(&c));
}

TEST_F(UdAddressTest, ADatagramHasTheClassAndTheLimitOfItsAddress) {
  UdAddress to{.ip = kRemoteIp, .qpn = kRemoteQpn, .qkey = kQkey, .traffic_class = 0xb8, .hop_limit = 3};
  for (const auto& [ip, from] : {std::pair<Ip, Ip>{kRemoteIp, kLocalIp}, {kRemote6, kLocal6}}) {
    to.ip = ip;
    to.from = from;
    ASSERT_EQ(Post(to), PostResult::kOk);
    KeepingSink sink;
    from_.Poll(memory_, sink);
    ASSERT_EQ(sink.sent.size(), 1u);
    EXPECT_EQ(sink.sent.front().head.tos, 0xb8);
    EXPECT_EQ(sink.sent.front().head.ttl, 3);
  }
}

TEST_F(UdAddressTest, BothEndsHaveOneVersion) {
  EXPECT_EQ(Post({kRemote6, kRemoteQpn, kQkey}), PostResult::kInvalid) << "its own address is of IPv4";
  EXPECT_EQ(Post({kRemoteIp, kRemoteQpn, kQkey, kLocal6}), PostResult::kInvalid);
  EXPECT_FALSE(from_.wants_poll());
}

}  // namespace
}  // namespace epic::roce::testing
