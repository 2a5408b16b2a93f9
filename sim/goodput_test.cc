#include "sim/goodput.h"

#include <gtest/gtest.h>

namespace epic::sim {
namespace {

// A packet's headers and the gap before it: 80 bytes.
constexpr double kBound = 1024.0 / 1104;

double PayloadGbit(const GoodputConfig& config, const Goodput& result) {
  return static_cast<double>(config.bytes) * 8e3 / static_cast<double>(result.time);
}

TEST(GoodputTest, ALongCallFillsTheLinkBothWays) {
  const GoodputConfig config{.bytes = 4 << 20};
  const Goodput result = MeasureGoodput(config);
  EXPECT_TRUE(result.right);
  EXPECT_GT(PayloadGbit(config, result), 0.95 * 100 * kBound);
  EXPECT_LT(PayloadGbit(config, result), 100 * kBound);
  EXPECT_GT(result.up, 4 << 20);
  EXPECT_LT(result.up, static_cast<int64_t>(1.1 * (4 << 20)));
  EXPECT_NEAR(static_cast<double>(result.down), static_cast<double>(result.up), 0.01 * (4 << 20));
}

// Each host sends 2 (n - 1) / n of its data.
TEST(GoodputTest, TheRingOfHostsSendsMore) {
  const Goodput ring = MeasureGoodput({.bytes = 1 << 20, .by_hosts = true});
  const Goodput by_switch = MeasureGoodput({.bytes = 1 << 20});
  EXPECT_TRUE(ring.right && by_switch.right);
  EXPECT_NEAR(static_cast<double>(ring.up) / static_cast<double>(by_switch.up), 1.5, 0.05);
  EXPECT_GT(ring.time, by_switch.time);
}

// A NIC that sends less ahead than a round trip takes leaves the link empty.
TEST(GoodputTest, TheNicBoundsWhatIsAhead) {
  const auto time = [](int32_t packets) {
    return MeasureGoodput({.bytes = 1 << 20, .host_most_outstanding = packets, .link_delay_ns = 5'000}).time;
  };
  EXPECT_GT(time(16), 4 * time(128));
}

TEST(GoodputTest, GroupsShareTheLink) {
  const Goodput one = MeasureGoodput({.bytes = 2 << 20});
  const Goodput four = MeasureGoodput({.groups = 4, .bytes = 2 << 20});
  EXPECT_TRUE(four.right);
  EXPECT_NEAR(static_cast<double>(four.time) / static_cast<double>(one.time), 1, 0.05);
}

}  // namespace
}  // namespace epic::sim
