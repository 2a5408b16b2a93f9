// RDMA Reads of many queue pairs: what is under way together is bounded, and each gets its turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "roce/rnr_timer.h"
#include "roce/transport/transport_testing.h"
#include "softnic/core/nic.h"

namespace epic::softnic::testing {
namespace {

using roce::ModifyResult;
using roce::Opcode;
using roce::PostResult;
using roce::QpState;

constexpr Ipv4 kIp{0x0a000001}, kPeerIp{0x0a000002};
constexpr uint32_t kMtu = 256;
// Of silence, after which what was asked for does not count any more.
constexpr Nanos kMoment = 20 * kMillisecond;

// An adapter with queue pairs that read, and that of their peers. What the readers ask for stays on the way
// until it is let arrive.
class Readers {
 public:
  explicit Readers(uint32_t qps, uint8_t timeout = 14) : timeout_(timeout) {
    for (size_t i = 0; i < 2; ++i) {
      nics_.emplace_back(i == 0 ? kIp : kPeerIp, 4096, roce::Policy{});
      key_[i] =
          *nics_[i].memory().Register(1, bytes_.data(), 0, bytes_.size(),
                                      {.local_write = true, .remote_read = true, .remote_atomic = true});
      cq_[i] = nics_[i].CreateCq(1024);
      for (uint32_t qpn = 16; qpn < 16 + qps; ++qpn) Connect(i, Qpn{qpn});
    }
  }

  void Read(Qpn qpn, uint64_t id, uint32_t packets) {
    roce::SendWr wr{.wr_id = id,
                    .opcode = roce::WrOpcode::kRead,
                    .sges = roce::testing::OneSge(0, packets * kMtu, key_[0])};
    wr.rkey = key_[1];
    ASSERT_EQ(nics_[0].PostSend(qpn, wr), PostResult::kOk);
    Settle();
  }

  void Add(Qpn qpn, uint64_t id) {
    roce::SendWr wr{.wr_id = id,
                    .opcode = roce::WrOpcode::kFetchAdd,
                    .sges = roce::testing::OneSge(0, roce::kAtomicBytes, key_[0])};
    wr.rkey = key_[1];
    ASSERT_EQ(nics_[0].PostSend(qpn, wr), PostResult::kOk);
    Settle();
  }

  // Responses under way, or still to be sent.
  int64_t awaited() const { return awaited_; }
  // So many of them arrive.
  void Arrive(size_t packets) {
    for (; packets > 0 && !responses_.empty(); --packets) {
      const roce::testing::OwnedPacket packet = responses_.front();
      responses_.pop_front();
      --awaited_;
      nics_[0].OnPacket(now_, packet.packet());
      Settle();
    }
  }
  // Wr_ids of what has completed since the last call.
  std::vector<uint64_t> Completed() {
    std::vector<Work> works(1024);
    works.resize(nics_[0].PollCq(cq_[0], works));
    std::vector<uint64_t> ids;
    for (const Work& work : works) {
      EXPECT_TRUE(work.completion.ok());
      ids.push_back(work.completion.wr_id);
    }
    return ids;
  }
  // The responses that are under way never come.
  void Lose() {
    awaited_ -= static_cast<int64_t>(responses_.size());
    responses_.clear();
  }
  Nic& nic() { return nics_[0]; }
  // From RESET; its peer begins anew as well.
  void ConnectReader(Qpn qpn) {
    ASSERT_EQ(nics_[1].ModifyRc(qpn, {.state = QpState::kReset}), ModifyResult::kOk);
    for (const size_t i : {0, 1}) ToRts(i, qpn);
  }
  // Time passes; the readers are looked at as often as they ask for it.
  void Pass(Nanos time) {
    for (const Nanos until = now_ + time; now_ < until;) {
      now_ = std::clamp(nics_[0].next_deadline(), now_, until);
      Jump(0);
    }
  }
  // Or not before all of it has passed.
  void Jump(Nanos time) {
    now_ += time;
    roce::testing::KeepingSink asked;
    nics_[0].Run(now_, asked);
    Answer(asked);
    Settle();
  }
  void Settle() {
    roce::testing::KeepingSink asked;
    for (int i = 0; i < 1000 && nics_[0].next_deadline() == 0; ++i) nics_[0].Run(now_, asked);
    Answer(asked);
  }

 private:
  void Answer(const roce::testing::KeepingSink& asked) {
    roce::testing::KeepingSink answered;
    for (const auto& packet : asked.sent) {
      const bool read = packet.head.bth.opcode == Opcode::kRcReadRequest;
      EXPECT_TRUE(read || packet.head.bth.opcode == Opcode::kRcFetchAdd);
      awaited_ += read ? packet.head.reth.dma_length / kMtu : 1;
      nics_[1].OnPacket(0, packet.packet());
    }
    for (int i = 0; i < 1000 && nics_[1].next_deadline() == 0; ++i) nics_[1].Run(0, answered);
    responses_.insert(responses_.end(), answered.sent.begin(), answered.sent.end());
  }
  void Connect(size_t i, Qpn qpn) {
    nics_[i].CreateQp({.qpn = qpn, .pd = 1, .send_cq = cq_[i], .recv_cq = cq_[i], .send_depth = 64});
    ToRts(i, qpn);
  }
  void ToRts(size_t i, Qpn qpn) {
    const auto change = [&](const roce::QpChange& c) {
      ASSERT_EQ(nics_[i].ModifyRc(qpn, c), ModifyResult::kOk);
    };
    change({.state = QpState::kInit, .remote_read = true, .remote_write = false, .remote_atomic = true});
    change({.state = QpState::kRtr,
            .remote_ip = i == 0 ? kPeerIp : kIp,
            .remote_qpn = qpn,
            .path_mtu = kMtu,
            .rq_psn = Psn(0),
            .max_dest_rd_atomic = 16,
            .min_rnr_timer = 1});
    change({.state = QpState::kRts,
            .sq_psn = Psn(0),
            .timeout = timeout_,
            .retry_cnt = 3,
            .rnr_retry = 7,
            .max_rd_atomic = 16});
  }

  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(2048 * kMtu);
  std::deque<Nic> nics_;
  std::array<uint32_t, 2> key_{}, cq_{};
  std::deque<roce::testing::OwnedPacket> responses_;
  int64_t awaited_ = 0;
  const uint8_t timeout_;
  Nanos now_ = 0;
};

TEST(NicReadsTest, WhatIsAskedForTogetherIsBounded) {
  constexpr uint32_t kQps = 32, kReads = 3, kPackets = 256;
  Readers t(kQps);
  for (uint64_t k = 0; k < kReads; ++k) {
    for (uint32_t qpn = 16; qpn < 16 + kQps; ++qpn) t.Read(Qpn{qpn}, k, kPackets);
  }
  std::vector<uint64_t> completed;
  int64_t most = 0;
  for (uint32_t i = 0; i < kQps * kReads * kPackets; ++i) {
    most = std::max(most, t.awaited());
    t.Arrive(1);
    std::ranges::copy(t.Completed(), std::back_inserter(completed));
  }
  EXPECT_EQ(completed.size(), kQps * kReads);
  EXPECT_EQ(t.awaited(), 0);
  EXPECT_GE(most, 512 - kPackets);
  EXPECT_LT(most, 512 + kPackets);
  // Each in turn: nobody's third comes before everybody's first.
  const auto third = std::ranges::find(completed, 2u);
  EXPECT_EQ(std::count(completed.begin(), third, 0u), kQps);
}

// A ring of few places takes in few: half of them are asked for, and one Read more.
TEST(NicReadsTest, ASmallRingIsNotOverrun) {
  for (const size_t places : {1u, 64u, 256u, 1024u, 100000u}) {
    SCOPED_TRACE(places);
    constexpr uint32_t kQps = 32, kPackets = 16;
    Readers t(kQps);
    t.nic().SetPlaces(places);
    for (uint64_t k = 0; k < 3; ++k) {
      for (uint32_t qpn = 16; qpn < 16 + kQps; ++qpn) t.Read(Qpn{qpn}, k, kPackets);
    }
    int64_t most = 0;
    for (; t.awaited() > 0; t.Arrive(1)) most = std::max(most, t.awaited());
    const auto half = static_cast<int64_t>(std::min<size_t>(places / 2, 512));
    EXPECT_GE(most, half);
    EXPECT_LE(most, half + kPackets);
    EXPECT_EQ(t.Completed().size(), 3 * kQps);
  }
}

TEST(NicReadsTest, AQueuePairAloneIsBoundByItsOwnWindowOnly) {
  Readers t(1);
  for (uint64_t k = 0; k < 40; ++k) t.Read(Qpn{16}, k, 100);
  EXPECT_EQ(t.awaited(), 200) << "the second one is begun within the queue pair's 128 packets";
  t.Arrive(73);
  EXPECT_EQ(t.awaited(), 127 + 100);
  while (t.awaited() > 0) t.Arrive(1);
  EXPECT_EQ(t.Completed().size(), 40u);
}

TEST(NicReadsTest, OneLongReadIsAskedForAtOnce) {
  Readers t(2);
  t.Read(Qpn{16}, 0, 2000);
  EXPECT_EQ(t.awaited(), 2000);
  t.Read(Qpn{17}, 1, 1);
  EXPECT_EQ(t.awaited(), 2000);
  t.Arrive(1488);
  EXPECT_EQ(t.awaited(), 512);
  t.Arrive(1);
  EXPECT_EQ(t.awaited(), 512) << "of both";
}

// It brings an answer as a Read does, waits with them, and is let on as they are.
TEST(NicReadsTest, AnAtomicWaitsItsTurn) {
  for (const bool another_waits : {false, true}) {
    SCOPED_TRACE(another_waits);
    Readers t(3);
    t.Read(Qpn{16}, 0, 1000);
    if (another_waits) t.Read(Qpn{18}, 2, 100);
    t.Add(Qpn{17}, 1);
    EXPECT_EQ(t.awaited(), 1000);
    for (int i = 0; i < 1101 && t.awaited() > 0; ++i) t.Arrive(1);
    EXPECT_EQ(t.Completed().size(), another_waits ? 3u : 2u);
    EXPECT_EQ(t.awaited(), 0);
  }
}

// Something else that comes for the one whose turn is next does not send it to the end.
TEST(NicReadsTest, WhoFindsTheWindowFullKeepsItsTurn) {
  Readers t(3);
  t.Read(Qpn{16}, 0, 1000);
  t.Read(Qpn{17}, 1, 1);
  t.Read(Qpn{18}, 2, 1);
  t.nic().ShareAcks(Qpn{17}, 1, 0);  // it is looked at
  t.Settle();
  while (t.awaited() > 0) t.Arrive(1);
  EXPECT_EQ(t.Completed(), (std::vector<uint64_t>{0, 1, 2}));
}

// However a Read ends, and whoever waits: what it leaves is the next one's.
TEST(NicReadsTest, AReadThatEndsBadlyLetsOthersOn) {
  for (int how = 0; how < 4; ++how) {
    SCOPED_TRACE(how);
    Readers t(4);
    t.Read(Qpn{16}, 0, 1000);
    t.Read(Qpn{17}, 1, 100);
    t.Read(Qpn{18}, 2, 100);
    t.Read(Qpn{19}, 3, 100);
    EXPECT_EQ(t.awaited(), 1000);
    t.Lose();
    switch (how) {
      case 0:
        t.nic().DestroyQp(Qpn{17});
        t.nic().DestroyQp(Qpn{16});
        break;
      case 1:
        ASSERT_EQ(t.nic().ModifyRc(Qpn{17}, {.state = QpState::kErr}), ModifyResult::kOk);
        ASSERT_EQ(t.nic().ModifyRc(Qpn{16}, {.state = QpState::kErr}), ModifyResult::kOk);
        break;
      case 2:
        ASSERT_EQ(t.nic().ModifyRc(Qpn{17}, {.state = QpState::kReset}), ModifyResult::kOk);
        ASSERT_EQ(t.nic().ModifyRc(Qpn{16}, {.state = QpState::kReset}), ModifyResult::kOk);
        break;
      default:
        t.nic().DestroyQp(Qpn{18});
        t.nic().DestroyQp(Qpn{16});
    }
    t.Settle();
    EXPECT_EQ(t.awaited(), 200);
    t.Arrive(200);
    EXPECT_EQ(t.awaited(), 0);
  }
}

// What got lost is asked for again, and counted once.
TEST(NicReadsTest, ARepeatedReadIsCountedOnce) {
  Readers t(3, /*timeout=*/8);
  t.Read(Qpn{16}, 0, 600);
  t.Read(Qpn{17}, 1, 500);
  t.Read(Qpn{18}, 2, 100);
  t.Arrive(80);
  EXPECT_EQ(t.awaited(), 520);
  t.Lose();
  roce::testing::KeepingSink asked;
  const Nanos due = roce::TimeoutNanos(8);
  for (int i = 0; i < 100 && t.nic().next_deadline() <= due; ++i) t.nic().Run(due, asked);
  // Nothing is under way any more: those that waited are first, as far as there is room.
  ASSERT_EQ(asked.sent.size(), 2u);
  EXPECT_EQ(asked.sent[0].head.reth.dma_length, 500 * kMtu);
  EXPECT_EQ(asked.sent[1].head.reth.dma_length, 100 * kMtu);
}

// Whose peer says nothing keeps the others back for a moment only, also if it waits for ever.
TEST(NicReadsTest, ASilentPeerKeepsNobodyElseBack) {
  Readers t(4, /*timeout=*/0);
  t.Read(Qpn{16}, 0, 600);
  t.Lose();
  t.Read(Qpn{17}, 1, 100);
  t.Add(Qpn{18}, 2);
  EXPECT_EQ(t.awaited(), 0);
  t.Pass(kMoment);
  EXPECT_EQ(t.awaited(), 101);
  t.Arrive(101);
  EXPECT_EQ(t.Completed(), (std::vector<uint64_t>{1, 2}));
  // From then on they need not wait at all.
  for (uint64_t k = 0; k < 40; ++k) {
    for (const uint32_t qpn : {17, 18, 19}) t.Read(Qpn{qpn}, k, 50);
  }
  while (t.awaited() > 0) t.Arrive(1);
  EXPECT_EQ(t.Completed().size(), 120u);
}

// A peer that has a processor now and then is not silent: no more is asked for meanwhile.
TEST(NicReadsTest, ASlowPeerIsNotSilent) {
  Readers t(2, /*timeout=*/0);
  t.Read(Qpn{16}, 0, 600);
  t.Read(Qpn{17}, 1, 100);
  for (int i = 0; i < 5; ++i, t.Arrive(10)) t.Pass(kMoment / 2);
  EXPECT_EQ(t.awaited(), 550);
}

// One that leaves them a little is not better off: the whole window comes back.
TEST(NicReadsTest, WhatIsNotSentDoesNotNarrowTheWindow) {
  Readers t(10, /*timeout=*/0);
  t.Read(Qpn{16}, 0, 500);
  t.Lose();
  int64_t most = 0;
  for (int i = 0; i < 200; ++i) {
    for (uint32_t qpn = 17; i < 20 && qpn < 26; ++qpn) t.Read(Qpn{qpn}, 0, 20);
    t.Arrive(20);
    t.Pass(kMillisecond);
    most = std::max(most, t.awaited());
    EXPECT_LT(i < 50 ? most : 0, 512 - 500 + 20);
  }
  EXPECT_GT(most, 100);
}

// What comes late is taken as ever, and then all is as it was before.
TEST(NicReadsTest, WhatComesLateIsNotCountedTwice) {
  Readers t(3, /*timeout=*/0);
  t.Read(Qpn{16}, 0, 600);
  t.Read(Qpn{17}, 1, 600);
  t.Read(Qpn{18}, 2, 100);
  t.Pass(kMoment);
  EXPECT_EQ(t.awaited(), 1200) << "17's are counted, and keep 18 back";
  t.Arrive(700);
  EXPECT_EQ(t.awaited(), 500 + 100);
  while (t.awaited() > 0) t.Arrive(1);
  EXPECT_EQ(t.Completed(), (std::vector<uint64_t>{0, 1, 2}));
  t.Read(Qpn{16}, 3, 600);
  t.Read(Qpn{17}, 4, 600);
  EXPECT_EQ(t.awaited(), 600);
  t.Arrive(89);
  EXPECT_EQ(t.awaited(), 511 + 600);
}

// A queue pair begins anew, and what it asked for before is forgotten with the rest.
TEST(NicReadsTest, AResetTakesAllBack) {
  for (const bool silent : {false, true}) {
    SCOPED_TRACE(silent);
    Readers t(3, /*timeout=*/0);
    t.Read(Qpn{16}, 0, 600);
    t.Read(Qpn{17}, 1, 10);
    t.Lose();
    if (silent) t.Pass(kMoment);
    ASSERT_EQ(t.nic().ModifyRc(Qpn{16}, {.state = QpState::kReset}), ModifyResult::kOk);
    t.ConnectReader(Qpn{16});
    t.Settle();
    EXPECT_EQ(t.awaited(), 10);
    t.Read(Qpn{16}, 2, 501);
    EXPECT_EQ(t.awaited(), 511);
    t.Read(Qpn{18}, 3, 10);
    EXPECT_EQ(t.awaited(), 521);
    t.Read(Qpn{17}, 4, 10);
    EXPECT_EQ(t.awaited(), 521) << "all are counted";
  }
}

// The responses may lie in the port, at which nobody has looked for so long: that is no silence.
TEST(NicReadsTest, AReaderThatStoodStillHasNotWaited) {
  Readers t(2, /*timeout=*/0);
  t.Read(Qpn{16}, 0, 600);
  t.Read(Qpn{17}, 1, 100);
  for (int i = 0; i < 3; ++i) t.Jump(kSecond);
  EXPECT_EQ(t.awaited(), 600);
}

}  // namespace
}  // namespace epic::softnic::testing
