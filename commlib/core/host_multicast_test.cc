#include "commlib/core/host_multicast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "base/seeds_testing.h"
#include "commlib/core/host_calls_testing.h"

namespace epic {
namespace {

constexpr std::array kAnyCollective = {Collective::kAllReduce,     Collective::kReduce,
                                       Collective::kBroadcast,     Collective::kBarrier,
                                       Collective::kReduceScatter, Collective::kAllGather};
constexpr std::array kCopies = {Collective::kBroadcast, Collective::kAllGather};

using Calls = std::vector<std::unique_ptr<HostTestCall>>;

HostPathConfig MulticastConfig(uint32_t n, uint32_t chunk_bytes, uint32_t staging_chunks) {
  return {.world_size = n,
          .algorithm = Algorithm::kMulticast,
          .message_bytes = 2 * chunk_bytes,
          .staging_bytes = 64 * n,
          .inline_bytes = 24 * n,
          .chunk_bytes = chunk_bytes,
          .staging_chunks = staging_chunks};
}

// Rank 1 of four in an AllGather of two chunks of 64 bytes from each, by itself.
class HostMulticastOne : public testing::Test {
 protected:
  static constexpr uint32_t kRanks = 4, kChunk = 64, kPart = 100;
  static constexpr int64_t kInvocation = 0x30007;

  HostMulticastOne() {
    memory_.resize(one_.memory_bytes());
    MulticastWork work;
    one_.Begin(Call(Collective::kAllGather));
    while (one_.NextReceive(&work)) {
      places_.push_back(work);
      if (work.kind == MulticastWork::Kind::kQkey) one_.OnQkeySet();
    }
    send_.assign(kPart, 0x11);
    recv_.assign(kRanks * kPart, 0);
  }

  HostCall Call(Collective collective, uint32_t root = 0) {
    HostCall call{.header = MakeHeader(collective, kRanks, kPart, DataType::kByte, ReduceOp::kNone, root),
                  .send = send_.data(),
                  .recv = recv_.data()};
    call.header.invocation = kInvocation;
    return call;
  }
  // What it makes of a message of 32 bytes in its next receive from that side.
  bool Message(bool from_left, std::vector<uint8_t> message, uint32_t bytes = kRingMessageBytes,
               int64_t invocation = kInvocation) {
    size_t& at = from_left ? left_ : right_;
    for (size_t seen = 0; const MulticastWork& work : places_) {
      if (work.kind != MulticastWork::Kind::kMessageRecv || work.to_left != from_left || seen++ != at)
        continue;
      message.resize(kRingMessageBytes);
      std::ranges::copy(message, memory_.begin() + static_cast<std::ptrdiff_t>(work.offset));
      break;
    }
    ++at;
    return one_.OnMessage(from_left, bytes, invocation, memory_);
  }
  static std::vector<uint8_t> Words(uint8_t kind, uint16_t number, uint32_t invocation = kInvocation) {
    std::vector<uint8_t> message = {kind, 0, static_cast<uint8_t>(number), static_cast<uint8_t>(number >> 8)};
    for (int i = 0; i < 4; ++i) message.push_back(static_cast<uint8_t>(invocation >> 8 * i));
    return message;
  }

  HostMulticast one_{
      {.rank = 1, .world_size = kRanks, .chunk_bytes = kChunk, .staging_chunks = 4, .read_bytes = kChunk}, 0};
  std::vector<uint8_t> memory_, send_, recv_;
  std::vector<MulticastWork> places_;
  size_t left_ = 0, right_ = 0;
};

TEST_F(HostMulticastOne, MessagesThatBreakTheRulesAreRefused) {
  struct Case {
    bool from_left;
    std::vector<uint8_t> message;
    uint32_t bytes = kRingMessageBytes;
  };
  std::vector<uint8_t> odd = Words(2, 0);
  odd[1] = 1;
  std::vector<uint8_t> token = Words(1, 0), done = Words(3, 0);  // with what only WHOLE has
  token.resize(kRingMessageBytes);
  done.resize(kRingMessageBytes);
  token[8] = done[31] = 1;
  const std::vector<Case> cases = {
      {true, Words(0, 0)},  // no kind
      {true, Words(4, 0)},
      {true, odd},
      {true, Words(2, 0), 31},               // too short
      {true, Words(2, 0, kInvocation + 1)},  // of a call that has not been made
      {true, Words(2, 3)},                   // distance n - 1 is the right neighbour's own part
      {true, Words(2, 0xffff)},
      {false, Words(2, 0)},  // from the right
      {true, Words(3, 0)},   // from the left
      {true, Words(1, 1)},   // there is room for one token
      {false, Words(1, 0)},  // from the right
      {false, Words(3, 1)},  // DONE has no number
      {true, token},
      {false, done},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    one_.Begin(Call(Collective::kAllGather));
    EXPECT_FALSE(Message(cases[i].from_left, cases[i].message, cases[i].bytes)) << "case " << i;
  }
  one_.Begin(Call(Collective::kAllGather));
  EXPECT_TRUE(Message(true, Words(2, 1)));
  EXPECT_FALSE(Message(true, Words(2, 1))) << "no more than was said";
  EXPECT_TRUE(Message(false, Words(3, 0)));
  EXPECT_FALSE(Message(false, Words(3, 0))) << "DONE again";
  EXPECT_TRUE(Message(true, Words(1, 0)));
  EXPECT_FALSE(Message(true, Words(1, 0))) << "a token that is here";
  one_.Begin(Call(Collective::kBroadcast, /*root=*/1));
  EXPECT_FALSE(Message(true, Words(2, 0))) << "a root needs no word";
}

// A NIC that answers a Read again, as the network has repeated it, would find memory that is its owner's
// again: behind so many others it has forgotten it.
TEST_F(HostMulticastOne, WhoHasReadReadsNothingEightTimesBeforeItIsDone) {
  for (const bool reads : {false, true}) {
    one_.Begin(Call(Collective::kBroadcast));
    if (reads) {
      EXPECT_TRUE(Message(true, Words(2, 0)));
    } else {
      for (const uint32_t chunk : {0u, 1u}) {
        const uint32_t imm = static_cast<uint32_t>(kInvocation) << 16 | chunk;
        one_.OnDatagram(0, imm, chunk == 0 ? kChunk : kPart - kChunk, memory_);
      }
    }
    uint32_t of_data = 0, empty = 0;
    MulticastWork work;
    while (one_.NextSend(true, false, memory_, &work) && work.kind == MulticastWork::Kind::kRead) {
      ++(work.length > 0 ? of_data : empty);
      one_.OnFetchSent(true);
    }
    EXPECT_EQ(of_data, reads ? 2u : 0u);
    EXPECT_EQ(empty, reads ? 8u : 0u);
    EXPECT_EQ(work.kind, MulticastWork::Kind::kMessage);
    EXPECT_EQ(memory_[work.offset], 3) << "DONE";
    one_.OnFetchSent(true);
  }
}

// All is whole by then, since the datagrams have come late.
TEST_F(HostMulticastOne, NothingIsSaidOfTheEndWhileAReadIsUnderWay) {
  one_.Begin(Call(Collective::kBroadcast));
  ASSERT_TRUE(Message(true, Words(2, 0)));
  MulticastWork work;
  for (int read = 0; read < 2; ++read) {
    ASSERT_TRUE(one_.NextSend(true, false, memory_, &work));
    ASSERT_GT(work.length, 0u);
  }
  for (const uint32_t chunk : {0u, 1u}) {
    const uint32_t imm = static_cast<uint32_t>(kInvocation) << 16 | chunk;
    one_.OnDatagram(0, imm, chunk == 0 ? kChunk : kPart - kChunk, memory_);
  }
  for (int read = 0; read < 2; ++read) {
    EXPECT_FALSE(one_.NextSend(true, false, memory_, &work)) << "Reads that have ended: " << read;
    one_.OnFetchSent(true);
  }
  EXPECT_TRUE(one_.NextSend(true, false, memory_, &work));
}

// Before its receives, and so before the rank agrees to the call; once.
TEST_F(HostMulticastOne, TheFirstCallOfAnEpochHasAKeyOfItsOwn) {
  ASSERT_EQ(places_[0].kind, MulticastWork::Kind::kQkey);
  EXPECT_EQ(places_[0].epoch, kInvocation >> 16);
  one_.Clear();
  HostCall call = Call(Collective::kAllGather);
  for (const int64_t later : {1, 2, 0x10000}) {
    call.header.invocation = kInvocation + later;
    one_.Begin(call);
    MulticastWork work;
    ASSERT_EQ(one_.NextReceive(&work), later == 0x10000);
    if (later != 0x10000) continue;
    EXPECT_EQ(work.kind, MulticastWork::Kind::kQkey);
    EXPECT_EQ(work.epoch, (kInvocation >> 16) + 1);
    // One of 65,536 invocations ago, which was taken with its key, bears the same number.
    const auto imm = static_cast<uint32_t>(call.header.invocation) << 16;
    one_.OnDatagram(0, imm, kChunk, memory_);
    EXPECT_EQ(one_.counts().came, 0u);
    EXPECT_FALSE(one_.NextReceive(&work));
    one_.OnQkeySet();
    EXPECT_TRUE(one_.NextReceive(&work)) << "that of the one which came";
    one_.OnDatagram(0, imm, kChunk, memory_);
    EXPECT_EQ(one_.counts().came, 1u);
  }
}

// They come late where nobody waited for them.
TEST_F(HostMulticastOne, MessagesOfACallThatHasEndedAreNotLookedAt) {
  one_.Begin(Call(Collective::kAllGather));
  EXPECT_TRUE(Message(true, Words(2, 2, kInvocation - 1)));
  EXPECT_TRUE(Message(true, Words(9, 0, kInvocation - 70000)));
  MulticastWork work;
  while (one_.NextSend(true, true, memory_, &work)) EXPECT_NE(work.kind, MulticastWork::Kind::kRead);
  one_.Clear();
  EXPECT_TRUE(Message(true, Words(2, 2), kRingMessageBytes, kInvocation + 1));
  EXPECT_FALSE(Message(true, Words(2, 2, kInvocation + 1), kRingMessageBytes, kInvocation + 1));
}

TEST(HostMulticastSizeTest, NoInvocationHasMoreChunksThanANumberHas) {
  const HostMulticastConfig config = {.world_size = 3, .chunk_bytes = 4096};
  const auto gather = MakeHeader(Collective::kAllGather, 3, 1, DataType::kFloat64, ReduceOp::kNone);
  EXPECT_EQ(MostMulticastBytes(config, gather), 3ull * (65536 / 3) * 4096);
  const auto broadcast = MakeHeader(Collective::kBroadcast, 3, 1, DataType::kFloat64, ReduceOp::kNone);
  EXPECT_EQ(MostMulticastBytes(config, broadcast), 65536ull * 4096);
}

// Only the owner's datagrams of the open call fill its chunks, each once; all others are counted.
TEST(HostMulticastRulesTest, WhatIsNotOfTheCallIsDropped) {
  constexpr uint32_t kChunk = 64;
  HostMulticast multicast(
      {.rank = 1, .world_size = 3, .chunk_bytes = kChunk, .staging_chunks = 8, .read_bytes = kChunk}, 0);
  std::vector<uint8_t> memory(multicast.memory_bytes()), send(100), recv(300);
  HostCall call{.header = MakeHeader(Collective::kAllGather, 3, 100, DataType::kByte, ReduceOp::kNone),
                .send = send.data(),
                .recv = recv.data()};
  call.header.invocation = 0x30007;
  // The next of the receives, as another rank's byte.
  const auto comes = [&](std::optional<uint32_t> from, uint32_t invocation, uint32_t chunk, uint32_t bytes) {
    MulticastWork work;
    while (multicast.NextReceive(&work)) {
      if (work.kind == MulticastWork::Kind::kQkey) multicast.OnQkeySet();
    }
    std::ranges::fill(memory, static_cast<uint8_t>(from.value_or(9) + 1));
    multicast.OnDatagram(from, invocation << 16 | chunk, bytes, memory);
  };
  multicast.Begin(call);
  comes(std::nullopt, 7, 0, kChunk);
  EXPECT_EQ(multicast.counts().stranger, 1u);
  comes(0, 6, 0, kChunk);
  EXPECT_EQ(multicast.counts().stale, 1u);
  comes(2, 7, 0, kChunk);
  comes(0, 7, 6, kChunk);
  EXPECT_EQ(multicast.counts().alien, 2u) << "another rank's chunk, and one that there is not";
  comes(0, 7, 1, kChunk);
  EXPECT_EQ(multicast.counts().length, 1u) << "the last chunk has 36 bytes";
  EXPECT_EQ(recv, std::vector<uint8_t>(300));
  comes(0, 7, 1, 36);
  EXPECT_EQ(multicast.counts().came, 1u);
  EXPECT_EQ(recv[63] + recv[64] + recv[99] + recv[100], 0 + 1 + 1 + 0);
  comes(0, 7, 1, 36);
  EXPECT_EQ(multicast.counts().again, 1u);
  comes(1, 7, 2, kChunk);  // what a NIC gives back of what it sends is nobody's fault
  EXPECT_EQ(multicast.counts().alien + multicast.counts().again, 3u);
  multicast.Clear();
  comes(0, 7, 0, kChunk);
  EXPECT_EQ(multicast.counts().stale, 2u) << "no call is open";
  EXPECT_EQ(recv[0], 0);
}

// A NIC has a queue for each of its queue pairs: a token passes the slice that is posted with it, and no
// other.
TEST(HostMulticastRulesTest, ATokenWaitsForTheSliceBefore) {
  // Of four chunks, since one slice beside that of the token has room.
  HostMulticast multicast(
      {.world_size = 3, .chunk_bytes = 64, .staging_chunks = 8, .tokens = 1, .read_bytes = 64}, 0);
  std::vector<uint8_t> memory(multicast.memory_bytes()), data(64 * 16);
  multicast.Begin(
      {.header = MakeHeader(Collective::kBroadcast, 3, data.size(), DataType::kByte, ReduceOp::kNone),
       .send = data.data(),
       .recv = data.data()});
  std::optional<uint64_t> receive;  // the first for messages from the left
  MulticastWork work;
  while (multicast.NextReceive(&work)) {
    if (work.kind == MulticastWork::Kind::kMessageRecv && work.to_left && !receive) receive = work.offset;
  }
  const auto expect_slice = [&] {
    for (int chunk = 0; chunk < 4; ++chunk) {
      ASSERT_TRUE(multicast.NextSend(false, true, memory, &work));
      EXPECT_EQ(work.kind, MulticastWork::Kind::kDatagram);
    }
  };
  const auto expect_token = [&] {
    ASSERT_TRUE(multicast.NextSend(false, true, memory, &work));
    EXPECT_EQ(work.kind, MulticastWork::Kind::kMessage);
    EXPECT_EQ(memory[work.offset], 1) << "TOKEN";
  };
  expect_slice();
  expect_token();
  memory[*receive] = 1;
  ASSERT_TRUE(multicast.OnMessage(/*from_left=*/true, kRingMessageBytes, 0, memory));
  expect_slice();
  for (int chunk = 0; chunk < 4; ++chunk) {
    EXPECT_FALSE(multicast.NextSend(false, true, memory, &work)) << chunk << " have been sent";
    multicast.OnDatagramSent();
  }
  expect_token();
}

// There is room for one slice of each part alone.
TEST(HostMulticastRulesTest, ATokenWaitsForItsSliceWhereNoOtherHasRoom) {
  HostMulticast multicast({.world_size = 5, .chunk_bytes = 64, .staging_chunks = 9, .read_bytes = 64}, 0);
  std::vector<uint8_t> memory(multicast.memory_bytes()), send(64 * 2), recv(64 * 10);
  multicast.Begin(
      {.header = MakeHeader(Collective::kAllGather, 5, send.size(), DataType::kByte, ReduceOp::kNone),
       .send = send.data(),
       .recv = recv.data()});
  MulticastWork work;
  ASSERT_TRUE(multicast.NextSend(false, true, memory, &work));
  EXPECT_EQ(work.kind, MulticastWork::Kind::kDatagram);
  EXPECT_FALSE(multicast.NextSend(false, true, memory, &work));
  multicast.OnDatagramSent();
  ASSERT_TRUE(multicast.NextSend(false, true, memory, &work));
  EXPECT_EQ(work.kind, MulticastWork::Kind::kMessage);
  EXPECT_EQ(memory[work.offset], 1) << "TOKEN";
}

class HostMulticastTest : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Ranks, HostMulticastTest, testing::Range(2u, 10u));

// Parts that fit into the staging ring and that do not, in place and not, from each root, with and without
// losses; with all datagrams lost, too.
TEST_P(HostMulticastTest, EveryByteComesWhateverIsLost) {
  const uint32_t n = GetParam();
  uint64_t seed = SeedsToRun(1).first;
  for (const uint32_t lost : {0u, 10u, 300u, 1000u}) {
    for (const uint32_t staging : {4u, 4 * n, 256u}) {
      Calls calls;
      for (const Collective collective : kCopies) {
        for (const uint64_t count : {uint64_t{1}, uint64_t{16}, uint64_t{17}, uint64_t{301}}) {
          const auto header = MakeHeader(collective, n, count, DataType::kFloat32, ReduceOp::kNone,
                                         static_cast<uint32_t>(calls.size() % n));
          calls.push_back(std::make_unique<HostTestCall>(header, n, static_cast<Buffers>(calls.size() % 3),
                                                         seed + calls.size()));
        }
      }
      RunHostCalls(MulticastConfig(n, 64, staging), seed++, calls, {.lost = lost, .twice = lost / 3});
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
}

// All collectives one after the other, those without datagrams among those with them.
TEST_P(HostMulticastTest, RandomCallsOfAllCollectives) {
  const uint32_t n = GetParam();
  const auto [first, count] = SeedsToRun(40);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    std::mt19937_64 random(seed);
    HostPathConfig config = MulticastConfig(n, 8u << random() % 5, static_cast<uint32_t>(4 + random() % 60));
    config.tokens = 1 + static_cast<uint32_t>(random() % 2);
    config.addresses = 1 + static_cast<uint32_t>(random() % 3);
    config.message_bytes = config.chunk_bytes * static_cast<uint32_t>(1 + random() % 4);
    Calls calls;
    for (int i = 0; i < 12; ++i) {
      const DataType type = random() % 2 == 0 ? DataType::kFloat32 : DataType::kInt64;
      const auto collective = random() % 3 == 0 ? kAnyCollective[random() % 6] : kCopies[random() % 2];
      const auto header = MakeHeader(collective, n, random() % (random() % 8 == 0 ? 700 : 60), type,
                                     ReduceOp::kSum, static_cast<uint32_t>(random() % n));
      calls.push_back(
          std::make_unique<HostTestCall>(header, n, static_cast<Buffers>(random() % 3), random()));
    }
    const uint32_t lost = random() % 2 == 0 ? 0 : static_cast<uint32_t>(random() % 200);
    RunHostCalls(config, seed, calls, {.lost = lost, .twice = static_cast<uint32_t>(random() % 50)});
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

}  // namespace
}  // namespace epic
