#include "incengine/state/message_ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace epic::engine {
namespace {

TEST(MessageRingTest, RefusesWhatDoesNotFit) {
  MessageRing ring(1000 * 64, 4 * 64, 8);
  EXPECT_FALSE(ring.Place(5 * 64));
  EXPECT_EQ(ring.Place(64), 1000u * 64);
  for (int i = 0; i < 4; ++i) {
    const auto place = ring.Place(1);
    ASSERT_TRUE(place) << "a message takes 64 bytes at least, not more";
    EXPECT_EQ(ring.Append({.at = *place, .bytes = 1, .holders = 1}), static_cast<uint64_t>(i));
  }
  EXPECT_FALSE(ring.Place(1));
}

TEST(MessageRingTest, RefusesMoreMessagesThanItMayHold) {
  MessageRing ring(0, 64 * 64, 2);
  ring.Append({.at = *ring.Place(0), .holders = 1});
  ring.Append({.at = *ring.Place(0), .holders = 1});
  EXPECT_FALSE(ring.Place(0));
}

TEST(MessageRingTest, MessagesLeaveInOrder) {
  MessageRing ring(0, 64 * 64, 8);
  for (uint32_t holders : {2u, 1u, 1u}) ring.Append({.at = *ring.Place(64), .bytes = 64, .holders = holders});
  ring.Release(1);
  ring.Release(0);
  EXPECT_EQ(ring.size(), 3u) << "the first has another holder";
  ring.Release(0);
  EXPECT_EQ(ring.front_number(), 2u);
  EXPECT_EQ(ring.size(), 1u);
}

// Random lengths and releases against a list of what is held: no two messages overlap, none leaves the
// region, and an empty ring takes a message of any length up to the region's.
TEST(MessageRingTest, MessagesNeverOverlap) {
  const uint64_t seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  constexpr uint64_t kBase = 640;
  constexpr size_t kCapacity = 4096;
  MessageRing ring(kBase, kCapacity, 100);
  std::deque<Message> held;
  uint64_t first = 0;
  int refused = 0;
  for (int step = 0; step < 100000; ++step) {
    const auto asked = static_cast<uint32_t>(random() % (kCapacity / 2 + 1));
    if (held.empty()) {
      ASSERT_TRUE(ring.Place(kCapacity));
    }
    const auto place = ring.Place(asked);
    refused += !place;
    if (place && random() % 2 == 0) {
      const Message message{
          .at = *place, .bytes = static_cast<uint32_t>(random() % (asked + 1)), .holders = 1};
      ASSERT_GE(message.at, kBase);
      ASSERT_LE(*place + asked, kBase + kCapacity);
      for (const Message& other : held) {
        ASSERT_TRUE(other.at + other.bytes <= *place || *place + asked <= other.at) << "step " << step;
      }
      ASSERT_EQ(ring.Append(message), first + held.size());
      held.push_back(message);
    } else if (!held.empty()) {
      ring.Release(first++);
      held.pop_front();
    }
    ring.CheckInvariants();
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace epic::engine
