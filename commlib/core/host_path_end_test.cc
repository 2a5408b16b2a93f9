// Calls between hosts that begin late, or do not end well, and copies of ranks in the middle of them.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "commlib/core/host_calls_testing.h"
#include "commlib/core/host_path.h"
#include "gtest/gtest.h"

namespace epic {
namespace {

using Calls = std::vector<std::unique_ptr<HostTestCall>>;

HostPathConfig Config(uint32_t n, Algorithm algorithm = Algorithm::kAuto) {
  return {.world_size = n,
          .algorithm = algorithm,
          .message_bytes = 64,
          .staging_bytes = 256 * n,
          .inline_bytes = 16 * n};
}

// One of each collective, around the ring and with the exchange.
Calls OneOfEach(uint32_t n, uint64_t seed) {
  Calls calls;
  for (const uint64_t count : {3u, 60u}) {
    for (int c = 1; c <= 6; ++c) {
      const auto header = MakeHeader(static_cast<Collective>(c), n, count, DataType::kInt32, ReduceOp::kSum,
                                     static_cast<uint32_t>(seed % n));
      calls.push_back(std::make_unique<HostTestCall>(header, n, Buffers::kMixed, seed + calls.size()));
    }
  }
  return calls;
}

void Start(HostNetwork& network, const Calls& calls) {
  for (const auto& call : calls)
    for (uint32_t r = 0; r < network.size(); ++r) call->Start(network, r);
}

TEST(HostPathEndTest, NothingPassesALateRank) {
  for (uint32_t n = 2; n <= 9; ++n) {
    for (uint32_t late = 0; late < n; ++late) {
      HostNetwork network(Config(n), n + late);
      for (uint32_t r = 0; r < n; ++r) network.Call(r, {.header = {}});
      network.Run();
      const auto header =
          MakeHeader(Collective::kBroadcast, n, 200, DataType::kByte, ReduceOp::kNone, (late + 1) % n);
      HostTestCall call(header, n, Buffers::kApart, n);
      for (uint32_t r = 0; r < n; ++r)
        if (r != late) call.Start(network, r);
      uint64_t longest = 0;
      network.on_message = [&](HostNetwork::Message* m) { longest = std::max<uint64_t>(longest, m->bytes); };
      network.Run();
      EXPECT_EQ(longest, kControlBytes) << "headers only";
      for (uint32_t r = 0; r < n; ++r) EXPECT_EQ(network.finished(r).size(), 1u);
      call.Start(network, late);
      network.Run();
      for (uint32_t r = 0; r < n; ++r) {
        EXPECT_TRUE(network.path(r).idle());
        EXPECT_EQ(network.finished(r).back().outcome, Outcome::kOk);
      }
    }
  }
}

TEST(HostPathEndTest, RanksThatStopAnywhereAreWaitedFor) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const uint32_t n = 2 + static_cast<uint32_t>(seed % 7);
    HostNetwork network(Config(n), seed);
    Calls calls = OneOfEach(n, seed);
    Start(network, calls);
    std::mt19937_64 random(seed);
    do {
      if (random() % 50 == 0) network.Late(static_cast<uint32_t>(random() % n), 300);
    } while (network.Step() && !HasFailure());
    for (uint32_t r = 0; r < n; ++r) {
      ASSERT_TRUE(network.path(r).idle()) << "seed " << seed;
      for (const auto& call : calls) call->Check(r, Algorithm::kAuto, Config(n).inline_bytes);
    }
  }
}

// A rank that is told to end at any moment; the others come to rest and are told, too. What had ended is
// right, everywhere.
TEST(HostPathEndTest, AnAbortEndsWhatIsOpenAndNothingElse) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const uint32_t n = 2 + static_cast<uint32_t>(seed % 7);
    HostNetwork network(Config(n), seed);
    Calls calls = OneOfEach(n, seed);
    Start(network, calls);
    std::mt19937_64 random(seed);
    for (uint64_t steps = random() % 2000; steps > 0; --steps) network.Step();
    const auto first = static_cast<uint32_t>(random() % n);
    network.path(first).Abort();
    network.Drain(first);
    network.Run();
    for (uint32_t r = 0; r < n; ++r) {
      if (r != first) {
        EXPECT_FALSE(network.path(r).failed());
        network.path(r).Abort();
        network.Drain(r);
      }
      EXPECT_TRUE(network.path(r).idle());
      HostPath::Request request;
      EXPECT_FALSE(network.path(r).NextRequest(&request));
      bool ended = false;
      for (size_t i = 0; i < network.finished(r).size(); ++i) {
        const Finished& finished = network.finished(r)[i];
        ASSERT_EQ(finished.op, static_cast<OpId>(i));
        ended |= finished.outcome != Outcome::kOk;
        ASSERT_EQ(finished.outcome, ended ? Outcome::kAborted : Outcome::kOk);
        if (!ended) calls[i]->Check(r, Algorithm::kAuto, Config(n).inline_bytes);
      }
    }
    if (HasFailure()) return;
  }
}

// Another number, length or header in any message: its receiver's group ends, and no result is wrong.
TEST(HostPathEndTest, WhatBreaksTheRulesEndsTheGroup) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const uint32_t n = 2 + static_cast<uint32_t>(seed % 7);
    HostNetwork network(Config(n), seed);
    Calls calls = OneOfEach(n, seed);
    Start(network, calls);
    std::mt19937_64 random(seed);
    int64_t left = static_cast<int64_t>(random() % 40);
    std::optional<uint32_t> hit, sender;
    network.on_message = [&](HostNetwork::Message* m) {
      if (left-- != 0) return;
      hit = m->to;
      sender = m->from;
      if (seed % 3 == 0) ++m->imm;
      if (seed % 3 == 1) m->bytes = m->bytes > 1 && random() % 2 == 0 ? m->bytes - 1 : m->bytes + 1;
      if (seed % 3 == 2) m->bytes = 0;
    };
    network.Run();
    ASSERT_TRUE(hit);
    EXPECT_EQ(network.path(*hit).failure(), Outcome::kProtocol);
    if (seed % 3 == 0) {
      EXPECT_EQ(network.path(*hit).culprit(), sender) << "who has sent another number";
    }
    for (uint32_t r = 0; r < n; ++r) {
      if (!network.path(r).failed()) network.path(r).Abort();
      network.Drain(r);
      for (size_t i = 0; i < calls.size(); ++i)
        if (network.finished(r)[i].outcome == Outcome::kOk)
          calls[i]->Check(r, Algorithm::kAuto, Config(n).inline_bytes);
    }
    if (HasFailure()) return;
  }
}

// Another number, length, octet or invocation in any message of the fetch ring.
TEST(HostPathEndTest, WhoBreaksTheRulesOfTheFetchRingIsNamed) {
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const uint32_t n = 2 + static_cast<uint32_t>(seed % 5);
    HostPathConfig config = Config(n, Algorithm::kMulticast);
    config.chunk_bytes = 64;
    config.staging_chunks = 8;
    HostNetwork network(config, seed);
    const auto header = MakeHeader(Collective::kAllGather, n, 600, DataType::kByte, ReduceOp::kNone, 0);
    HostTestCall call(header, n, Buffers::kApart, seed);
    for (uint32_t r = 0; r < n; ++r) call.Start(network, r);
    uint64_t left = seed % 7;
    std::optional<HostNetwork::Message> hit;
    network.on_message = [&](HostNetwork::Message* m) {
      if (hit || !IsOfFetchRing(m->to) || left-- != 0) return;
      hit = *m;
      if (seed % 4 == 0) ++m->imm;
      if (seed % 4 == 1) --m->bytes;
      if (seed % 4 == 2) m->data[1] = 1;
      if (seed % 4 == 3) m->data[4] += 100;
    };
    network.Run();
    ASSERT_TRUE(hit);
    EXPECT_EQ(network.path(RankAt(hit->to)).failure(), Outcome::kProtocol);
    EXPECT_EQ(network.path(RankAt(hit->to)).culprit(), RankAt(hit->from));
    for (uint32_t r = 0; r < n; ++r) {
      if (!network.path(r).failed()) network.path(r).Abort();
      network.Drain(r);
    }
    if (HasFailure()) return;
  }
}

TEST(HostPathEndTest, ABrokenDriverIsDisorder) {
  for (const uint64_t wr_id : {uint64_t{3}, uint64_t{0}, uint64_t{5}, ~uint64_t{0}}) {
    HostPath path({});
    path.SetConnected(1);
    HostPath::Request request;
    ASSERT_TRUE(path.NextRequest(&request));
    ASSERT_TRUE(request.is_recv && request.wr_id == 1);
    ASSERT_FALSE(path.NextRequest(&request)) << "there is no call";
    path.OnComplete(1, wr_id, 64, 0);
    EXPECT_EQ(path.failure(), Outcome::kDisorder) << wr_id;
  }
}

// Nothing goes before all have posted, and then as by ranks that agree themselves; behind it nothing is
// posted.
TEST(HostPathEndTest, WithoutExchangesSomebodyElseAgrees) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const uint32_t n = 2 + static_cast<uint32_t>(seed % 7);
    HostPathConfig config = Config(n, static_cast<Algorithm>(seed % 3));
    config.agrees_by_exchange = false;
    HostNetwork network(config, seed);
    Calls calls = OneOfEach(n, seed);
    Start(network, calls);
    OpId slices = 0;
    for (const auto& call : calls) slices += static_cast<OpId>(call->slices());
    std::mt19937_64 random(seed);
    for (OpId op = 0; op < slices; ++op) {
      network.Run();
      EXPECT_EQ(network.messages() > 0, op > 0);
      std::vector<uint32_t> ranks;
      for (uint32_t r = 0; r < n; ++r) {
        ASSERT_TRUE(network.path(r).MayAgree(op)) << "rank " << r << " op " << op;
        EXPECT_FALSE(network.path(r).MayAgree(op + 1));
        ranks.push_back(r);
      }
      std::ranges::shuffle(ranks, random);
      for (const uint32_t r : ranks) {
        network.Agree(r, op);
        for (uint64_t steps = random() % 20; steps > 0; --steps) network.Step();
      }
    }
    network.Run();
    for (uint32_t r = 0; r < n; ++r) {
      ASSERT_TRUE(network.path(r).idle());
      EXPECT_EQ(network.path(r).posted(), 0);
      for (const auto& call : calls) call->Check(r, config.algorithm, config.inline_bytes);
    }
  }
}

// Small data take the messages of an exchange, not those of the ring, and only the connections of that.
TEST(HostPathEndTest, SmallDataTakeAnExchangeWhoeverMakesTheRanksAgree) {
  for (const bool agrees_by_exchange : {true, false}) {
    HostPathConfig config = Config(8);
    config.agrees_by_exchange = agrees_by_exchange;
    HostNetwork network(config, 1);
    HostTestCall call(MakeHeader(Collective::kAllReduce, 8, 1, DataType::kInt64, ReduceOp::kProduct), 8,
                      Buffers::kInPlace, 1);
    for (uint32_t r = 0; r < 8; ++r) call.Start(network, r);
    network.Run();
    for (uint32_t r = 0; r < 8 && !agrees_by_exchange; ++r) {
      ASSERT_TRUE(network.path(r).MayAgree(0));
      network.Agree(r, 0);
    }
    network.Run();
    for (uint32_t r = 0; r < 8; ++r) {
      EXPECT_TRUE(network.path(r).idle());
      call.Check(r, config.algorithm, config.inline_bytes);
    }
    EXPECT_EQ(network.messages(), 8u * 3);
  }
}

// Ranks are values: from a copy made anywhere the calls end right, as they do without one.
TEST(HostPathEndTest, CopiesGoOnByThemselves) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const uint32_t n = 2 + static_cast<uint32_t>(seed % 7);
    HostNetwork network(Config(n), seed);
    Calls calls = OneOfEach(n, seed);
    Start(network, calls);
    for (uint64_t steps = seed * 37 % 1500; steps > 0; --steps) network.Step();
    HostNetwork copy = network;
    std::vector<std::vector<std::vector<uint8_t>>> buffers;
    for (const auto& call : calls) buffers.push_back(call->Save());
    for (HostNetwork* const world : {&network, &copy}) {
      for (size_t i = 0; i < calls.size(); ++i) calls[i]->Restore(buffers[i]);
      world->Run();
      for (uint32_t r = 0; r < n; ++r) {
        ASSERT_TRUE(world->path(r).idle());
        for (const auto& call : calls) call->Check(r, Algorithm::kAuto, Config(n).inline_bytes);
      }
    }
    EXPECT_EQ(copy.steps(), network.steps()) << "and it is the same run";
  }
}

}  // namespace
}  // namespace epic
