#include "incmanager/groups/multicast_pool.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/seeds_testing.h"
#include "incmanager/policies/group_ports.h"

namespace epic::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::optional<MulticastRange> Range(const std::string& text) {
  const auto range = ParseMulticastRange(text);
  EXPECT_TRUE(range.ok()) << text;
  return range.ok() ? *range : std::nullopt;
}

// "-" for none.
std::string Taken(MulticastPool* pool, Nanos now) {
  const auto address = pool->Take(now);
  return address ? ToString(*address) : "-";
}

TEST(MulticastRange, IsReadAndSaid) {
  for (const char* text :
       {"239.192.0.0/16", "224.1.0.0/16", "239.255.255.240/28", "239.0.0.0/8", "224.0.1.0/24"})
    EXPECT_EQ(Range(text)->ToString(), text);
  EXPECT_EQ(Range("none"), std::nullopt);
  EXPECT_EQ(MulticastRange{}.ToString(), "239.192.0.0/16");
}

TEST(MulticastRange, WhatIsWrongIsNamed) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "neither ADDRESS/PREFIX"},
      {"239.192.0.0", "neither ADDRESS/PREFIX, as 239.192.0.0/16, nor none"},
      {"239.192.0.0/", "neither ADDRESS/PREFIX"},
      {"239.192.0.0/16x", "neither ADDRESS/PREFIX"},
      {"239.192.0/16", "neither ADDRESS/PREFIX"},
      {"None", "neither ADDRESS/PREFIX"},
      {"239.0.0.0/7", "the prefix 7 is not from 8 to 28"},
      {"239.0.0.0/29", "the prefix 29 is not from 8 to 28"},
      {"10.0.0.0/8", "10.0.0.0 is no multicast address"},
      {"240.0.0.0/8", "240.0.0.0 is no multicast address"},
      {"239.192.1.0/16", "of that prefix 239.192.0.0/16 is"},
      {"224.0.0.0/8", "it has addresses of 224.0.0.0/24"},
      {"224.0.0.0/24", "it has addresses of 224.0.0.0/24"},
      {"224.0.0.240/28", "it has addresses of 224.0.0.0/24"},
      {"239.128.0.0/24", "its MAC addresses are those of 224.0.0.0/24"},
      {"239.0.0.16/28", "its MAC addresses are those of 224.0.0.0/24"},
  };
  for (const auto& [text, what] : bad) {
    const Status status = ParseMulticastRange(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), StartsWith(text + ": "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
}

TEST(MulticastPool, AddressesTakeTurnsAndRest) {
  MulticastPool pool(Range("239.192.0.0/28"), 14);
  EXPECT_EQ(Taken(&pool, 0), "239.192.0.14");
  EXPECT_EQ(Taken(&pool, 0), "239.192.0.15");
  EXPECT_EQ(Taken(&pool, 0), "239.192.0.0");
  pool.GiveBack(*ParseIpv4("239.192.0.15"), 1);
  EXPECT_EQ(pool.InUse(), 2u);
  EXPECT_FALSE(pool.Uses(*ParseIpv4("239.192.0.15")));
  EXPECT_TRUE(pool.Uses(*ParseIpv4("239.192.0.14")));
  for (int i = 1; i < 14; ++i) EXPECT_EQ(Taken(&pool, 1), "239.192.0." + std::to_string(i));
  EXPECT_EQ(Taken(&pool, MulticastPool::kQuarantine), "-");
  EXPECT_EQ(Taken(&pool, MulticastPool::kQuarantine + 1), "239.192.0.15");
  EXPECT_EQ(Taken(&pool, MulticastPool::kQuarantine + 1), "-");
}

TEST(MulticastPool, WithoutARangeThereAreNone) {
  MulticastPool pool(std::nullopt, 7);
  EXPECT_EQ(Taken(&pool, 0), "-");
  EXPECT_EQ(pool.InUse(), 0u);
}

TEST(MulticastPool, TheMacsOfTheLinkAreNobodys) {
  MulticastPool pool(Range("239.128.0.0/16"), 254);
  EXPECT_EQ(Taken(&pool, 0), "239.128.1.0");
}

// Of a prefix of 8 two addresses have one MAC: with the one the other is taken.
TEST(MulticastPool, NoTwoShareAMac) {
  MulticastPool pool(Range("239.0.0.0/8"), 0x7fffff);
  EXPECT_EQ(Taken(&pool, 0), "239.127.255.255");
  EXPECT_TRUE(pool.Uses(*ParseIpv4("239.255.255.255")));
  EXPECT_EQ(Taken(&pool, 0), "239.128.1.0") << "those of the link are passed over";
  EXPECT_TRUE(pool.Uses(*ParseIpv4("239.0.1.0")));
  EXPECT_FALSE(pool.Uses(*ParseIpv4("239.0.1.1")));
}

// Whatever comes and goes: an address that is given out is not another's, nor was lately, nor is its MAC.
TEST(MulticastPool, NoneIsGivenOutTwiceOrWithinItsQuarantine) {
  const auto [first, count] = SeedsToRun(50);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(fmt::format("replay: EPIC_SEED={} with this test as --gtest_filter", seed));
    std::mt19937_64 random(seed);
    const auto range = Range(random() % 2 == 0 ? "239.192.0.0/27" : "239.127.255.0/24");
    MulticastPool pool(range, random());
    std::map<Mac, Nanos> free_from;  // kNever: it is taken
    std::vector<Ipv4> taken;
    Nanos now = 0;
    for (int step = 0; step < 500; ++step) {
      now += static_cast<Nanos>(random() % (2 * kSecond));
      pool.CheckInvariants();
      if (!taken.empty() && random() % 3 == 0) {
        std::swap(taken[random() % taken.size()], taken.back());
        pool.GiveBack(taken.back(), now);
        free_from[MulticastMac(taken.back())] = now + MulticastPool::kQuarantine;
        taken.pop_back();
        continue;
      }
      const auto address = pool.Take(now);
      if (!address) {
        size_t busy = 0;
        for (const auto& [mac, from] : free_from) busy += from > now ? 1 : 0;
        ASSERT_EQ(busy, range->size()) << "there are some";
        continue;
      }
      ASSERT_LT(Raw(*address) - Raw(range->first), range->size());
      Nanos& from = free_from[MulticastMac(*address)];
      ASSERT_LE(from, now);
      from = kNever;
      taken.push_back(*address);
      ASSERT_EQ(pool.InUse(), taken.size());
    }
  }
}

}  // namespace
}  // namespace epic::manager
