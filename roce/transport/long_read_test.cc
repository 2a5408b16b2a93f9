// Reads of thousands of packets over a link that takes its time for each and loses some by seed: a Read that
// is asked for again has the rest of the first answer before it, and must not be given up for that.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "base/seeds_testing.h"
#include "roce/transport/transport_testing.h"

namespace epic::roce::testing {
namespace {

constexpr uint32_t kReadLkey = 1, kReadRkey = 2;
constexpr uint32_t kBytes = 8 << 20;
constexpr uint32_t kPathMtu = 1024;
constexpr Nanos kReadDelay = 5 * kMicrosecond;
// With it all of a Read is under way for a second, which is longer than a peer is waited for that says
// nothing: 8 times 67 ms.
constexpr Nanos kPacketTime = 120 * kMicrosecond;

// The requester is end 0.
class SlowLink {
 public:
  SlowLink(uint64_t seed, double loss) : random_(seed), loss_(loss) {
    Wiring w{.path_mtu = kPathMtu, .retry_cnt = 7};
    for (size_t i = 0; i < 2; ++i) {
      w.mirrored = i == 1;
      ends_.emplace_back(w);
      ends_[i].memory.Add(i == 0 ? kReadLkey : kReadRkey, 0, kBytes, /*remote=*/i == 1);
    }
    auto& bytes = ends_[1].memory.region(kReadRkey).bytes;
    for (size_t at = 0; at < bytes.size(); ++at) bytes[at] = static_cast<uint8_t>(at * 7 + (at >> 10));
  }

  // Reads everything in so many Reads, and returns how the first ended that failed.
  WcStatus Read(uint32_t reads) {
    for (uint32_t i = 0; i < reads; ++i) {
      const uint32_t part = kBytes / reads;
      SendWr wr{.wr_id = i, .opcode = WrOpcode::kRead, .sges = OneSge(uint64_t{i} * part, part, kReadLkey)};
      wr.remote_address = uint64_t{i} * part;
      wr.rkey = kReadRkey;
      EXPECT_EQ(ends_[0].qp.PostSend(wr), PostResult::kOk);
    }
    for (uint32_t i = 0; i < reads; ++i) {
      Completion done;
      while (!ends_[0].qp.NextCompletion(&done)) Step();
      if (!done.ok()) return done.status;
    }
    return WcStatus::kSuccess;
  }

  bool all_came() {
    return ends_[0].memory.region(kReadLkey).bytes == ends_[1].memory.region(kReadRkey).bytes;
  }
  const QpCounters& counters() const { return ends_[0].qp.counters(); }

  // Of the responses the one with this number, from 0, is lost.
  void Lose(uint64_t response) { lose_ = response; }

 private:
  struct End {
    explicit End(const Wiring& wiring) : qp(Connected(wiring)) {}
    QueuePair qp;
    FlatMemory memory;
    Nanos free_at = 0;  // when its next packet may leave
    std::deque<std::pair<Nanos, OwnedPacket>> coming;
  };

  bool Loses(size_t from) {
    const bool chosen = from == 1 && responses_++ == lose_;
    return chosen || std::uniform_real_distribution<>(0, 1)(random_) < loss_;
  }

  // What is due now, and on to what is due next.
  void Step() {
    Nanos next = kNever;
    for (size_t i = 0; i < 2; ++i) {
      End& end = ends_[i];
      while (!end.coming.empty() && end.coming.front().first <= now_) {
        end.qp.OnPacket(now_, end.coming.front().second.packet(), end.memory);
        end.coming.pop_front();
      }
      KeepingSink sink;
      if (end.free_at <= now_) end.qp.Poll(now_, end.memory, sink, 1);
      for (const OwnedPacket& packet : sink.sent) {
        end.free_at = now_ + kPacketTime;
        if (!Loses(i)) ends_[1 - i].coming.emplace_back(end.free_at + kReadDelay, packet);
      }
    }
    for (const End& end : ends_) {
      next = std::min(next, std::max(end.free_at, end.qp.next_deadline()));
      if (!end.coming.empty()) next = std::min(next, end.coming.front().first);
    }
    now_ = std::max(now_, next);
  }

  std::mt19937_64 random_;
  double loss_;
  uint64_t lose_ = UINT64_MAX, responses_ = 0;
  Nanos now_ = 0;
  std::deque<End> ends_;
};

// The rest of the first answer takes longer than all retries would wait.
TEST(LongReadTest, WhatComesBehindAGapIsASignOfLife) {
  SlowLink link(1, 0);
  link.Lose(1);
  EXPECT_EQ(link.Read(1), WcStatus::kSuccess);
  EXPECT_TRUE(link.all_came());
  EXPECT_EQ(link.counters().timeouts, 0u);
  EXPECT_EQ(link.counters().packets_repeated, 1u);
}

TEST(LongReadTest, WithLosses) {
  const auto [first, count] = SeedsToRun(40);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(::testing::Message() << "replay: EPIC_SEED=" << seed);
    SlowLink link(seed, 0.003);  // some 25 of a Read, and after each the rest comes again
    ASSERT_EQ(link.Read(seed % 2 == 0 ? 1 : 16), WcStatus::kSuccess);
    ASSERT_TRUE(link.all_came());
  }
}

}  // namespace
}  // namespace epic::roce::testing
