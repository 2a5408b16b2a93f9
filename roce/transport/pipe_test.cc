// Two queue pairs over a pipe that loses, repeats and reorders by seed: every byte arrives right, and every
// work request completes once and in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "base/seeds_testing.h"
#include "roce/transport/transport_testing.h"

namespace epic::roce::testing {
namespace {

constexpr uint32_t kPipeLkey = 1;
constexpr uint32_t kPipeRkey = 2;
constexpr uint32_t kRegion = 1 << 18;
constexpr Nanos kDelay = 5 * kMicrosecond;

// Atomics change a counter of their own, at the beginning of the peer's remote region.
constexpr uint32_t kCounterBytes = 8;

// Each job that binds or invalidates has a window of its own, with which that can be done once.
constexpr uint32_t kFirstWindow = 1000;

bool LandsInReceive(WrOpcode op) {
  return op == WrOpcode::kSend || op == WrOpcode::kSendImm || op == WrOpcode::kSendInv;
}
bool TakesReceive(WrOpcode op) { return LandsInReceive(op) || HasImm(op); }

struct PipeFaults {
  double loss = 0, duplicate = 0, reorder = 0;
};

// What a sent work request must lead to.
struct Job {
  SendWr wr;
  uint32_t length = 0;
  std::vector<uint8_t> data;  // sent, written, or what a read or atomic must bring
};

struct End {
  explicit End(const Wiring& wiring) : qp(Connected(wiring)) {
    memory.Add(kPipeLkey, 0, kRegion);
    memory.Add(kPipeRkey, kRegion, kRegion, /*remote=*/true);
  }
  QueuePair qp;
  FlatMemory memory;
  std::vector<Job> jobs;
  size_t posted = 0;
  std::vector<Completion> sent, received;
  size_t recvs_posted = 0;
};

class Pipe {
 public:
  Pipe(uint64_t seed, const PipeFaults& faults, const Policy& policy) : random_(seed), faults_(faults) {
    Wiring w{.policy = policy, .path_mtu = Pick({256, 1024}), .retry_cnt = 7, .rd_atomic = 3};
    w.sq_psn = Chance(0.5) ? 0xfffff0 : static_cast<uint32_t>(random_() & Psn::kMask);
    w.rq_psn = Chance(0.5) ? 0xfffff8 : static_cast<uint32_t>(random_() & Psn::kMask);
    w.policy.retry_7_is_forever = true;  // heavy loss may well use up seven
    w.timeout = 6;                       // 262 us
    w.min_rnr_timer = 1;
    w.policy.ack_after = static_cast<int>(Pick({1, 4}));
    w.policy.ack_delay_ns = 20 * kMicrosecond;
    w.policy.give_credits = seed % 2 == 0;
    for (const bool mirrored : {false, true}) {
      w.mirrored = mirrored;
      ends_.emplace_back(w);
      MakeJobs(ends_.back());
    }
  }

  void Run() {
    while (!Done()) {
      ASSERT_LT(now_, 100 * kSecond) << "does not end";
      for (size_t i = 0; i < 2; ++i) Drive(i);
      Nanos next = kNever;
      if (!flying_.empty()) next = flying_.begin()->first;
      for (const End& end : ends_) next = std::min(next, std::max(now_, end.qp.next_deadline()));
      // Receives are posted late now and then, so that RNR NAKs happen.
      now_ = std::max(now_, std::min(next, now_ + 50 * kMicrosecond));
      while (!flying_.empty() && flying_.begin()->first <= now_) {
        const auto [to, packet] = flying_.begin()->second;
        flying_.erase(flying_.begin());
        ends_[to].qp.OnPacket(now_, packet.packet(), ends_[to].memory);
        Drive(to);
      }
    }
    for (size_t i = 0; i < 2; ++i) Check(ends_[i], ends_[1 - i]);
  }

  const QpCounters& counters(size_t i) const { return ends_[i].qp.counters(); }

 private:
  bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
  uint32_t Pick(std::initializer_list<uint32_t> from) { return from.begin()[random_() % from.size()]; }

  // Each job has its own place in its side's memory, and writes and reads their own in the peer's.
  void MakeJobs(End& end) {
    uint32_t at = kCounterBytes;
    uint64_t counter = 0;
    for (uint32_t i = 0; i < 40; ++i) {
      const auto opcode = static_cast<WrOpcode>(random_() % 10);
      const uint32_t length = IsAtomic(opcode) ? kAtomicBytes
                              : IsLocal(opcode) || Chance(0.1)
                                  ? 0
                                  : static_cast<uint32_t>(random_() % (Chance(0.3) ? 12000 : 900));
      if (at + length > kRegion / 2) break;
      Job job{.wr = {.wr_id = i, .opcode = opcode}, .length = length};
      job.data.resize(length);
      for (uint8_t& byte : job.data) byte = static_cast<uint8_t>(random_());
      job.wr.signaled = Chance(0.7);
      job.wr.fence = Chance(0.1);
      job.wr.imm = static_cast<uint32_t>(random_());
      job.wr.remote_address = kRegion + at;
      job.wr.rkey = kPipeRkey;
      if (IsAtomic(opcode)) counter = MakeAtomic(job, counter);
      // In up to three pieces.
      const uint32_t a = length / 3;
      job.wr.sges.count = 3;
      job.wr.sges.sge[0] = {at, a, kPipeLkey};
      job.wr.sges.sge[1] = {at + a, a / 2, kPipeLkey};
      job.wr.sges.sge[2] = {at + a + a / 2, length - a - a / 2, kPipeLkey};
      job.wr.invalidate_rkey = job.wr.bind.emplace().rkey =
          kFirstWindow + 2 * i + (opcode == WrOpcode::kSendInv ? 1 : 0);
      if (IsLocal(opcode)) job.wr.sges.count = 0;
      at += length;
      end.jobs.push_back(std::move(job));
    }
    end.jobs.back().wr.signaled = true;
  }

  // The request, and what it must bring: what the counter is by then. What it leaves there.
  uint64_t MakeAtomic(Job& job, uint64_t counter) {
    std::memcpy(job.data.data(), &counter, sizeof counter);
    job.wr.swap = random_();
    if (job.wr.opcode == WrOpcode::kFetchAdd) return counter + (job.wr.compare_add = random_());
    job.wr.compare_add = Chance(0.7) ? counter : random_();
    return job.wr.compare_add == counter ? job.wr.swap : counter;
  }

  // Who invalidates it finds it bound.
  static void MakeWindow(const SendWr& wr, End& end, End& peer) {
    FlatMemory& memory = wr.opcode == WrOpcode::kSendInv ? peer.memory : end.memory;
    memory.AddWindow(wr.bind->rkey);
    EXPECT_TRUE(wr.opcode == WrOpcode::kBindMw || memory.Bind(*wr.bind));
  }

  void Post(End& end, End& peer) {
    while (end.posted < end.jobs.size()) {
      Job& job = end.jobs[end.posted];
      const auto at = static_cast<std::ptrdiff_t>(job.wr.remote_address - kRegion);
      if (job.wr.opcode == WrOpcode::kRead) {
        std::ranges::copy(job.data, peer.memory.region(kPipeRkey).bytes.begin() + at);
      } else if (!IsAtomic(job.wr.opcode)) {
        std::ranges::copy(job.data, end.memory.region(kPipeLkey).bytes.begin() + at);
      }
      MakeWindow(job.wr, end, peer);
      SendWr wr = job.wr;
      if (IsAtomic(wr.opcode)) wr.remote_address = kRegion;
      if (job.length > 0 && job.length <= 64 && !IsReadOrAtomic(wr.opcode)) wr.inline_bytes = job.data;
      ASSERT_EQ(end.qp.PostSend(wr), PostResult::kOk);
      // Inline data is the caller's again at once.
      if (!wr.inline_bytes.empty())
        std::fill_n(end.memory.region(kPipeLkey).bytes.begin() + at, job.length, uint8_t{0xdd});
      ++end.posted;
    }
  }

  // Received messages land in the upper half of the local region, each at the place of its job.
  void PostRecv(End& end, const End& peer) {
    while (end.recvs_posted < peer.jobs.size()) {
      const Job& job = peer.jobs[end.recvs_posted];
      if (TakesReceive(job.wr.opcode)) {
        if (Chance(0.5)) return;
        const uint64_t at = job.wr.remote_address - kRegion + kRegion / 2;
        ASSERT_EQ(end.qp.PostRecv({.wr_id = job.wr.wr_id, .sges = OneSge(at, job.length, kPipeLkey)}),
                  PostResult::kOk);
      }
      ++end.recvs_posted;
    }
  }

  void Drive(size_t i) {
    End& end = ends_[i];
    Post(end, ends_[1 - i]);
    PostRecv(end, ends_[1 - i]);
    KeepingSink sink;
    end.qp.Poll(now_, end.memory, sink, 1 + static_cast<int>(random_() % 8));
    for (OwnedPacket& packet : sink.sent) {
      if (Chance(faults_.loss)) continue;
      const int copies = Chance(faults_.duplicate) ? 2 : 1;
      for (int c = 0; c < copies; ++c) {
        const Nanos late = Chance(faults_.reorder) ? static_cast<Nanos>(random_() % 100'000) : 0;
        flying_.emplace(now_ + kDelay + late, std::make_pair(1 - i, packet));
      }
    }
    for (Completion c; end.qp.NextCompletion(&c);) (c.is_recv() ? end.received : end.sent).push_back(c);
  }

  bool Done() const {
    return std::ranges::all_of(ends_, [](const End& end) {
      return !end.sent.empty() &&
             (end.sent.back().wr_id == end.jobs.back().wr.wr_id || !end.sent.back().ok());
    });
  }

  static void Check(End& end, End& peer) {
    std::vector<uint64_t> want_sent, sent, want_received, received;
    for (const Job& job : end.jobs) {
      SCOPED_TRACE(::testing::Message()
                   << "job " << job.wr.wr_id << " opcode " << static_cast<int>(job.wr.opcode));
      if (job.wr.signaled) want_sent.push_back(job.wr.wr_id);
      const auto place = static_cast<std::ptrdiff_t>(job.wr.remote_address - kRegion);
      const bool to_recv = LandsInReceive(job.wr.opcode);
      const auto at = IsReadOrAtomic(job.wr.opcode) ? end.memory.region(kPipeLkey).bytes.begin() + place
                      : to_recv ? peer.memory.region(kPipeLkey).bytes.begin() + place + kRegion / 2
                                : peer.memory.region(kPipeRkey).bytes.begin() + place;
      EXPECT_TRUE(std::equal(job.data.begin(), job.data.end(), at));
      if (!to_recv && job.wr.opcode != WrOpcode::kWriteImm) continue;
      want_received.push_back(job.wr.wr_id);
      if (want_received.size() > peer.received.size()) continue;
      const Completion& c = peer.received[want_received.size() - 1];
      EXPECT_EQ(c.bytes, job.length);
      EXPECT_EQ(c.has_imm, HasImm(job.wr.opcode));
      EXPECT_EQ(c.imm, c.has_imm ? job.wr.imm : 0);
      EXPECT_EQ(c.has_invalidated, job.wr.opcode == WrOpcode::kSendInv);
      EXPECT_EQ(c.invalidated_rkey, c.has_invalidated ? job.wr.invalidate_rkey : 0);
    }
    for (const Completion& c : end.sent) {
      EXPECT_EQ(c.status, WcStatus::kSuccess);
      sent.push_back(c.wr_id);
    }
    for (const Completion& c : peer.received) {
      EXPECT_EQ(c.status, WcStatus::kSuccess);
      received.push_back(c.wr_id);
    }
    EXPECT_EQ(sent, want_sent);
    EXPECT_EQ(received, want_received);
    EXPECT_EQ(end.qp.counters().ack_beyond, 0u);
    EXPECT_EQ(end.qp.counters().bad_response, 0u);
  }

  std::mt19937_64 random_;
  PipeFaults faults_;
  Nanos now_ = 0;
  std::deque<End> ends_;
  std::multimap<Nanos, std::pair<size_t, OwnedPacket>> flying_;
};

void RunSeeds(const PipeFaults& faults, uint64_t seeds) {
  const auto [first, count] = SeedsToRun(seeds);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    for (const Policy& policy : {Policy{}, RxeLike()}) {
      SCOPED_TRACE(::testing::Message()
                   << "replay: EPIC_SEED=" << seed << (policy.one_retry_per_ack ? " rxe" : ""));
      Pipe pipe(seed, faults, policy);
      pipe.Run();
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(PipeTest, NoFaultsNoRepetitions) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "replay: seed " << seed);
    Pipe pipe(seed, {}, {});
    pipe.Run();
    EXPECT_EQ(pipe.counters(0).timeouts + pipe.counters(1).timeouts, 0u);
    EXPECT_EQ(pipe.counters(0).naks_received + pipe.counters(1).naks_received, 0u);
    if (::testing::Test::HasFailure()) return;
  }
}
TEST(PipeTest, Loss) { RunSeeds({.loss = 0.01}, 150); }
TEST(PipeTest, HeavyLoss) { RunSeeds({.loss = 0.2}, 60); }
TEST(PipeTest, Duplication) { RunSeeds({.duplicate = 0.2}, 100); }
TEST(PipeTest, Reordering) { RunSeeds({.reorder = 0.2}, 100); }
TEST(PipeTest, Everything) { RunSeeds({.loss = 0.05, .duplicate = 0.05, .reorder = 0.05}, 150); }

}  // namespace
}  // namespace epic::roce::testing
