// Which messages there are around the ring, and when each may go.
#include "commlib/core/host_ring.h"

#include <vector>

#include "gtest/gtest.h"

namespace epic {
namespace {

HostRingConfig Config(uint32_t rank, uint32_t n) {
  return {.rank = rank, .world_size = n, .message_bytes = 32, .staging_bytes = 4096, .most_messages = 1198};
}

HostCall Call(Collective collective, uint64_t count, std::vector<uint8_t>* buffers, uint32_t n = 1) {
  buffers->assign(8 * count * n, 0);
  const ControlHeader header = {.collective = collective,
                                .op = Reduces(collective) ? ReduceOp::kSum : ReduceOp::kNone,
                                .type = DataType::kInt32,
                                .count = count,
                                .parts = HasPartPerRank(collective) ? n : 1};
  return {.header = header, .send = buffers->data(), .recv = buffers->data() + 4 * count * n};
}

size_t SendsNow(HostRing& ring) {
  size_t sends = 0;
  for (HostPiece piece; ring.NextSend(&piece);) ++sends;
  return sends;
}

// 4 pieces of a Broadcast, at a rank in the middle of the chain: each is sent on before the next has come.
TEST(HostRingTest, APieceIsSentOnBeforeTheNextHasCome) {
  std::vector<uint8_t> buffers;
  for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
    HostRing ring(Config(2, 4));
    ring.Begin(Call(collective, 32, &buffers));
    EXPECT_EQ(SendsNow(ring), 0u);
    std::vector<uint8_t> staging(4096);
    for (int piece = 0; piece < 4; ++piece) {
      EXPECT_EQ(ring.ExpectedBytes(), 32u);
      ring.OnReceived(staging.data());
      EXPECT_EQ(SendsNow(ring), 1u) << piece;
    }
    EXPECT_TRUE(ring.done());
  }
}

// 2 pieces of each block: those of the first step are sent at once, and each that comes lets one go, two
// messages further on.
TEST(HostRingTest, CombiningOverlapsWithTransfer) {
  std::vector<uint8_t> buffers;
  HostRing ring(Config(1, 4));
  ring.Begin(Call(Collective::kAllReduce, 64, &buffers));
  std::vector<uint8_t> staging(4096);
  EXPECT_EQ(SendsNow(ring), 2u);
  size_t receives = 0, sends = 2;
  for (HostPiece piece; ring.NextReceive(&piece);) ++receives;
  EXPECT_EQ(receives, 12u) << "2(n - 1) steps of 2";
  for (size_t i = 0; i < receives; ++i) {
    ring.OnReceived(staging.data());
    const size_t now = SendsNow(ring);
    EXPECT_EQ(now, i < 10 ? 1u : 0u) << i;
    sends += now;
  }
  EXPECT_EQ(sends, receives);
  EXPECT_TRUE(ring.done());
}

// What a rank sends is what the next receives: as many messages of the same lengths, whatever is empty.
TEST(HostRingTest, BothEndsSeeTheSameMessages) {
  for (uint32_t n = 2; n <= 6; ++n) {
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather, Collective::kBroadcast,
          Collective::kReduce}) {
      for (const uint64_t count : {0u, 1u, 2u, 5u, 17u, 18u, 100u}) {
        std::vector<std::vector<uint32_t>> sent(n), received(n);
        for (uint32_t r = 0; r < n; ++r) {
          std::vector<uint8_t> buffers, staging(4096);
          HostRing ring(Config(r, n));
          ring.Begin(Call(collective, count, &buffers, n));
          for (HostPiece piece; ring.NextReceive(&piece);) received[r].push_back(piece.length);
          while (ring.ExpectedBytes() > 0) ring.OnReceived(staging.data());
          for (HostPiece piece; ring.NextSend(&piece);) sent[r].push_back(piece.length);
          EXPECT_TRUE(ring.done());
        }
        for (uint32_t r = 0; r < n; ++r)
          EXPECT_EQ(sent[r], received[(r + 1) % n]) << count << " among " << n << ", rank " << r;
      }
    }
  }
}

// Where the NIC needs the caller's result, and where it does not.
TEST(HostRingTest, ResultsThatAreCombinedLastAreNotTheNicsToTouch) {
  for (uint32_t n = 2; n <= 6; ++n) {
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather, Collective::kBroadcast,
          Collective::kReduce}) {
      bool any = false;
      for (uint32_t r = 0; r < n; ++r) {
        std::vector<uint8_t> buffers, staging(4096);
        HostRing ring(Config(r, n));
        ring.Begin(Call(collective, 50, &buffers, n));
        HostPiece piece;
        while (ring.NextReceive(&piece)) any |= piece.where == HostWhere::kRecv;
        while (ring.ExpectedBytes() > 0) ring.OnReceived(staging.data());
        while (ring.NextSend(&piece)) any |= piece.where == HostWhere::kRecv;
      }
      EXPECT_EQ(any, RingReceivesResults(collective)) << static_cast<int>(collective) << " among " << n;
    }
  }
}

// However many ranks: what is posted at once fits into a queue pair.
TEST(HostRingTest, AllReceivesFitIntoTheQueue) {
  for (const uint32_t n : {2u, 3u, 64u, 511u, 512u}) {
    HostRingConfig config = Config(n / 2, n);
    config.message_bytes = 65536;
    config.staging_bytes = 4 << 20;
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather, Collective::kBroadcast,
          Collective::kReduce}) {
      HostCall call = {.header = {.collective = collective, .type = DataType::kInt32}};
      if (HasPartPerRank(collective)) call.header.parts = n;
      if (Reduces(collective)) call.header.op = ReduceOp::kSum;
      call.header.count = MostRingBytes(config, call.header) / 4 / call.header.parts;
      EXPECT_GT(call.header.count, 0u);
      HostRing ring(config);
      ring.Begin(call);
      int64_t receives = 0;
      for (HostPiece piece; ring.NextReceive(&piece); ++receives) EXPECT_LE(piece.length, 65536u);
      EXPECT_LE(receives, config.most_messages) << n;
    }
  }
}

TEST(HostRingTest, MostBytesFillStagingOrTheQueue) {
  const ControlHeader sum = {
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kFloat64, .count = 1};
  EXPECT_EQ(MostRingBytes(Config(0, 2), sum), 2 * 4096u);
  EXPECT_EQ(MostRingBytes(Config(0, 4), sum), 4 * (4096 / 24 * 8u));
  HostRingConfig config = Config(0, 512);
  config.staging_bytes = 4 << 20;
  EXPECT_EQ(MostRingBytes(config, sum), 512 * 32u) << "a message per block and step";
  ControlHeader gather = {.collective = Collective::kAllGather, .type = DataType::kByte, .parts = 4};
  EXPECT_EQ(MostRingBytes(Config(0, 4), gather), 4 * 32 * (1198 / 3u));
  ControlHeader copy = {.collective = Collective::kBroadcast, .type = DataType::kByte};
  EXPECT_EQ(MostRingBytes(Config(0, 4), copy), 32 * 1198u);
  EXPECT_EQ(MostRingBytes(Config(0, 4), {}), kMaxBytes);
}

}  // namespace
}  // namespace epic
