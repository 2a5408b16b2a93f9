#include "softnic/core/nic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "softnic/core/nic_testing.h"

namespace epic::softnic::testing {
namespace {

using roce::PostResult;
using roce::QpState;
using roce::WcStatus;
using Kind = Event::Kind;

TEST(MemoryTableTest, ChecksKeyBoundsRightsAndDomain) {
  MemoryTable table;
  std::array<uint8_t, 100> bytes{};
  const auto key = table.Register(1, bytes.data(), 0x1000, 100, {.local_write = true});
  ASSERT_TRUE(key);
  const auto allowed = [&](uint32_t pd, roce::Access access, uint32_t k, uint64_t address, uint32_t length) {
    return table.Map(pd, access, k, address, length).has_value();
  };
  const auto read = roce::Access::kLocalRead;
  EXPECT_TRUE(allowed(1, read, *key, 0x1000, 100));
  EXPECT_EQ(table.Map(1, read, *key, 0x1010, 4)->data(), bytes.data() + 0x10);
  EXPECT_FALSE(allowed(2, read, *key, 0x1000, 100)) << "another protection domain";
  EXPECT_FALSE(allowed(1, read, *key, 0x1001, 100)) << "one byte beyond the end";
  EXPECT_FALSE(allowed(1, read, *key, 0xfff, 1)) << "before the start";
  EXPECT_FALSE(allowed(1, read, *key, UINT64_MAX, 2)) << "wraps";
  EXPECT_FALSE(allowed(1, read, *key ^ 1, 0x1000, 1)) << "another generation";
  EXPECT_FALSE(allowed(1, read, 0, 0x1000, 1));
  EXPECT_TRUE(allowed(1, roce::Access::kLocalWrite, *key, 0x1000, 1));
  EXPECT_FALSE(allowed(1, roce::Access::kRemoteWrite, *key, 0x1000, 1));
  EXPECT_FALSE(allowed(1, roce::Access::kRemoteRead, *key, 0x1000, 1));
  EXPECT_TRUE(table.Deregister(*key));
  EXPECT_FALSE(table.Deregister(*key));
  const auto next = table.Register(1, bytes.data(), 0x1000, 100, {});
  EXPECT_NE(*next, *key) << "the old key must not name the new memory";
  EXPECT_FALSE(allowed(1, read, *key, 0x1000, 1));
  EXPECT_FALSE(table.Register(1, bytes.data(), 0, 0, {}));
  EXPECT_FALSE(table.Register(1, bytes.data(), UINT64_MAX, 2, {}));
}

TEST(MemoryTableTest, ReregistrationChangesWhatItIsAsked) {
  MemoryTable table;
  std::array<uint8_t, 100> bytes{}, other{};
  const uint32_t key = *table.Register(1, bytes.data(), 0x1000, 100, {});
  const auto at = [&](uint32_t pd, roce::Access access, uint64_t address) {
    const auto mapped = table.Map(pd, access, key, address, 8);
    return mapped ? mapped->data() : nullptr;
  };
  const auto read = roce::Access::kLocalRead, write = roce::Access::kRemoteWrite;
  EXPECT_FALSE(table.Reregister(key + 1, {}, 2, {})) << "no such key";
  EXPECT_FALSE(table.Reregister(key, MemoryRange{other.data(), 0x2000, 0}, 2, MemoryRights{}));
  EXPECT_FALSE(table.Reregister(key, MemoryRange{other.data(), UINT64_MAX, 2}, 2, MemoryRights{}));
  EXPECT_EQ(at(1, read, 0x1000), bytes.data()) << "as it was";
  ASSERT_TRUE(table.Reregister(key, {}, {}, MemoryRights{.remote_write = true}));
  EXPECT_EQ(at(1, write, 0x1000), bytes.data());
  ASSERT_TRUE(table.Reregister(key, {}, 2, {}));
  EXPECT_EQ(at(1, write, 0x1000), nullptr);
  EXPECT_EQ(at(2, write, 0x1000), bytes.data());
  ASSERT_TRUE(table.Reregister(key, MemoryRange{other.data(), 0x2000, 8}, {}, {}));
  EXPECT_EQ(at(2, write, 0x1000), nullptr);
  EXPECT_EQ(at(2, write, 0x2000), other.data());
  EXPECT_EQ(at(2, write, 0x2001), nullptr);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_TRUE(table.Deregister(key));
}

TEST(NicTest, SendsToItself) {
  TwoQps t;
  const std::array<uint8_t, 3> data = {1, 2, 3};
  std::memcpy(t.bytes.data(), data.data(), 3);
  ASSERT_EQ(t.nic.PostRecv(t.b, t.Recv(7, 100, 50)), PostResult::kOk);
  ASSERT_EQ(t.nic.PostSend(t.a, t.Send(8, 0, 3)), PostResult::kOk);
  t.Settle();
  EXPECT_TRUE(t.sink.sent.empty()) << "it goes round inside";
  const std::vector<Work> works = t.Poll();
  ASSERT_EQ(works.size(), 2u);
  EXPECT_EQ(works[0].completion.wr_id, 7u);
  EXPECT_EQ(works[0].qpn, t.b);
  EXPECT_EQ(works[0].completion.bytes, 3u);
  EXPECT_EQ(works[1].completion.wr_id, 8u);
  EXPECT_EQ(std::memcmp(t.bytes.data() + 100, data.data(), 3), 0);
}

TEST(NicTest, ArmedQueueTellsOnce) {
  TwoQps t;
  t.nic.ArmCq(t.cq, /*solicited_only=*/true);
  ASSERT_EQ(t.nic.PostRecv(t.b, t.Recv(1, 0, 50)), PostResult::kOk);
  ASSERT_EQ(t.nic.PostSend(t.a, t.Send(2, 0, 3)), PostResult::kOk);
  t.Settle();
  Event event;
  EXPECT_FALSE(t.nic.NextEvent(&event)) << "nothing solicited came";
  ASSERT_EQ(t.nic.PostRecv(t.b, t.Recv(1, 0, 50)), PostResult::kOk);
  roce::SendWr solicited = t.Send(2, 0, 3);
  solicited.solicited = true;
  ASSERT_EQ(t.nic.PostSend(t.a, solicited), PostResult::kOk);
  t.Settle();
  ASSERT_TRUE(t.nic.NextEvent(&event));
  EXPECT_EQ(event.kind, Kind::kCompletion);
  EXPECT_EQ(event.id, t.cq);
  ASSERT_EQ(t.nic.PostRecv(t.b, t.Recv(1, 0, 50)), PostResult::kOk);
  ASSERT_EQ(t.nic.PostSend(t.a, solicited), PostResult::kOk);
  t.Settle();
  EXPECT_FALSE(t.nic.NextEvent(&event)) << "it is armed once";
  t.nic.ArmCq(t.cq, false);
  ASSERT_EQ(t.nic.PostSend(t.a, t.Send(2, 0, 3)), PostResult::kOk);
  ASSERT_EQ(t.nic.PostRecv(t.b, t.Recv(1, 0, 50)), PostResult::kOk);
  t.Settle();
  EXPECT_TRUE(t.nic.NextEvent(&event));
}

TEST(NicTest, ADisarmedQueueTellsNothing) {
  TwoQps t;
  EXPECT_FALSE(t.nic.DisarmCq(t.cq)) << "it was not armed";
  t.nic.ArmCq(t.cq, false);
  EXPECT_TRUE(t.nic.DisarmCq(t.cq));
  EXPECT_EQ(t.nic.armed_cqs(), 0);
  ASSERT_EQ(t.nic.PostRecv(t.b, t.Recv(1, 0, 50)), PostResult::kOk);
  ASSERT_EQ(t.nic.PostSend(t.a, t.Send(2, 0, 3)), PostResult::kOk);
  t.Settle();
  Event event;
  EXPECT_FALSE(t.nic.NextEvent(&event));
  t.nic.ArmCq(t.cq, false);
  ASSERT_EQ(t.nic.PostRecv(t.b, t.Recv(1, 0, 50)), PostResult::kOk);
  ASSERT_EQ(t.nic.PostSend(t.a, t.Send(2, 0, 3)), PostResult::kOk);
  t.Settle();
  EXPECT_TRUE(t.nic.NextEvent(&event));
  EXPECT_FALSE(t.nic.DisarmCq(t.cq)) << "it has told";
}

TEST(NicTest, AFullCompletionQueueLosesAndSays) {
  TwoQps t(/*cq_depth=*/1);
  ASSERT_EQ(t.nic.PostRecv(t.b, t.Recv(1, 0, 50)), PostResult::kOk);
  ASSERT_EQ(t.nic.PostSend(t.a, t.Send(2, 0, 3)), PostResult::kOk);
  t.Settle();
  Event event;
  ASSERT_TRUE(t.nic.NextEvent(&event));
  EXPECT_EQ(event.kind, Kind::kCqOverrun);
  EXPECT_FALSE(t.nic.ResizeCq(t.cq, 0)) << "one completion waits";
  EXPECT_TRUE(t.nic.ResizeCq(t.cq, 8));
  EXPECT_EQ(t.Poll().size(), 1u);
}

TEST(NicTest, AnOverrunThatIsIgnoredIsNotTold) {
  TwoQps t;
  const uint32_t short_cq = t.nic.CreateCq(1, /*tells_overrun=*/false);
  const Qpn qpn{20};
  t.nic.CreateQp({.qpn = qpn, .pd = t.kPd, .send_cq = short_cq, .recv_cq = short_cq, .recv_depth = 4});
  t.Change(qpn, {.state = QpState::kInit});
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(t.nic.PostRecv(qpn, t.Recv(i, 0, 8)), PostResult::kOk);
  t.Change(qpn, {.state = QpState::kErr});
  Event event;
  EXPECT_FALSE(t.nic.NextEvent(&event));
  std::array<Work, 4> works;
  ASSERT_EQ(t.nic.PollCq(short_cq, works), 1u);
  EXPECT_EQ(works[0].completion.wr_id, 0u);
}

TEST(NicTest, CompletionsHaveTheTimeAtWhichTheyArose) {
  TwoQps t;
  ASSERT_EQ(t.nic.PostRecv(t.b, t.Recv(1, 0, 50)), PostResult::kOk);
  ASSERT_EQ(t.nic.PostSend(t.a, t.Send(2, 0, 3)), PostResult::kOk);
  for (Nanos now = 1000; t.nic.next_deadline() == 0; ++now) t.nic.Run(now, t.sink);
  std::vector<Work> works = t.Poll();
  ASSERT_EQ(works.size(), 2u);
  EXPECT_GE(works[0].at, 1000);
  EXPECT_GT(works[1].at, works[0].at) << "the acknowledgement comes with a later call";
  ASSERT_EQ(t.nic.PostRecv(t.b, t.Recv(3, 0, 50)), PostResult::kOk);
  t.nic.SetTime(5000);
  t.Change(t.b, {.state = QpState::kErr});
  works = t.Poll();
  ASSERT_EQ(works.size(), 1u);
  EXPECT_EQ(works[0].at, 5000);
}

TEST(NicTest, SendsArePostedTogetherOrNotAtAll) {
  TwoQps t;  // a queue pair takes four of them
  t.Settle();
  const roce::SendWr good = t.Send(1, 0, 3), wrong{.wr_id = 2, .opcode = static_cast<roce::WrOpcode>(99)};
  const auto post = [&](Qpn qpn, const std::vector<roce::SendWr>& wrs) { return t.nic.PostSends(qpn, wrs); };
  EXPECT_EQ(post(t.a, {}), PostResult::kOk);
  EXPECT_EQ(post(t.a, {good, good, wrong}), PostResult::kInvalid);
  EXPECT_EQ(post(t.a, {wrong}), PostResult::kInvalid);
  EXPECT_EQ(post(t.a, {good, good, good, good, good}), PostResult::kFull);
  EXPECT_EQ(t.nic.next_deadline(), kNever) << "nothing was posted";
  EXPECT_EQ(post(t.a, {good, good, good}), PostResult::kOk);
  EXPECT_EQ(post(t.a, {good, good}), PostResult::kFull);
  EXPECT_EQ(post(t.a, {good}), PostResult::kOk);
  EXPECT_EQ(post(t.a, {good}), PostResult::kFull);
  EXPECT_EQ(t.nic.next_deadline(), 0);
  t.Change(t.a, {.state = QpState::kReset});
  EXPECT_EQ(post(t.a, {good, good}), PostResult::kBadState);
  // Datagrams, two of them.
  const Qpn ud{30};
  t.nic.CreateQp(
      {.type = QpType::kUd, .qpn = ud, .pd = t.kPd, .send_cq = t.cq, .recv_cq = t.cq, .send_depth = 2});
  ASSERT_EQ(t.nic.ModifyUd(ud, QpState::kInit, 1, {}), roce::ModifyResult::kOk);
  roce::SendWr datagram = good, longer = t.Send(2, 0, 1025);
  datagram.ud = longer.ud = roce::UdAddress{Ipv4{0x0a000002}, Qpn{31}, 1};
  EXPECT_EQ(post(ud, {datagram, datagram}), PostResult::kBadState);
  ASSERT_EQ(t.nic.ModifyUd(ud, QpState::kRtr, {}, {}), roce::ModifyResult::kOk);
  ASSERT_EQ(t.nic.ModifyUd(ud, QpState::kRts, {}, Psn(0)), roce::ModifyResult::kOk);
  EXPECT_EQ(post(ud, {datagram, longer}), PostResult::kInvalid) << "longer than a datagram";
  EXPECT_EQ(post(ud, {datagram, good}), PostResult::kInvalid) << "to nobody";
  EXPECT_EQ(post(ud, {datagram, datagram, datagram}), PostResult::kFull);
  EXPECT_EQ(post(ud, {datagram, datagram}), PostResult::kOk);
}

TEST(NicTest, RefusedRequestsAreEvents) {
  TwoQps t;
  roce::SendWr write = t.Send(1, 0, 3);
  write.opcode = roce::WrOpcode::kWrite;
  write.rkey = 12345;
  ASSERT_EQ(t.nic.PostSend(t.a, write), PostResult::kOk);
  t.Settle();
  Event event;
  ASSERT_TRUE(t.nic.NextEvent(&event));
  EXPECT_EQ(event.kind, Kind::kQpAccessError);
  EXPECT_EQ(event.id, Raw(t.b));
  EXPECT_FALSE(t.nic.NextEvent(&event)) << "the requester learns it from its completion";
  const std::vector<Work> works = t.Poll();
  ASSERT_EQ(works.size(), 1u);
  EXPECT_EQ(works[0].completion.status, WcStatus::kRemAccessErr);
  EXPECT_EQ(t.nic.state(t.b), QpState::kErr);
}

TEST(NicTest, TheEndIsToldOnce) {
  TwoQps t(/*cq_depth=*/16, /*shared=*/true);
  roce::SendWr write = t.Send(1, 0, 3);
  write.opcode = roce::WrOpcode::kWrite;
  write.rkey = 12345;
  ASSERT_EQ(t.nic.PostSend(t.a, write), PostResult::kOk);
  t.Settle();
  std::vector<Kind> told;
  Event event;
  while (t.nic.NextEvent(&event)) told.push_back(event.kind);
  EXPECT_EQ(told, (std::vector{Kind::kQpAccessError, Kind::kLastWqeReached, Kind::kLastWqeReached}));
  for (const Qpn qpn : {t.a, t.b}) {
    ASSERT_EQ(t.nic.ModifyRc(qpn, {.state = QpState::kErr}), roce::ModifyResult::kOk);
    EXPECT_FALSE(t.nic.NextEvent(&event)) << "it was in ERR before";
  }
}

TEST(NicTest, SharedReceiveQueueServesBothAndTellsItsLimit) {
  TwoQps t(/*cq_depth=*/16, /*shared=*/true);
  for (uint64_t i = 0; i < 3; ++i)
    ASSERT_EQ(t.nic.PostSrqRecv(t.srq, t.Recv(i, i * 50, 50)), PostResult::kOk);
  t.nic.SetSrqLimit(t.srq, 2);
  ASSERT_EQ(t.nic.PostSend(t.a, t.Send(10, 0, 3)), PostResult::kOk);
  t.Settle();
  Event event;
  EXPECT_FALSE(t.nic.NextEvent(&event));
  ASSERT_EQ(t.nic.PostSend(t.b, t.Send(11, 0, 3)), PostResult::kOk);
  t.Settle();
  ASSERT_TRUE(t.nic.NextEvent(&event));
  EXPECT_EQ(event.kind, Kind::kSrqLimitReached);
  EXPECT_EQ(t.nic.srq_limit(t.srq), 0u) << "told once";
  EXPECT_EQ(t.Poll().size(), 4u);
  ASSERT_EQ(t.nic.ModifyRc(t.a, {.state = QpState::kErr}), roce::ModifyResult::kOk);
  ASSERT_TRUE(t.nic.NextEvent(&event));
  EXPECT_EQ(event.kind, Kind::kLastWqeReached);
}

TEST(NicTest, DestroyedQueuePairsLeaveNothing) {
  TwoQps t;
  ASSERT_EQ(t.nic.PostRecv(t.b, t.Recv(1, 0, 50)), PostResult::kOk);
  ASSERT_EQ(t.nic.PostSend(t.a, t.Send(2, 0, 3)), PostResult::kOk);
  t.nic.Run(0, t.sink);
  t.nic.DestroyQp(t.b);
  t.Settle();
  EXPECT_TRUE(t.Poll().empty());
  EXPECT_NE(t.nic.next_deadline(), 0) << "only the sender's timer is left";
  t.nic.DestroyQp(t.a);
  t.nic.Run(10 * kSecond, t.sink);
  EXPECT_EQ(t.nic.next_deadline(), kNever);
  EXPECT_TRUE(t.Poll().empty());
}

TEST(NicTest, AcknowledgementsThatAreSharedComeInTheEnd) {
  TwoQps t;
  t.nic.ShareAcks(t.b, 2, kMillisecond);
  const auto send = [&](uint64_t id) {
    ASSERT_EQ(t.nic.PostRecv(t.b, t.Recv(id, 0, 50)), PostResult::kOk);
    ASSERT_EQ(t.nic.PostSend(t.a, t.Send(id, 0, 3)), PostResult::kOk);
    t.Settle();
  };
  send(1);
  EXPECT_EQ(t.Poll().size(), 1u) << "received, and not acknowledged";
  send(2);
  EXPECT_EQ(t.Poll().size(), 3u);
  send(3);
  EXPECT_EQ(t.Poll().size(), 1u);
  t.nic.ShareAcks(t.b, 1, 0);
  t.Settle();
  EXPECT_EQ(t.Poll().size(), 1u);
}

TEST(NicTest, PeerThatIsGoneEndsInRetryExceeded) {
  TwoQps t;
  t.nic.DestroyQp(t.b);
  ASSERT_EQ(t.nic.PostSend(t.a, t.Send(2, 0, 3)), PostResult::kOk);
  Nanos now = 0;
  for (int i = 0; i < 100 && t.nic.next_deadline() != kNever; ++i)
    t.nic.Run(now = t.nic.next_deadline(), t.sink);
  const std::vector<Work> works = t.Poll();
  ASSERT_EQ(works.size(), 1u);
  EXPECT_EQ(works[0].completion.status, WcStatus::kRetryExcErr);
  // 4.096 us * 2^14, and three retries (verbs allows up to four times that).
  EXPECT_EQ(now, 4 * 67'108'864);
}

TEST(NicTest, TimeInWhichWhoeverLooksHasWaitedUsesUpNoRetry) {
  TwoQps t;
  t.nic.DestroyQp(t.b);
  ASSERT_EQ(t.nic.PostSend(t.a, t.Send(2, 0, 3)), PostResult::kOk);
  for (Nanos now = 0, i = 0; i < 30; ++i) {
    t.nic.NoteWaited(now * 2 / 3);
    t.nic.Run(now = t.nic.next_deadline(), t.sink);
  }
  EXPECT_EQ(t.Poll().size(), 0u);
}

TEST(NicTest, ManyQueuePairsShareWhatIsUnderWay) {
  constexpr uint32_t kQps = 64, kBytes = 128 * 1024;  // 128 packets each
  Nic nic(Ipv4{0x0a000001}, 1024, {});
  const uint32_t cq = nic.CreateCq(8);
  std::vector<uint8_t> bytes(kBytes);
  const uint32_t key = *nic.memory().Register(1, bytes.data(), 0, kBytes, {});
  roce::testing::KeepingSink sink;
  for (uint32_t qpn = 16; qpn < 16 + kQps; ++qpn) {
    nic.CreateQp({.qpn = Qpn{qpn}, .pd = 1, .send_cq = cq, .recv_cq = cq});
    const auto change = [&](const roce::QpChange& c) {
      ASSERT_EQ(nic.ModifyRc(Qpn{qpn}, c), roce::ModifyResult::kOk);
    };
    change({.state = QpState::kInit, .remote_read = false, .remote_write = false});
    change({.state = QpState::kRtr,
            .remote_ip = Ipv4{0x0a000002},
            .remote_qpn = Qpn{9},
            .path_mtu = 1024,
            .rq_psn = Psn(0),
            .max_dest_rd_atomic = 1,
            .min_rnr_timer = 1});
    change({.state = QpState::kRts,
            .sq_psn = Psn(0),
            .timeout = 14,
            .retry_cnt = 3,
            .rnr_retry = 7,
            .max_rd_atomic = 1});
    const size_t before = sink.sent.size();
    const roce::SendWr wr{.sges = roce::testing::OneSge(0, kBytes, key)};
    ASSERT_EQ(nic.PostSend(Qpn{qpn}, wr), PostResult::kOk);
    for (int i = 0; i < 10 && nic.next_deadline() == 0; ++i) nic.Run(0, sink);
    EXPECT_TRUE(std::any_of(sink.sent.begin() + static_cast<ptrdiff_t>(before), sink.sent.end(),
                            [](const auto& packet) { return packet.head.bth.ack_req; }))
        << "nothing would let it go on";
    if (qpn == 16) {
      EXPECT_EQ(sink.sent.size(), 128u) << "alone it has its whole window";
      EXPECT_EQ(nic.max_outstanding(), 128u);
    }
  }
  EXPECT_LE(sink.sent.size(), 2048u);
}

TEST(NicTest, MulticastReachesThoseAttached) {
  Nic nic(Ipv4{0x0a000001}, 1024, {});
  const uint32_t cq = nic.CreateCq(8);
  std::array<uint8_t, 256> bytes{};
  const uint32_t key = *nic.memory().Register(1, bytes.data(), 0, bytes.size(), {.local_write = true});
  for (const uint32_t qpn : {20u, 21u}) {
    nic.CreateQp(
        {.type = QpType::kUd, .qpn = Qpn{qpn}, .pd = 1, .send_cq = cq, .recv_cq = cq, .recv_depth = 2});
    ASSERT_EQ(nic.ModifyUd(Qpn{qpn}, QpState::kInit, 5, {}), roce::ModifyResult::kOk);
    ASSERT_EQ(nic.ModifyUd(Qpn{qpn}, QpState::kRtr, {}, {}), roce::ModifyResult::kOk);
    roce::RecvWr wr{.wr_id = qpn};
    wr.sges.count = 1;
    wr.sges.sge[0] = {(qpn - 20) * 128, 128, key};
    ASSERT_EQ(nic.PostRecv(Qpn{qpn}, wr), PostResult::kOk);
  }
  ASSERT_TRUE(nic.AttachMulticast(Qpn{21}, Ipv4{0xe0000001}));
  roce::Packet packet{.src_ip = Ipv4{0x0a000002}, .dst_ip = Ipv4{0xe0000001}};
  packet.bth = {.opcode = roce::Opcode::kUdSendOnly, .dest_qp = roce::kMulticastQpn};
  packet.deth = {.qkey = 5, .src_qp = Qpn{9}};
  nic.OnPacket(0, packet);
  std::array<Work, 4> works;
  ASSERT_EQ(nic.PollCq(cq, works), 1u);
  EXPECT_EQ(works[0].completion.wr_id, 21u);
  nic.DetachMulticast(Qpn{21}, Ipv4{0xe0000001});
  nic.OnPacket(0, packet);
  EXPECT_EQ(nic.PollCq(cq, works), 0u);
}

}  // namespace
}  // namespace epic::softnic::testing
