#include "roce/transport/rate.h"

#include <gtest/gtest.h>

namespace epic::roce {
namespace {

TEST(RateTest, NotLimitedBeforeACnp) {
  RateController rate;
  rate.OnSent(5, 1'000'000, {});
  EXPECT_EQ(rate.next_send_at(), 0);
}

TEST(RateTest, ACnpHalvesAndFurtherOnesCutMore) {
  const RateConfig config;
  RateController rate;
  rate.OnCnp(0, config);
  EXPECT_EQ(rate.rate_bps(), 50'000'000'000);
  rate.OnCnp(1, config);
  EXPECT_EQ(rate.rate_bps(), 25'000'000'000);
  for (int i = 0; i < 100; ++i) rate.OnCnp(2 + i, config);
  EXPECT_EQ(rate.rate_bps(), config.min_rate_bps);
}

TEST(RateTest, PacesAtItsRate) {
  const RateConfig config;
  RateController rate;
  rate.OnCnp(0, config);
  for (int i = 0; i < 4; ++i) rate.OnSent(0, 1000, config);  // 160 ns each at 50 Gbit/s
  EXPECT_EQ(rate.next_send_at(), 640);
  rate.OnSent(10'000, 1000, config);
  EXPECT_EQ(rate.next_send_at(), 10'160) << "time not used is not saved up";
}

// Fast recovery goes half of the way back per round; alpha decays meanwhile, so a later CNP cuts less.
TEST(RateTest, RecoversWithTime) {
  const RateConfig config;
  RateController rate;
  rate.OnCnp(0, config);
  rate.Advance(config.increase_interval_ns, config);
  EXPECT_EQ(rate.rate_bps(), 75'000'000'000);
  rate.OnCnp(config.increase_interval_ns, config);
  EXPECT_GT(rate.rate_bps(), 75'000'000'000 / 2);
  rate.Advance(kSecond, config);
  EXPECT_FALSE(rate.active());
  EXPECT_EQ(rate.next_send_at(), 0);
}

TEST(RateTest, RecoversWithBytes) {
  RateConfig config;
  config.increase_interval_ns = kSecond;
  RateController rate;
  rate.OnCnp(0, config);
  rate.OnSent(0, config.increase_bytes, config);
  EXPECT_EQ(rate.rate_bps(), 75'000'000'000);
}

// The floor is left again: additive and hyper increase reach the line rate in bounded time.
TEST(RateTest, RecoversFromTheFloor) {
  const RateConfig config;
  RateController rate;
  for (int i = 0; i < 100; ++i) rate.OnCnp(i, config);
  rate.Advance(kSecond, config);
  EXPECT_FALSE(rate.active());
}

}  // namespace
}  // namespace epic::roce
