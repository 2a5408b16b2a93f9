// The server's end of a leg: receives, sums on their way, and what a switch that is out of order gets.
#include "fallback/leg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>

namespace epic::fallback {
namespace {

using testing::ElementsAre;

constexpr Group kNarrow{
    .world_size = 4, .path_mtu = 256, .message_packets = 2, .slots = 128, .accumulator_mtus = 1};
constexpr uint32_t kWords = 64;

// Bytes of `left` are posted to and sent from, as far as a queue has room.
class FakePort final : public LegPort {
 public:
  bool PostReceive(uint32_t number, std::span<uint8_t> room) override {
    return posts_ok && receives.try_emplace(number, room).second;
  }
  bool PostSend(uint32_t number, uint32_t immediate, std::span<const uint8_t> bytes) override {
    if (!posts_ok) return false;
    EXPECT_TRUE(sends.try_emplace(number, immediate).second) << "number " << number << " is being sent";
    int32_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    sent.push_back(word);
    return true;
  }

  bool posts_ok = true;
  std::map<uint32_t, std::span<uint8_t>> receives;
  std::map<uint32_t, uint32_t> sends;  // immediates, by number
  std::vector<int32_t> sent;           // the first word of each
};

class LegTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(leg.Start()); }

  std::string_view Take(uint32_t immediate, std::span<const uint8_t> bytes) {
    const auto [number, room] = *port.receives.begin();
    std::ranges::copy(bytes, room.begin());
    port.receives.erase(number);
    return leg.OnReceived(number, immediate, bytes.size());
  }
  std::string_view Open(uint64_t indices) {
    const auto bytes = EncodeOpen({.header = {.collective = Collective::kAllReduce,
                                              .op = ReduceOp::kSum,
                                              .type = DataType::kInt32,
                                              .count = indices * kWords}});
    return Take(LegImmediate(LegMessage::kOpen, 0), bytes);
  }
  std::string_view Put(LegMessage kind, Index index, int32_t value) {
    std::array<int32_t, kWords> words;
    words.fill(value);
    return Take(LegImmediate(kind, index), {reinterpret_cast<const uint8_t*>(words.data()), sizeof words});
  }
  std::string_view Fetch(Index index) { return Take(LegImmediate(LegMessage::kFetch, index), {}); }
  // Of this value, whole and asked for.
  std::string_view PutAndFetch(Index index, int32_t value) {
    const std::string_view wrong = Put(LegMessage::kLast, index, value);
    return wrong.empty() ? Fetch(index) : wrong;
  }

  std::vector<uint8_t> memory =
      std::vector<uint8_t>(LegMemoryBytes(kNarrow.path_mtu, kNarrow.accumulator_mtus));
  FakePort port;
  Leg leg{kNarrow, memory, &port};
};

TEST_F(LegTest, AReceiveIsPostedAgainWhenItsMessageHasBeenTaken) {
  EXPECT_EQ(port.receives.size(), kLegReceives);
  EXPECT_EQ(Open(200), "");
  for (int32_t part = 0; part < 200; ++part) EXPECT_EQ(Put(LegMessage::kPart, 1, part), "");
  EXPECT_EQ(Put(LegMessage::kLast, 1, 1), "");
  EXPECT_EQ(Fetch(1), "");
  EXPECT_EQ(port.receives.size(), kLegReceives);
  EXPECT_THAT(port.sent, ElementsAre(199 * 200 / 2 + 1));
  EXPECT_FALSE(leg.idle()) << "it has not been acknowledged";
  EXPECT_EQ(leg.OnSent(port.sends.begin()->first), "");
  EXPECT_TRUE(leg.idle());
}

// The bytes of a sum that is on its way are nobody else's. What is asked for beyond waits, and goes in order.
TEST_F(LegTest, SumsWaitUntilEarlierOnesHaveBeenAcknowledged) {
  EXPECT_EQ(Open(200), "");
  for (int32_t index = 1; index <= 40; ++index) EXPECT_EQ(PutAndFetch(index, index), "");
  EXPECT_EQ(port.sent.size(), kLegSums);
  for (int32_t round = 0; round < 40; ++round) {
    const uint32_t number = port.sends.begin()->first;
    port.sends.erase(number);
    EXPECT_EQ(leg.OnSent(number), "");
  }
  ASSERT_EQ(port.sent.size(), 40u);
  for (int32_t index = 1; index <= 40; ++index) EXPECT_EQ(port.sent[static_cast<size_t>(index - 1)], index);
  EXPECT_TRUE(leg.idle());
}

// It may ask for as much as its memory has indices, and take nothing of it: what the group holds here is
// bounded.
TEST_F(LegTest, ASwitchThatAsksForMoreThanItTakesEndsTheLeg) {
  EXPECT_EQ(Open(200), "");
  for (uint32_t index = 1; index <= 2 * kLegSums; ++index) EXPECT_EQ(PutAndFetch(index, 7), "");
  EXPECT_EQ(PutAndFetch(2 * kLegSums + 1, 7), "fetches");
}

TEST_F(LegTest, WhatIsMalformedIsNamed) {
  EXPECT_EQ(Fetch(1), "index");
  EXPECT_EQ(Take(0, {}), "kind") << "as a message without immediate";
}

TEST_F(LegTest, AQueuePairThatTakesNothingMoreEndsTheLeg) {
  EXPECT_EQ(Open(200), "");
  port.posts_ok = false;
  EXPECT_EQ(PutAndFetch(1, 7), "queue");
  Leg other(kNarrow, memory, &port);
  EXPECT_FALSE(other.Start());
}

}  // namespace
}  // namespace epic::fallback
