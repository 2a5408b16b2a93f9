// How ranks agree, and do not.
#include "commlib/core/host_exchange.h"

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "commlib/core/host_network_testing.h"
#include "commlib/core/rank_calls.h"
#include "gtest/gtest.h"

namespace epic {
namespace {

// Rank 0's header, with the lowest rank that differs from it: the definition.
ControlHeader Outcome(const std::vector<ControlHeader>& headers) {
  ControlHeader outcome = headers[0];
  for (uint32_t r = 1; r < headers.size(); ++r) {
    const ControlField field = FirstDifference(headers[0], headers[r]);
    if (field == ControlField::kNone) continue;
    outcome.status = ControlStatus::kMismatch;
    outcome.field = field;
    outcome.culprit = r;
    break;
  }
  return outcome;
}

// All headers of up to eight ranks from three, merged as a tree of blocks that are cut anywhere.
TEST(HostExchangeTest, MergedBlocksNameTheLowestRankThatDiffers) {
  std::array<ControlHeader, 3> kinds = {};
  kinds[1].count = 5;
  kinds[2].count = 5;
  kinds[2].root = 1;
  std::mt19937 random(1);
  for (uint32_t n = 2; n <= 8; ++n) {
    uint32_t all = 1;
    for (uint32_t r = 0; r < n; ++r) all *= 3;
    for (uint32_t choice = 0; choice < all; ++choice) {
      std::vector<ControlHeader> headers;
      std::vector<HostBlock> blocks;
      for (uint32_t r = 0, left = choice; r < n; ++r, left /= 3) {
        headers.push_back(kinds[left % 3]);
        blocks.push_back({.header = headers[r], .begin = r, .end = r + 1});
      }
      while (blocks.size() > 1) {
        const size_t at = random() % (blocks.size() - 1);
        blocks[at] = MergeBlocks(blocks[at], blocks[at + 1]);
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      }
      ASSERT_EQ(blocks[0].header, Outcome(headers)) << n << " ranks, choice " << choice;
      ASSERT_TRUE(blocks[0].begin == 0 && blocks[0].end == n);
    }
  }
}

ControlHeader Sum(uint64_t count) {
  return {
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kInt32, .count = count};
}

// A call that differs from Sum(6) in each field that can differ.
std::vector<ControlHeader> Others(uint32_t n) {
  std::vector<ControlHeader> others(9, Sum(6));
  others[0].collective = Collective::kReduce;
  others[1].count = 7;
  others[2].count = 400;  // around the ring
  others[3].type = DataType::kFloat32;
  others[4].op = ReduceOp::kMax;
  others[5].root = n - 1;
  others[6].flags = kAverageFlag;
  others[7].collective = Collective::kReduceScatter;
  others[7].parts = n;
  others[8] = {};  // a barrier
  return others;
}

struct Agreement {
  std::vector<ControlHeader> headers;
  std::vector<Algorithm> algorithms;
};

// The ranks make these calls, and another one behind them, and all end with the same error.
void ExpectRefused(uint32_t n, const Agreement& of, uint64_t seed) {
  SCOPED_TRACE(testing::Message() << n << " ranks, seed " << seed);
  HostNetwork network({.world_size = n, .message_bytes = 64, .staging_bytes = 4096, .inline_bytes = 128},
                      seed, of.algorithms);
  std::vector<std::vector<uint8_t>> send(n, std::vector<uint8_t>(8192)), recv = send;
  for (uint32_t r = 0; r < n; ++r) {
    network.Call(r, {.header = of.headers[r], .send = send[r].data(), .recv = recv[r].data()});
    network.Call(r, {.header = {}});
    if (seed % 3 == 0) network.Late(r, static_cast<int64_t>(seed * 7 % 200));
  }
  network.Run();
  std::vector<ControlHeader> headers = of.headers;
  for (uint32_t r = 0; r < n && !of.algorithms.empty(); ++r)
    headers[r].flags |= AlgorithmFlags(of.algorithms[r]);
  for (uint32_t r = 0; r < n; ++r) {
    ASSERT_TRUE(network.path(r).failed()) << "rank " << r << " waits";
    ASSERT_EQ(network.path(r).failure(), Outcome::kRefused);
    ControlHeader reply = network.path(r).failure_reply();
    ASSERT_EQ(reply, network.path(0).failure_reply()) << "rank " << r;
    const ControlHeader want = Outcome(headers);
    ASSERT_EQ(reply.status, ControlStatus::kMismatch);
    ASSERT_EQ(reply.culprit, want.culprit);
    ASSERT_EQ(reply.field, want.field) << "rank " << r;
    network.Drain(r);
    ASSERT_EQ(network.finished(r).size(), 2u);
    ASSERT_EQ(network.finished(r)[0].outcome, Outcome::kRefused);
    ASSERT_EQ(network.finished(r)[0].reply, reply);
  }
}

TEST(HostExchangeTest, EachFieldFromEachRankIsTheSameErrorEverywhere) {
  uint64_t seed = 1;
  for (uint32_t n = 2; n <= 9; ++n) {
    for (uint32_t culprit = 0; culprit < n; ++culprit) {
      for (const ControlHeader& other : Others(n)) {
        Agreement of = {.headers = std::vector<ControlHeader>(n, Sum(6))};
        of.headers[culprit] = other;
        ExpectRefused(n, of, seed++);
        if (testing::Test::HasFatalFailure()) return;
      }
      Agreement of = {.headers = std::vector<ControlHeader>(n, Sum(6)),
                      .algorithms = std::vector<Algorithm>(n, Algorithm::kAuto)};
      of.algorithms[culprit] = culprit % 2 == 0 ? Algorithm::kRing : Algorithm::kDoubling;
      ExpectRefused(n, of, seed++);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(HostExchangeTest, OfSeveralThatDifferTheLowestIsNamed) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    const uint32_t n = 3 + static_cast<uint32_t>(random() % 7);
    Agreement of;
    const std::vector<ControlHeader> others = Others(n);
    for (uint32_t r = 0; r < n; ++r)
      of.headers.push_back(random() % 2 == 0 ? Sum(6) : others[random() % others.size()]);
    if (Outcome(of.headers).status == ControlStatus::kOk) continue;
    ExpectRefused(n, of, seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// A rank of a later version calls what the other ones have no row for: it differs, and is no broken message.
TEST(HostExchangeTest, ACallOfALaterVersionIsAnotherCall) {
  for (const uint32_t later : {0u, 1u}) {
    for (const bool type : {false, true}) {
      for (const bool inlined : {false, true}) {
        SCOPED_TRACE(testing::Message() << "rank " << later << (type ? ", type" : ", operation") << inlined);
        HostNetwork network({.world_size = 2, .message_bytes = 64, .inline_bytes = 128}, 1);
        network.on_message = [&](HostNetwork::Message* message) {
          if (message->from != later) return;
          ControlHeader header = Sum(6);
          header.flags = inlined ? kInlinedFlag : 0;
          if (type) {
            header.type = DataType{40};
          } else {
            header.op = ReduceOp{41};
          }
          Encode(header, std::span<uint8_t, kControlBytes>(message->data, kControlBytes));
          message->bytes = kControlBytes + (!inlined ? 0 : type ? 37 : 6 * 4);
        };
        std::vector<std::vector<uint8_t>> buffers(2, std::vector<uint8_t>(64));
        for (uint32_t r = 0; r < 2; ++r)
          network.Call(r, {.header = Sum(6), .send = buffers[r].data(), .recv = buffers[r].data()});
        network.Run();
        const HostPath& other = network.path(1 - later);
        ASSERT_TRUE(other.failed());
        ASSERT_EQ(other.failure(), Outcome::kRefused);
        EXPECT_EQ(other.failure_reply().status, ControlStatus::kMismatch);
        EXPECT_EQ(other.failure_reply().field, type ? ControlField::kType : ControlField::kOp);
        EXPECT_EQ(other.failure_reply().culprit, 1u);
        EXPECT_EQ(other.failure_reply().type, type && later == 0 ? DataType{40} : DataType::kInt32);
      }
    }
  }
}

// The outcome that a proxy tells is rank 0's call, of a later version.
TEST(HostExchangeTest, AnOutcomeMayNameWhatALaterVersionHas) {
  HostNetwork network({.world_size = 3, .message_bytes = 64, .inline_bytes = 128}, 1);
  ControlHeader outcome = Sum(6);
  outcome.type = DataType{40};
  outcome.status = ControlStatus::kMismatch;
  outcome.field = ControlField::kType;
  outcome.culprit = 1;
  network.on_message = [&](HostNetwork::Message* message) {
    if (message->from != 0 || message->to != 1) return;
    Encode(outcome, std::span<uint8_t, kControlBytes>(message->data, kControlBytes));
    message->bytes = kControlBytes;
  };
  std::vector<std::vector<uint8_t>> buffers(3, std::vector<uint8_t>(64));
  for (uint32_t r = 0; r < 3; ++r)
    network.Call(r, {.header = Sum(6), .send = buffers[r].data(), .recv = buffers[r].data()});
  network.Run();
  ASSERT_TRUE(network.path(1).failed());
  EXPECT_EQ(network.path(1).failure(), Outcome::kRefused);
  EXPECT_EQ(network.path(1).failure_reply(), outcome);
}

// A rank that knows the outcome and is then told to end, or whose connection fails since its peer has ended,
// says what the peer says.
TEST(HostExchangeTest, AnAbortDoesNotChangeAnOutcome) {
  for (const bool knows : {false, true}) {
    std::vector<uint8_t> buffer(64);
    std::vector<HostPath> ranks;
    ranks.reserve(2);
    std::vector<std::vector<HostPath::Request>> requests(2);
    for (uint32_t r = 0; r < 2; ++r) {
      ranks.emplace_back(HostPathConfig{.rank = r});
      ranks[r].Post({.header = Sum(3 + r), .send = buffer.data(), .recv = buffer.data()});
      ranks[r].SetConnected(1 - r);
      ranks[r].SetReady(1 - r);
      for (HostPath::Request request; ranks[r].NextRequest(&request);) requests[r].push_back(request);
      ASSERT_EQ(requests[r].size(), 3u) << "two receives, and a message";
    }
    const HostPath::Request& sent = requests[0][2];
    std::memcpy(requests[1][0].address, sent.address, sent.length);
    if (knows) ranks[1].OnComplete(0, requests[1][0].wr_id, sent.length, sent.imm);
    EXPECT_FALSE(ranks[1].failed()) << "its own message is not acknowledged";
    ranks[1].Abort();
    EXPECT_EQ(ranks[1].failure(), knows ? Outcome::kRefused : Outcome::kAborted);
    EXPECT_EQ(ranks[1].failure_reply().culprit, knows ? 1u : 0u);
  }
}

// As many ranks as there may be, and nearly: all have all.
TEST(HostExchangeTest, TheMostRanks) {
  for (const uint32_t n : {300u, kMaxHostRanks - 1, kMaxHostRanks}) {
    std::vector<HostExchange> ranks;
    std::vector<std::vector<uint8_t>> memory;
    std::vector<int32_t> values(n);
    ControlHeader header = Sum(1);
    header.flags = kInlinedFlag;
    for (uint32_t r = 0; r < n; ++r) {
      values[r] = static_cast<int32_t>(r) + 1;
      memory.emplace_back(ranks.emplace_back(r, n, 8).memory_bytes());
      auto* const value = reinterpret_cast<uint8_t*>(&values[r]);
      ranks[r].Begin({.header = header, .send = value, .recv = value}, 0, memory[r].data());
    }
    for (bool any = true; any;) {
      any = false;
      for (uint32_t r = 0; r < n; ++r) {
        ASSERT_TRUE(ranks[r].Proceed(memory[r].data()));
        const auto peer = ranks[r].NextPeer();
        if (!peer) continue;
        any = true;
        const HostExchange::Message sent = ranks[r].Send(memory[r].data());
        std::memcpy(memory[*peer].data() + ranks[*peer].ReceivePlace(r, 0), memory[r].data() + sent.place,
                    sent.length);
        ranks[*peer].OnMessage(r, 0, sent.length);
      }
    }
    for (uint32_t r = 0; r < n; ++r) {
      ASSERT_TRUE(ranks[r].done()) << r << " of " << n;
      ASSERT_EQ(values[r], static_cast<int32_t>(n * (n + 1) / 2)) << r << " of " << n;
    }
  }
}

}  // namespace
}  // namespace epic
