#include "incmanager/graph/host_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace epic::manager {
namespace {

// An engine's allowance (docs/PROTOCOL.md, "Who is at a port"): 20 at once, 10 a second.
struct Engine {
  bool Take(Nanos now) {
    tokens = std::min(20.0, tokens + static_cast<double>(now - last) / 1e8);
    last = now;
    if (tokens < 1) return false;
    tokens -= 1;
    return true;
  }
  double tokens = 20;
  Nanos last = 0;
};

std::set<Ipv4> Addresses(uint32_t count) {
  std::set<Ipv4> addresses;
  for (uint32_t i = 1; i <= count; ++i) addresses.insert(Ipv4{0x0a0a0000u + i});
  return addresses;
}

constexpr Nanos kTick = 100 * kMillisecond;

// Who answers is heard at once; nobody is given up before all switches have asked for him.
TEST(HostSearch, ManySilentHostsAreAllAskedFor) {
  HostSearch search;
  const std::vector<NodeId> switches{0, 1};
  std::map<NodeId, Engine> engines;
  // Of another manager, or an earlier one.
  engines[1].tokens = 0;
  std::set<Ipv4> silent = Addresses(128);
  int refused = 0;
  Nanos now = kSecond;
  for (; !silent.empty() && now < HostSearch::kAtMost; now += kTick) {
    search.Want(now, silent);
    for (const Ipv4 ip : silent) ASSERT_FALSE(search.IsOver(now, ip)) << Raw(ip);
    for (const HostSearch::Order& order : search.Due(now, switches)) {
      const bool asked = engines[order.node].Take(now);
      refused += asked ? 0 : 1;
      search.OnAnswer(now, order.node, order.ip, asked);
      // All hosts are at the second one.
      if (asked && order.node == 1) silent.erase(order.ip);
    }
  }
  EXPECT_TRUE(silent.empty());
  EXPECT_LT(now, 20 * kSecond);
  EXPECT_LT(refused, 40) << "an engine that refuses is left alone";
}

TEST(HostSearch, TheTimeOfOneBeginsWhenAllHaveAskedForIt) {
  HostSearch search;
  const Ipv4 ip{0x0a0a0001};
  search.Want(kSecond, {ip});
  ASSERT_EQ(search.Due(kSecond, {0, 1}).size(), 2u);
  search.OnAnswer(kSecond, 0, ip, true);
  search.OnAnswer(kSecond, 1, ip, false);
  EXPECT_TRUE(search.Due(kSecond, {0, 1}).empty());
  const Nanos later = 10 * kSecond;
  EXPECT_FALSE(search.IsOver(later, ip));
  for (const HostSearch::Order& order : search.Due(later, {0, 1}))
    search.OnAnswer(later, order.node, order.ip, true);
  search.Due(later, {0, 1});
  EXPECT_FALSE(search.IsOver(later + HostSearch::kFindWithin - 1, ip));
  EXPECT_TRUE(search.IsOver(later + HostSearch::kFindWithin, ip));
}

TEST(HostSearch, ASwitchThatNeverAsksHoldsUpNobodyForEver) {
  HostSearch search;
  const Ipv4 ip{0x0a0a0001};
  search.Want(kSecond, {ip});
  Nanos now = kSecond;
  for (; !search.IsOver(now, ip); now += kTick) {
    for (const HostSearch::Order& order : search.Due(now, {0})) search.OnAnswer(now, 0, order.ip, false);
  }
  EXPECT_EQ(now, kSecond + HostSearch::kAtMost);
}

TEST(HostSearch, EachIsAskedForAgainInItsTurn) {
  HostSearch search;
  search.Want(kSecond, Addresses(30));
  std::map<Ipv4, int> asked;
  for (Nanos now = kSecond; now < 5 * kSecond; now += kTick) {
    for (const HostSearch::Order& order : search.Due(now, {0})) {
      ++asked[order.ip];
      search.OnAnswer(now, 0, order.ip, true);
    }
  }
  EXPECT_EQ(asked.size(), 30u);
  for (const auto& [ip, times] : asked) EXPECT_TRUE(times == 1 || times == 2) << Raw(ip) << " " << times;
}

}  // namespace
}  // namespace epic::manager
