#include "softnic/port/port_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "softnic/port/gids.h"

namespace epic::softnic {
namespace {

using ChangeKind = io::InterfaceChange::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kIndex = 3;
constexpr Ip kFirst{Ipv4{0x0a000001}}, kSecond{Ipv4{0x0a000002}};

std::vector<PortNews> NewsOf(PortStatus& status) {
  std::vector<PortNews> all;
  for (; const std::optional<PortNews> news = status.FirstNews(); status.TakeNews()) all.push_back(*news);
  return all;
}

void Say(PortStatus& status, bool up, uint32_t index = kIndex) {
  status.OnChange({.kind = ChangeKind::kState, .index = index, .up = up});
}

TEST(PortStatusTest, EachTurnOfTheLinkIsToldOnceAndInItsOrder) {
  PortStatus status(kIndex, true, {kFirst});
  Say(status, true);
  EXPECT_THAT(NewsOf(status), IsEmpty()) << "it was up";
  for (const bool up : {false, false, true, false, true, true}) Say(status, up);
  Say(status, false, kIndex + 1);  // another's
  EXPECT_THAT(NewsOf(status),
              ElementsAre(PortNews::kError, PortNews::kActive, PortNews::kError, PortNews::kActive));
  EXPECT_FALSE(status.wants_gids());
}

TEST(PortStatusTest, AddressesAreNewsIfTheyAreOthers) {
  PortStatus status(kIndex, true, {kFirst});
  status.OnChange({.kind = ChangeKind::kAddresses, .index = kIndex + 1});
  EXPECT_FALSE(status.wants_gids());
  status.OnChange({.kind = ChangeKind::kAddresses, .index = kIndex});
  EXPECT_TRUE(status.wants_gids());
  status.OnGids({kFirst});
  EXPECT_FALSE(status.wants_gids());
  EXPECT_THAT(NewsOf(status), IsEmpty()) << "the kernel also tells of other things about an address";
  status.OnGids({kFirst, kSecond});
  status.OnGids({kFirst, kSecond});
  status.OnGids({kSecond});
  EXPECT_THAT(NewsOf(status), ElementsAre(PortNews::kGids, PortNews::kGids));
}

// What hears of it late finds the table as it was.
TEST(PortStatusTest, AnAddressThatWentIsNewsEvenIfItIsBack) {
  const Ip link_local = LinkLocalOf({2, 0, 0, 0, 0, 1});
  const std::vector<Ip> gids = {link_local, kFirst, kSecond};
  for (const Ip address : {kFirst, kSecond}) {
    PortStatus status(kIndex, true, gids);
    status.OnChange({.kind = ChangeKind::kAddresses, .index = kIndex, .gone_address = address});
    EXPECT_TRUE(status.wants_gids());
    status.OnChange({.kind = ChangeKind::kAddresses, .index = kIndex});
    status.OnGids(gids);
    EXPECT_THAT(NewsOf(status), ElementsAre(PortNews::kGids, PortNews::kGids));
  }
  PortStatus status(kIndex, true, gids);
  for (const Ip other : {link_local, Ip(Ipv4{0x0a000009})}) {
    status.OnChange({.kind = ChangeKind::kAddresses, .index = kIndex, .gone_address = other});
  }
  status.OnGids(gids);
  EXPECT_THAT(NewsOf(status), IsEmpty()) << "it has no place, or one that stays";
}

TEST(PortStatusTest, BehindItsEndNothingComes) {
  PortStatus status(kIndex, true, {kFirst});
  Say(status, false);
  status.OnChange({.kind = ChangeKind::kAddresses, .index = kIndex});
  status.OnChange({.kind = ChangeKind::kGone, .index = kIndex});
  EXPECT_FALSE(status.wants_gids());
  status.OnChange({.kind = ChangeKind::kGone, .index = kIndex});
  Say(status, true);  // one that comes back is another one
  status.OnGids({});
  EXPECT_THAT(NewsOf(status), ElementsAre(PortNews::kError, PortNews::kGone));
}

TEST(PortStatusTest, WhatWasNotHeardIsLookedUp) {
  PortStatus status(kIndex, false, {kFirst});
  status.OnState(true, true);
  status.OnState(true, true);
  EXPECT_THAT(NewsOf(status), ElementsAre(PortNews::kActive));
  status.OnState(false, false);
  EXPECT_THAT(NewsOf(status), ElementsAre(PortNews::kGone));
}

TEST(PortStatusTest, OfNewsThatNobodyTakesTheNewestStay) {
  PortStatus status(kIndex, true, {kFirst});
  for (int i = 0; i < 1000; ++i) Say(status, i % 2 == 1);
  Say(status, false);
  const std::vector<PortNews> news = NewsOf(status);
  EXPECT_EQ(news.size(), 64u);
  EXPECT_EQ(news.back(), PortNews::kError);
}

}  // namespace
}  // namespace epic::softnic
