// Unreliable connections of an adapter.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <numeric>
#include <random>
#include <vector>

#include "roce/transport/transport_testing.h"
#include "softnic/core/nic.h"

namespace epic::softnic::testing {
namespace {

using roce::ModifyResult;
using roce::PostResult;
using roce::QpState;
using roce::WrOpcode;

constexpr Ipv4 kIp{0x0a000001}, kPeerIp{0x0a000002};
constexpr uint32_t kPd = 1, kMtu = 256, kHalf = 1 << 15;

// Two UC queue pairs of one adapter, or each of its own.
struct Pair {
  explicit Pair(bool apart = false, bool shared = false) {
    for (size_t i = 0; i < 2; ++i) {
      nics.emplace_back(apart && i == 1 ? kPeerIp : kIp, 1024, roce::Policy{});
      Nic& nic = nics.back();
      key[i] = *nic.memory().Register(kPd, bytes[i].data(), 0, bytes[i].size(),
                                      {.local_write = true, .remote_write = true});
      cq[i] = nic.CreateCq(64);
    }
    if (shared) srq = at(1).CreateSrq(8);
    for (size_t i = 0; i < 2; ++i) {
      at_[i] = apart ? i : 0;
      if (!apart) key[i] = key[0], cq[i] = cq[0];
      at(i).CreateQp({.type = QpType::kUc,
                      .qpn = qpn[i],
                      .pd = kPd,
                      .send_cq = cq[i],
                      .recv_cq = cq[i],
                      .srq = shared && i == 1 ? std::optional(srq) : std::nullopt,
                      .send_depth = 16,
                      .recv_depth = 16});
      Change(i, {.state = QpState::kInit, .remote_write = true});
      Change(i, {.state = QpState::kRtr,
                 .remote_ip = apart && i == 0 ? kPeerIp : kIp,
                 .remote_qpn = qpn[1 - i],
                 .path_mtu = kMtu,
                 .rq_psn = Psn(0)});
      Change(i, {.state = QpState::kRts, .sq_psn = Psn(0)});
    }
  }

  Nic& at(size_t i) { return nics[at_[i]]; }
  void Change(size_t i, const roce::QpChange& change) {
    ASSERT_EQ(at(i).ModifyUc(qpn[i], change), ModifyResult::kOk);
  }
  void Settle() {
    for (int k = 0; k < 100 && nics[0].next_deadline() == 0; ++k) nics[0].Run(0, sink);
  }
  roce::SgeList Bytes(size_t i, uint64_t at, uint32_t length) const {
    return roce::testing::OneSge(at, length, key[i]);
  }
  std::vector<Work> Poll(size_t i) {
    std::vector<Work> works(64);
    works.resize(at(i).PollCq(cq[i], works));
    return works;
  }

  std::array<std::vector<uint8_t>, 2> bytes = {std::vector<uint8_t>(2 * kHalf),
                                               std::vector<uint8_t>(2 * kHalf)};
  std::deque<Nic> nics;
  std::array<size_t, 2> at_{};
  std::array<uint32_t, 2> key{}, cq{};
  std::array<Qpn, 2> qpn{Qpn{16}, Qpn{17}};
  uint32_t srq = 0;
  roce::testing::KeepingSink sink;
};

TEST(NicUcTest, SendsAndWritesGoRoundInside) {
  Pair t;
  std::iota(t.bytes[0].begin(), t.bytes[0].begin() + 1000, uint8_t{0});
  ASSERT_EQ(t.at(1).PostRecv(t.qpn[1], {.wr_id = 1, .sges = t.Bytes(1, kHalf, 1000)}), PostResult::kOk);
  ASSERT_EQ(t.at(0).PostSend(t.qpn[0], {.wr_id = 2, .sges = t.Bytes(0, 0, 1000)}), PostResult::kOk);
  t.Settle();
  roce::SendWr write{.wr_id = 3, .opcode = WrOpcode::kWrite, .sges = t.Bytes(0, 0, 700)};
  write.remote_address = kHalf + 2000;
  write.rkey = t.key[1];
  ASSERT_EQ(t.at(0).PostSend(t.qpn[0], write), PostResult::kOk);
  t.Settle();
  EXPECT_TRUE(t.sink.sent.empty());
  const auto works = t.Poll(0);
  ASSERT_EQ(works.size(), 3u);
  EXPECT_EQ(works[0].completion.wr_id, 2u) << "a send is complete when it has gone";
  EXPECT_EQ(works[1].completion.wr_id, 1u);
  EXPECT_FALSE(works[1].is_ud);
  const auto& all = t.bytes[0];
  EXPECT_TRUE(std::equal(all.begin(), all.begin() + 1000, all.begin() + kHalf));
  EXPECT_TRUE(std::equal(all.begin(), all.begin() + 700, all.begin() + kHalf + 2000));
  write.opcode = WrOpcode::kRead;
  EXPECT_EQ(t.at(0).PostSend(t.qpn[0], write), PostResult::kInvalid);
  EXPECT_EQ(t.at(0).next_deadline(), kNever) << "nothing waits for an answer";
}

TEST(NicUcTest, WhatIsLongIsSentInTurns) {
  Pair t(/*apart=*/true);
  ASSERT_EQ(t.at(0).PostSend(t.qpn[0], {.sges = t.Bytes(0, 0, 2 * kHalf)}), PostResult::kOk);
  ASSERT_EQ(t.at(0).PostSend(t.qpn[0], {.sges = t.Bytes(0, 0, 2 * kHalf)}), PostResult::kOk);
  t.at(0).Run(0, t.sink);
  EXPECT_EQ(t.sink.sent.size(), 256u);
  t.Settle();
  EXPECT_EQ(t.sink.sent.size(), 512u);
  EXPECT_EQ(t.Poll(0).size(), 2u);
}

TEST(NicUcTest, ADrainedQueueIsTold) {
  Pair t;
  t.Change(0, {.state = QpState::kSqd});
  EXPECT_TRUE(t.at(0).sq_drained(t.qpn[0]));
  Event event;
  ASSERT_TRUE(t.at(0).NextEvent(&event));
  EXPECT_EQ(event.kind, Event::Kind::kSqDrained);
  EXPECT_FALSE(t.at(0).NextEvent(&event));
}

TEST(NicUcTest, WithASharedReceiveQueue) {
  Pair t(/*apart=*/false, /*shared=*/true);
  ASSERT_EQ(t.at(1).PostSrqRecv(t.srq, {.wr_id = 1, .sges = t.Bytes(1, kHalf, 100)}), PostResult::kOk);
  ASSERT_EQ(t.at(0).PostSend(t.qpn[0], {.wr_id = 2, .sges = t.Bytes(0, 0, 100)}), PostResult::kOk);
  t.Settle();
  EXPECT_EQ(t.Poll(0).size(), 2u);
  t.Change(1, {.state = QpState::kErr});
  Event event;
  ASSERT_TRUE(t.at(1).NextEvent(&event));
  EXPECT_EQ(event.kind, Event::Kind::kLastWqeReached);
}

// Messages over a network that loses, in virtual time: each that arrives is whole, the next or a later one,
// and counted; none comes where nothing was lost before it and does not arrive.
TEST(NicUcTest, WhatArrivesIsWholeAndInOrder) {
  std::random_device device;
  const uint64_t seed =
      std::getenv("EPIC_SEED") != nullptr ? std::stoull(std::getenv("EPIC_SEED")) : device();
  SCOPED_TRACE("EPIC_SEED=" + std::to_string(seed) +
               " build/release/softnic/softnic_test --gtest_filter='*WhatArrivesIsWhole*'");
  std::mt19937_64 random(seed);
  for (const double loss : {0.0, 0.01, 0.2}) {
    Pair t(/*apart=*/true);
    uint32_t next = 0, arrived = 0;
    for (uint32_t k = 0; k < 400; ++k) {
      const auto length = static_cast<uint32_t>(4 + random() % 3000);
      std::fill_n(t.bytes[0].begin(), length, static_cast<uint8_t>(k * 31));
      std::memcpy(t.bytes[0].data(), &k, sizeof k);
      if (k == next) {
        ASSERT_EQ(t.at(1).PostRecv(t.qpn[1], {.wr_id = k, .sges = t.Bytes(1, kHalf, 3100)}), PostResult::kOk);
      }
      roce::SendWr wr{.opcode = WrOpcode::kSendImm, .sges = t.Bytes(0, 0, length), .imm = length};
      ASSERT_EQ(t.at(0).PostSend(t.qpn[0], wr), PostResult::kOk);
      t.Settle();
      EXPECT_EQ(t.Poll(0).size(), 1u);
      bool lost = false;
      for (const auto& packet : t.sink.sent) {
        const bool loses = std::uniform_real_distribution<>(0, 1)(random) < loss;
        lost |= loses;
        if (!loses) t.at(1).OnPacket(0, packet.packet());
      }
      t.sink.sent.clear();
      const auto works = t.Poll(1);
      ASSERT_EQ(works.size(), lost ? 0u : 1u) << "message " << k;
      if (lost) continue;
      ++arrived;
      EXPECT_TRUE(works[0].completion.ok());
      EXPECT_EQ(works[0].completion.bytes, length);
      EXPECT_EQ(works[0].completion.imm, length);
      EXPECT_TRUE(std::equal(t.bytes[0].begin(), t.bytes[0].begin() + length, t.bytes[1].begin() + kHalf));
      next = k + 1;
    }
    EXPECT_TRUE(loss == 0 ? arrived == 400 : arrived > 50 && arrived < 400) << arrived;
  }
}

}  // namespace
}  // namespace epic::softnic::testing
