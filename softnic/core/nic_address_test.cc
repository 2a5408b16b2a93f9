// An adapter with several addresses.
#include <gtest/gtest.h>

#include <array>

#include "softnic/core/nic_testing.h"

namespace epic::softnic::testing {
namespace {

using roce::PostResult;
using roce::QpState;

constexpr uint32_t kQkey = 7;

Ip Ipv6(uint8_t last) {
  const std::array<uint8_t, Ip::kBytes> bytes = {0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  return Ip::Of(bytes.data());
}
const Ip kOwn6 = Ipv6(1), kForeign6 = Ipv6(9);

Qpn MakeUd(TwoQps& t) {
  const Qpn qpn{20};
  t.nic.CreateQp({.type = QpType::kUd,
                  .qpn = qpn,
                  .pd = TwoQps::kPd,
                  .send_cq = t.cq,
                  .recv_cq = t.cq,
                  .send_depth = 4,
                  .recv_depth = 4});
  EPIC_CHECK(t.nic.ModifyUd(qpn, QpState::kInit, kQkey, {}) == roce::ModifyResult::kOk);
  EPIC_CHECK(t.nic.ModifyUd(qpn, QpState::kRtr, {}, {}) == roce::ModifyResult::kOk);
  EPIC_CHECK(t.nic.ModifyUd(qpn, QpState::kRts, {}, Psn(0)) == roce::ModifyResult::kOk);
  return qpn;
}

TEST(NicAddressTest, DatagramsAreTakenAtEachOfThem) {
  TwoQps t;
  const Qpn qpn = MakeUd(t);
  t.nic.SetMoreAddresses({kOwn6});
  for (int i = 0; i < 4; ++i) ASSERT_EQ(t.nic.PostRecv(qpn, t.Recv(1, 0, 100)), PostResult::kOk);
  roce::Packet packet;
  packet.bth = {.opcode = roce::Opcode::kUdSendOnly, .dest_qp = qpn};
  packet.deth = {.qkey = kQkey, .src_qp = Qpn{3}};
  for (const Ip to : {Ip(TwoQps::kIp), kOwn6, kForeign6, Ip(Ipv4{0x0a000009})}) {
    packet.src_ip = to.is_v4() ? Ip(Ipv4{0x0a000007}) : Ipv6(7);
    packet.dst_ip = to;
    EXPECT_EQ(t.nic.OnPacket(0, packet), to == Ip(TwoQps::kIp) || to == kOwn6);
  }
  packet.bth.dest_qp = Qpn{Raw(qpn) + 1};
  EXPECT_TRUE(t.nic.OnPacket(0, packet)) << "nobody's packet: its address does not matter";
  EXPECT_EQ(t.Poll().size(), 2u);
  EXPECT_EQ(t.nic.counters().no_queue_pair, 3u) << "that, and those to somebody else's address";
}

TEST(NicAddressTest, WhatGoesToOneOfThemGoesRoundInside) {
  TwoQps t;
  const Qpn qpn = MakeUd(t);
  t.nic.SetMoreAddresses({kOwn6});
  ASSERT_EQ(t.nic.PostRecv(qpn, t.Recv(1, 100, 100)), PostResult::kOk);
  roce::SendWr wr = t.Send(2, 0, 10);
  for (const Ip to : {kOwn6, kForeign6}) {
    wr.ud = roce::UdAddress{to, qpn, kQkey, kOwn6};
    ASSERT_EQ(t.nic.PostSend(qpn, wr), PostResult::kOk);
    t.Settle();
  }
  EXPECT_EQ(t.Poll().size(), 3u) << "two sent, one received";
  ASSERT_EQ(t.sink.sent.size(), 1u);
  EXPECT_EQ(t.sink.sent.front().head.dst_ip, kForeign6);
}

}  // namespace
}  // namespace epic::softnic::testing
