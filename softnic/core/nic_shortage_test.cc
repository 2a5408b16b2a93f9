// An adapter whose port finds no memory for a packet.
#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <vector>

#include "softnic/core/nic_testing.h"

namespace epic::softnic::testing {
namespace {

using roce::PostResult;

// Where there is no memory for a packet, nobody's requests are left lying.
TEST(NicShortageTest, WhatFindsNoMemoryIsDoneByTheNextRun) {
  class FullSink final : public roce::PacketSink {
   public:
    void Send(const roce::Packet& packet) override {
      if (left-- == 0) throw std::bad_alloc();
      to.push_back(Raw(packet.bth.dest_qp));
    }
    int left = 0;
    std::vector<uint32_t> to;
  };
  constexpr Ipv4 kPeer{0x0a000002};
  for (int succeed = 0; succeed < 4; ++succeed) {
    SCOPED_TRACE(succeed);
    TwoQps t;
    for (uint32_t qpn = 32; qpn < 36; ++qpn) {
      t.nic.CreateQp({.qpn = Qpn{qpn}, .pd = TwoQps::kPd, .send_cq = t.cq, .recv_cq = t.cq, .send_depth = 4});
      t.ToRts(Qpn{qpn}, kPeer, Qpn{qpn});
      ASSERT_EQ(t.nic.PostSend(Qpn{qpn}, t.Send(qpn, 0, 8)), PostResult::kOk);
    }
    FullSink sink;
    sink.left = succeed;
    EXPECT_THROW(t.nic.Run(0, sink), std::bad_alloc);
    EXPECT_EQ(t.nic.next_deadline(), 0);
    if (succeed == 1) t.nic.DestroyQp(Qpn{34});
    sink.left = 10;
    for (int i = 0; i < 10 && t.nic.next_deadline() == 0; ++i) t.nic.Run(0, sink);
    std::ranges::sort(sink.to);
    EXPECT_EQ(sink.to,
              (succeed == 1 ? std::vector<uint32_t>{32, 33, 35} : std::vector<uint32_t>{32, 33, 34, 35}));
    EXPECT_LT(t.nic.next_deadline(), kSecond) << "each waits for its acknowledgement";
  }
}

}  // namespace
}  // namespace epic::softnic::testing
