// Datagrams of an adapter.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "roce/transport/transport_testing.h"
#include "softnic/core/nic.h"

namespace epic::softnic::testing {
namespace {

using roce::ModifyResult;
using roce::PostResult;
using roce::QpState;

constexpr Ipv4 kIp{0x0a000001};
constexpr uint32_t kPd = 1, kQkey = 5, kBytes = 100, kHalf = 1 << 10;

// Two UD queue pairs of one adapter.
struct Pair {
  explicit Pair(bool shared = false) {
    if (shared) srq = nic.CreateSrq(8);
    key = *nic.memory().Register(kPd, bytes.data(), 0, bytes.size(), {.local_write = true});
    for (const Qpn qpn : {from, to}) {
      nic.CreateQp({.type = QpType::kUd,
                    .qpn = qpn,
                    .pd = kPd,
                    .send_cq = cq,
                    .recv_cq = cq,
                    .srq = shared && qpn == to ? std::optional(srq) : std::nullopt,
                    .send_depth = 16,
                    .recv_depth = 16});
      Change(qpn, QpState::kInit, kQkey);
      Change(qpn, QpState::kRtr);
      Change(qpn, QpState::kRts, {}, Psn(0));
    }
  }

  void Change(Qpn qpn, QpState state, std::optional<uint32_t> qkey = {}, std::optional<Psn> psn = {}) {
    ASSERT_EQ(nic.ModifyUd(qpn, state, qkey, psn), ModifyResult::kOk);
  }
  void Settle() {
    for (int k = 0; k < 100 && nic.next_deadline() == 0; ++k) nic.Run(0, sink);
  }
  PostResult Send(uint64_t id) {
    roce::SendWr wr{.wr_id = id, .sges = roce::testing::OneSge(0, kBytes, key)};
    wr.ud = roce::UdAddress{kIp, to, kQkey, {}};
    return nic.PostSend(from, wr);
  }
  roce::RecvWr Recv(uint64_t id) const {
    return {.wr_id = id, .sges = roce::testing::OneSge(kHalf, roce::kGrhBytes + kBytes, key)};
  }
  std::vector<Work> Poll() {
    std::vector<Work> works(64);
    works.resize(nic.PollCq(cq, works));
    return works;
  }
  // Those that wait, and no others.
  std::vector<Event::Kind> Events() {
    std::vector<Event::Kind> kinds;
    for (Event event; nic.NextEvent(&event);) kinds.push_back(event.kind);
    return kinds;
  }

  std::vector<uint8_t> bytes = std::vector<uint8_t>(2 * kHalf);
  Nic nic{kIp, 1024, roce::Policy{}};
  uint32_t key = 0, cq = nic.CreateCq(64), srq = 0;
  Qpn from{16}, to{17};
  roce::testing::KeepingSink sink;
};

TEST(NicUdTest, WhatIsPostedWhileDrainedLeavesAfterwards) {
  Pair t;
  ASSERT_EQ(t.nic.PostRecv(t.to, t.Recv(1)), PostResult::kOk);
  t.Change(t.from, QpState::kSqd);
  ASSERT_EQ(t.Send(2), PostResult::kOk);
  t.Settle();
  EXPECT_TRUE(t.Poll().empty());
  t.Change(t.from, QpState::kRts);
  t.Settle();
  EXPECT_EQ(t.Poll().size(), 2u);
}

TEST(NicUdTest, ADrainedQueueIsTold) {
  using Events = std::vector<Event::Kind>;
  Pair t;
  t.Change(t.from, QpState::kSqd);
  EXPECT_TRUE(t.nic.sq_drained(t.from));
  EXPECT_EQ(t.Events(), Events{Event::Kind::kSqDrained});
  t.Change(t.from, QpState::kSqd);
  EXPECT_EQ(t.Events(), Events{}) << "it was";
  t.Change(t.from, QpState::kRts);
  EXPECT_FALSE(t.nic.sq_drained(t.from));
  t.Change(t.from, QpState::kSqd);
  EXPECT_EQ(t.Events(), Events{Event::Kind::kSqDrained});
}

TEST(NicUdTest, WithASharedReceiveQueue) {
  using Events = std::vector<Event::Kind>;
  Pair t(/*shared=*/true);
  EXPECT_EQ(t.nic.PostRecv(t.to, t.Recv(1)), PostResult::kInvalid);
  for (uint64_t id = 1; id <= 2; ++id) ASSERT_EQ(t.nic.PostSrqRecv(t.srq, t.Recv(id)), PostResult::kOk);
  t.nic.SetSrqLimit(t.srq, 2);
  ASSERT_EQ(t.Send(3), PostResult::kOk);
  t.Settle();
  const std::vector<Work> works = t.Poll();
  ASSERT_EQ(works.size(), 2u);
  EXPECT_EQ(works[1].completion.wr_id, 1u);
  EXPECT_TRUE(works[1].is_ud);
  EXPECT_EQ(t.Events(), Events{Event::Kind::kSrqLimitReached});
  for (int i = 0; i < 2; ++i) t.Change(t.to, QpState::kErr);
  EXPECT_EQ(t.Events(), Events{Event::Kind::kLastWqeReached}) << "once";
  t.Change(t.from, QpState::kErr);
  EXPECT_EQ(t.Events(), Events{}) << "it has receives of its own";
}

}  // namespace
}  // namespace epic::softnic::testing
