// Drivers of queue pairs between hosts, for tests in virtual time.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/own_memory.h"
#include "sim/world.h"

namespace epic::sim {

// A rank of a ring: in each step it sends a chunk to the next rank, its own at first and then what it has
// received from the rank before in the step before. The last of n ranks' 2(n - 1) steps is the end.
class RingRank final : public PeerDriver {
 public:
  RingRank(int rank, int ranks, size_t chunk_bytes)
      : rank_(rank),
        ranks_(ranks),
        chunks_(static_cast<size_t>(steps()) + 1, std::vector<uint8_t>(chunk_bytes)) {
    for (size_t i = 0; i < chunk_bytes; ++i) chunks_[0][i] = ByteOf(rank, i);
  }
  int steps() const { return 2 * (ranks_ - 1); }
  int next() const { return (rank_ + 1) % ranks_; }
  int before() const { return (rank_ + ranks_ - 1) % ranks_; }
  bool done() const { return received_ == steps(); }
  bool failed() const { return failed_; }
  // Bytes that are not of the rank whose chunk it is.
  size_t Wrong() const {
    size_t wrong = 0;
    for (int step = 1; step <= steps(); ++step) {
      const int origin = ((rank_ - step) % ranks_ + ranks_) % ranks_;
      const std::vector<uint8_t>& chunk = chunks_[static_cast<size_t>(step)];
      for (size_t i = 0; i < chunk.size(); ++i) wrong += chunk[i] != ByteOf(origin, i);
    }
    return wrong;
  }

  void OnCompletion(Nanos, int peer, const roce::Completion& c) override {
    failed_ = failed_ || !c.ok();
    if (!c.ok() || !c.is_recv()) return;
    EXPECT_EQ(peer, before());
    EXPECT_EQ(c.wr_id, static_cast<uint64_t>(++received_));
  }
  void Poll(Nanos, Peers& peers) override {
    while (posted_ < steps()) {
      std::vector<uint8_t>& into = chunks_[static_cast<size_t>(++posted_)];
      const roce::RecvWr wr{.wr_id = static_cast<uint64_t>(posted_),
                            .sges = SgesOf(into.data(), into.size())};
      EXPECT_EQ(peers.PostRecv(before(), wr), roce::PostResult::kOk);
    }
    for (; sent_ <= received_ && sent_ < steps() && !failed_; ++sent_) {
      const std::vector<uint8_t>& from = chunks_[static_cast<size_t>(sent_)];
      EXPECT_EQ(peers.PostSend(next(), {.sges = SgesOf(from.data(), from.size())}), roce::PostResult::kOk);
    }
  }

 private:
  static uint8_t ByteOf(int rank, size_t i) {
    return static_cast<uint8_t>((i * 2654435761u >> 13) + static_cast<size_t>(rank) * 37);
  }

  const int rank_;
  const int ranks_;
  std::vector<std::vector<uint8_t>> chunks_;  // its own, and what came in each step
  int posted_ = 0;                            // receives
  int sent_ = 0;
  int received_ = 0;
  bool failed_ = false;
};

// A ring of all ranks of a group.
struct Ring {
  Ring(World& world, size_t chunk_bytes, const PeerConfig& config = {}, int group = 0) {
    const int n = world.ranks(group);
    for (int r = 0; r < n; ++r) {
      ranks.push_back(std::make_unique<RingRank>(r, n, chunk_bytes));
      world.AddPeers(r, *ranks.back(), config, group);
    }
    for (int r = 0; r < n && !(n == 2 && r == 1); ++r) world.ConnectPeers(r, (r + 1) % n, group);
  }
  bool done() const {
    for (const auto& rank : ranks) {
      if (!rank->done()) return false;
    }
    return true;
  }
  void ExpectRight() const {
    for (size_t r = 0; r < ranks.size(); ++r) {
      EXPECT_FALSE(ranks[r]->failed()) << "rank " << r;
      EXPECT_EQ(ranks[r]->Wrong(), 0u) << "rank " << r;
    }
  }

  std::vector<std::unique_ptr<RingRank>> ranks;
};

// Acknowledgements that come when all is over: what is measured has none.
inline constexpr PeerConfig kLateAcks{.ack_after = 1000, .ack_delay_ns = 100 * kMillisecond};

}  // namespace epic::sim
