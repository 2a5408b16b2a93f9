// How long packets take of a link: exactly, over any number of them.
#include "sim/clock.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/seeds_testing.h"
#include "sim/choices.h"
#include "sim/links.h"

namespace epic::sim {
namespace {

constexpr int64_t kGigabit = 1'000'000'000;

TEST(ClockTest, NanosecondsAndBack) {
  EXPECT_EQ(ToPicos(7), 7000);
  EXPECT_EQ(WholeNanos(7000), 7);
  EXPECT_EQ(WholeNanos(7999), 7) << "a core is not told of a time that has not come";
  EXPECT_EQ(ToPicos(kNever), kEndOfTime);
  EXPECT_EQ(ToPicos(kEndOfTime / kPicosPerNano + 1), kEndOfTime);
}

// 256 bytes of payload at 200 Gbit/s: 13.44 ns each, which whole nanoseconds would have as 13.
TEST(ClockTest, FractionsAddUp) {
  LinkClock clock;
  for (int64_t n = 1; n <= 1000; ++n) {
    ASSERT_EQ(clock.Take(5000, 336, 200 * kGigabit), 5000 + n * 13'440);
  }
}

// At any rate the last of n packets has left after the exact time of all their bytes, cut to picoseconds
// once.
TEST(ClockTest, NothingDrifts) {
  const TestSeeds seeds = SeedsToRun(200);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE(testing::Message() << "EPIC_SEED=" << seed);
    Choices choices(seed);
    const auto rate = static_cast<int64_t>(1 + choices.Below(800 * kGigabit));
    const auto begin = static_cast<Picos>(choices.Below(1'000'000));
    LinkClock clock;
    int64_t bytes = 0;
    for (int n = 0; n < 200; ++n) {
      const auto packet = static_cast<int64_t>(80 + choices.Below(4097));
      bytes += packet;
      ASSERT_EQ(clock.Take(begin, packet, rate), begin + bytes * 8 * kPicosPerSecond / rate)
          << rate << " bit/s";
    }
  }
}

// 3 Gbit/s: a byte takes 2666 2/3 ps.
TEST(ClockTest, APauseBeginsAnew) {
  constexpr int64_t rate = 3 * kGigabit;
  LinkClock clock;
  EXPECT_EQ(clock.Take(0, 1, rate), 2666);
  EXPECT_EQ(clock.Take(2666, 1, rate), 5333) << "the third of a picosecond before it is not over";
  EXPECT_EQ(clock.Take(6000, 1, rate), 8666) << "the link was free";
  EXPECT_EQ(clock.free_at(), 8666);
}

// On the links of a world, too: each packet arrives when its last bit does.
TEST(ClockTest, PacketsArriveInExactTime) {
  Choices choices(1);
  EventQueue events;
  Links links({.delay_ns = 500, .bits_per_second = 200 * kGigabit}, 2, choices, events);
  links.Connect(1, 0, /*super_frames=*/false);
  const std::vector<uint8_t> payload(256);
  roce::Packet packet;
  packet.payload = payload;
  for (int n = 0; n < 100; ++n) links.Send(0, 1, 0, {.packet = packet});
  for (Picos n = 1; n <= 100; ++n) {
    ASSERT_EQ(events.next_time(), n * 13'440 + 500'000);
    links.Arrived(events.Pop().number);
  }
  EXPECT_TRUE(events.empty());
}

}  // namespace
}  // namespace epic::sim
