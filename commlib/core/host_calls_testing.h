// Calls between hosts with their buffers, and what must be in them afterwards: computed one element at a
// time, in the order that docs/PROTOCOL.md's section 11 gives.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "commlib/core/host_network_testing.h"
#include "commlib/core/rank_calls.h"
#include "reduce/reduce.h"
#include "reduce/reduce_testing.h"

namespace epic {

enum class Buffers : uint8_t { kApart, kInPlace, kMixed };  // mixed: every other rank in place

inline std::string Describe(const ControlHeader& h, uint32_t n) {
  return "collective " + std::to_string(static_cast<int>(h.collective)) + " of " + std::to_string(h.count) +
         " " + std::string(NameOf(h.type)) + " by " + std::string(NameOf(h.op)) + ", root " +
         std::to_string(h.root) + ", flags " + std::to_string(h.flags) + ", " + std::to_string(n) + " ranks";
}

// The header of a call that there can be.
inline ControlHeader MakeHeader(Collective collective, uint32_t n, uint64_t count, DataType type, ReduceOp op,
                                uint32_t root = 0) {
  ControlHeader h{.collective = collective};
  if (collective == Collective::kBarrier) return h;
  h.type = type;
  h.count = count;
  if (Reduces(collective)) h.op = op;
  if (HasPartPerRank(collective)) h.parts = n;
  if (collective == Collective::kReduce || collective == Collective::kBroadcast) h.root = root;
  return h;
}

// A call of all ranks, in as many slices as it takes.
class HostTestCall {
 public:
  HostTestCall(const ControlHeader& header, uint32_t n, Buffers buffers, uint64_t seed)
      : header_(header), n_(n), seed_(seed) {
    std::mt19937_64 random(seed);
    element_ = std::max(ElementBytes(header.type), 1u);
    for (uint32_t r = 0; r < n; ++r) {
      std::vector<uint64_t> own(SendBytes(header, r) / element_);
      for (uint64_t& x : own) x = random() & (header.type == DataType::kNone ? 0 : MaskOf(header.type));
      inputs_.push_back(own);
      const bool in_place = buffers == Buffers::kInPlace || (buffers == Buffers::kMixed && r % 2 == 0);
      Rank& rank = ranks_.emplace_back();
      const uint64_t send_bytes = SendBytes(header, r), recv_bytes = RecvBytes(header, r);
      const uint64_t part = header.count * element_;
      // At an odd address, with a guard behind.
      rank.one.assign(1 + std::max(send_bytes, in_place ? recv_bytes : 0) + 8, kGuard);
      rank.two.assign(1 + recv_bytes + 8, kGuard);
      rank.send = rank.one.data() + 1;
      rank.recv = in_place ? rank.send : rank.two.data() + 1;
      if (in_place && header.collective == Collective::kReduceScatter) rank.recv = rank.send + r * part;
      if (in_place && header.collective == Collective::kAllGather) rank.send = rank.recv + r * part;
      const auto bytes = ToBytes(header.type == DataType::kNone ? DataType::kByte : header.type, own);
      if (!bytes.empty()) std::memcpy(rank.send, bytes.data(), bytes.size());
      CopyOwnPart(header, r, rank.send, rank.recv);
    }
  }

  // The rank is to make it.
  void Start(HostNetwork& network, uint32_t r) {
    const uint64_t all = network.path(r).MostBytes(header_);
    const uint64_t most = all / element_ / std::max(header_.parts, 1u);
    const uint64_t stride = header_.count * element_;
    uint64_t at = 0;
    do {
      HostCall call{.header = header_, .part_stride = HasPartPerRank(header_.collective) ? stride : 0};
      call.header.count = std::min(most, header_.count - at);
      call.send = ranks_[r].send + at * element_;
      call.recv = ranks_[r].recv + at * element_;
      const bool is_root = header_.collective == Collective::kBroadcast && header_.root == r;
      call.readable = {.address = reinterpret_cast<uintptr_t>(is_root ? call.send : call.recv),
                       .rkey = static_cast<uint32_t>(network.NextCall(r))};
      network.Call(r, call);
      at += call.header.count;
      if (r == 0) slices_.push_back(call.header.count);
    } while (at < header_.count);
  }
  size_t slices() const { return slices_.size(); }

  // Its result at the rank, by the algorithm that each slice took.
  void Check(uint32_t r, Algorithm algorithm, uint64_t inline_bytes) const {
    const uint64_t bytes = RecvBytes(header_, r);
    EXPECT_EQ(*(ranks_[r].one.end() - 8), kGuard);
    EXPECT_EQ(*(ranks_[r].two.end() - 8), kGuard);
    if (bytes == 0) return;
    const auto got = FromBytes(header_.type, ranks_[r].recv, bytes / element_);
    size_t at = 0;
    for (const uint64_t count : slices_) {
      ControlHeader slice = header_;
      slice.count = count;
      const bool ring = !IsInlinedByHosts(slice, n_, algorithm, inline_bytes);
      for (uint64_t part = 0; part < bytes / element_ / std::max<uint64_t>(header_.count, 1); ++part) {
        for (uint64_t i = 0; i < count; ++i) {
          const size_t element = part * header_.count + at + i;
          const uint64_t want = Want(r, part, at + i, i, count, ring);
          ASSERT_TRUE(Same(header_.type, got[element], want))
              << Describe(header_, n_) << ": rank " << r << " element " << element << std::hex << " is "
              << got[element] << ", not " << want << ", seed " << std::dec << seed_;
        }
      }
      at += count;
    }
  }

  // The bytes that all ranks are to have alike.
  std::vector<uint8_t> Result(uint32_t r) const {
    return {ranks_[r].recv, ranks_[r].recv + RecvBytes(header_, r)};
  }
  const ControlHeader& header() const { return header_; }

  // What is in the callers' buffers, and back.
  std::vector<std::vector<uint8_t>> Save() const {
    std::vector<std::vector<uint8_t>> saved;
    for (const Rank& rank : ranks_) saved.push_back(rank.one), saved.push_back(rank.two);
    return saved;
  }
  void Restore(const std::vector<std::vector<uint8_t>>& saved) {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      std::ranges::copy(saved[2 * r], ranks_[r].one.begin());
      std::ranges::copy(saved[2 * r + 1], ranks_[r].two.begin());
    }
  }

 private:
  static constexpr uint8_t kGuard = 0xa5;
  struct Rank {
    std::vector<uint8_t> one, two;
    uint8_t* send = nullptr;
    uint8_t* recv = nullptr;
  };

  uint64_t Pair(uint64_t a, uint64_t b) const {
    return ReferenceReduce(header_.op, header_.type, std::vector<uint64_t>{a, b});
  }

  // Element `i` of the part, which is `in_slice` of its slice of `count`.
  uint64_t Want(uint32_t r, uint64_t part, uint64_t i, uint64_t in_slice, uint64_t count, bool ring) const {
    if (header_.collective == Collective::kBroadcast) return inputs_[header_.root][i];
    if (header_.collective == Collective::kAllGather) return inputs_[part][i];
    const bool scatters = header_.collective == Collective::kReduceScatter;
    std::vector<uint64_t> x;
    for (uint32_t q = 0; q < n_; ++q) x.push_back(inputs_[q][scatters ? r * header_.count + i : i]);
    uint64_t sum = 0;
    if (ring) {
      const uint64_t last = header_.collective == Collective::kAllReduce ? BlockOf(in_slice, count)
                            : scatters                                   ? r
                                                                         : header_.root;
      sum = x[(last + 1) % n_];
      for (uint32_t k = 2; k <= n_; ++k) sum = Pair(sum, x[(last + k) % n_]);
    } else {
      uint32_t members = 1;
      while (2 * members <= n_) members *= 2;
      for (uint32_t q = 0; q < n_ - members; ++q) {
        x[q] = Pair(x[q], x[q + 1]);
        x.erase(x.begin() + q + 1);
      }
      for (; x.size() > 1; x.resize(x.size() / 2))
        for (size_t m = 0; 2 * m < x.size(); ++m) x[m] = Pair(x[2 * m], x[2 * m + 1]);
      sum = x[0];
    }
    if ((header_.flags & kAverageFlag) == 0) return sum;
    auto bytes = ToBytes(header_.type, {sum});
    ScaleToAverage(header_.type, bytes, n_);
    return FromBytes(header_.type, bytes.data(), 1)[0];
  }
  uint64_t BlockOf(uint64_t i, uint64_t count) const {
    uint64_t end = 0;
    for (uint64_t b = 0;; ++b) {
      end += count / n_ + (b < count % n_ ? 1 : 0);
      if (i < end) return b;
    }
  }

  ControlHeader header_;
  uint32_t n_;
  uint64_t seed_;
  uint64_t element_ = 1;
  std::vector<std::vector<uint64_t>> inputs_;
  std::vector<Rank> ranks_;
  std::vector<uint64_t> slices_;
};

// Calls one after the other, of all ranks, with all of them right.
inline void RunHostCalls(const HostPathConfig& config, uint64_t seed,
                         std::vector<std::unique_ptr<HostTestCall>>& calls,
                         const HostNetwork::Faults& faults = {}) {
  SCOPED_TRACE(testing::Message() << "replay: EPIC_SEED=" << seed << " with this test as --gtest_filter");
  HostNetwork network(config, seed);
  network.SetFaults(faults);
  for (const auto& call : calls)
    for (uint32_t r = 0; r < config.world_size; ++r) call->Start(network, r);
  network.Run();
  size_t slices = 0;
  for (const auto& call : calls) slices += call->slices();
  for (uint32_t r = 0; r < config.world_size; ++r) {
    ASSERT_EQ(network.finished(r).size(), slices)
        << "rank " << r << (network.path(r).failed() ? " failed" : "");
    for (const Finished& finished : network.finished(r)) ASSERT_EQ(finished.outcome, Outcome::kOk);
    ASSERT_TRUE(network.path(r).idle());
    int64_t most = static_cast<int64_t>(CubePeersOf(r, config.world_size).size());
    if (config.chunk_bytes > 0)
      most += config.staging_chunks + (config.world_size == 2 ? 2 : 4) * (config.world_size + config.tokens);
    ASSERT_LE(network.path(r).posted(), most);
    for (const auto& call : calls) {
      call->Check(r, config.algorithm, config.inline_bytes);
      if (call->header().collective == Collective::kAllReduce) {
        ASSERT_EQ(call->Result(r), call->Result(0)) << "the same bits";
      }
    }
  }
}

}  // namespace epic
