// Hosts that lend memory, as their daemons come, go and come back (docs/PROTOCOL-CONTROL.md, section 7.5).
#include "incmanager/hosts/lenders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace epic::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Answer = Lenders::Answer;

constexpr Ipv4 kIp{0x0a000001}, kOther{0x0a000002};
constexpr ServedGroup kOne{1, 1}, kTwo{2, 1};

class LendersTest : public ::testing::Test {
 protected:
  // The daemon of h0, with the servers that it says it has.
  Lenders::Changes Say(HostId host, std::vector<ServedGroup> served = {}) {
    return lenders.OnInfo(host, "h0", FallbackOffer{.bytes = 100, .ip = kIp, .served = std::move(served)});
  }
  // h0 serves the group.
  void Serve(HostId host, const ServedGroup& group) {
    ASSERT_EQ(lenders.Ask(kIp, group, NameOf(group)), host);
    ASSERT_EQ(lenders.OnMade(host, group, true), Answer::kTaken);
  }
  static std::string NameOf(const ServedGroup& group) { return "g" + std::to_string(group.id); }
  // So many groups have a server of h0's, or have asked for one.
  size_t Having() {
    const auto all = lenders.List();
    return all.empty() ? 0 : all[0].served.size();
  }
  static std::vector<uint64_t> Ids(const std::vector<Lenders::Lost>& lost) {
    std::vector<uint64_t> ids;
    for (const Lenders::Lost& one : lost) ids.push_back(one.group.id);
    return ids;
  }

  Lenders lenders;
};

TEST_F(LendersTest, AGroupHasOneServer) {
  EXPECT_EQ(lenders.Ask(kIp, kOne, "g"), std::nullopt) << "nobody lends";
  EXPECT_THAT(lenders.OnInfo(7, "h9", std::nullopt).lost, IsEmpty());
  EXPECT_THAT(lenders.List(), IsEmpty());
  Say(5);
  EXPECT_EQ(lenders.Ask(kOther, kOne, "g"), std::nullopt);
  EXPECT_FALSE(lenders.Serves(5));
  EXPECT_EQ(lenders.Ask(kIp, kOne, "g1"), 5u);
  EXPECT_EQ(Having(), 1u) << "also of what has not been answered";
  EXPECT_TRUE(lenders.Serves(5));
  EXPECT_FALSE(lenders.Serves(7));
  EXPECT_EQ(lenders.Ask(kIp, kOne, "g"), std::nullopt) << "it has one";
  EXPECT_EQ(lenders.Ask(kIp, kTwo, "g2"), 5u);
  EXPECT_EQ(Having(), 2u);
  ASSERT_EQ(lenders.List().size(), 1u);
  EXPECT_EQ(lenders.List()[0].name, "h0");
  EXPECT_EQ(lenders.List()[0].bytes, 100u);
  EXPECT_THAT(lenders.List()[0].groups, ElementsAre("g1", "g2"));
  EXPECT_EQ(lenders.OnMade(5, kOne, true), Answer::kTaken);
  EXPECT_EQ(lenders.OnMade(5, kTwo, false), Answer::kTaken) << "refused";
  EXPECT_EQ(Having(), 1u);
  for (const bool serves : {true, false}) EXPECT_EQ(lenders.OnMade(5, kOne, serves), Answer::kRepeated);
  EXPECT_EQ(Having(), 1u);
  EXPECT_EQ(lenders.Remove(kOne), 5u);
  EXPECT_EQ(lenders.Remove(kOne), std::nullopt);
  EXPECT_EQ(Having(), 0u);
}

TEST_F(LendersTest, AnAnswerToWhatIsNotAskedAnyMoreIsNobodys) {
  Say(5);
  EXPECT_EQ(lenders.OnMade(5, kOne, true), Answer::kUnwanted);
  ASSERT_TRUE(lenders.Ask(kIp, kOne, "g"));
  EXPECT_EQ(lenders.OnMade(6, kOne, true), Answer::kUnwanted) << "of another daemon";
  EXPECT_EQ(lenders.OnMade(5, {1, 2}, true), Answer::kUnwanted) << "of another life";
  EXPECT_TRUE(lenders.Remove(kOne));
  EXPECT_EQ(lenders.OnMade(5, kOne, true), Answer::kUnwanted) << "it is not wanted any more";
}

TEST_F(LendersTest, ALegThatEndsIsToldWithItsFieldAndTheHost) {
  Say(5);
  Serve(5, kOne);
  Serve(5, kTwo);
  EXPECT_FALSE(lenders.OnEnded(5, {1, 2}, "kind", "so")) << "of another life";
  EXPECT_FALSE(lenders.OnEnded(6, kOne, "kind", "so")) << "of another daemon";
  const auto lost = lenders.OnEnded(5, kOne, "kind", "switch leaf1 sends what may not be");
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->group, kOne);
  EXPECT_EQ(lost->ip, kIp);
  EXPECT_EQ(lost->why, "switch leaf1 sends what may not be (field kind)");
  EXPECT_THAT(lenders.List()[0].groups, ElementsAre("g2"));
}

TEST_F(LendersTest, ADaemonThatComesBackWithItsServersGoesOn) {
  Say(5);
  Serve(5, kOne);
  EXPECT_THAT(lenders.OnGone(10, 5).lost, IsEmpty());
  EXPECT_THAT(lenders.List(), IsEmpty()) << "it lends nothing new";
  const Lenders::Changes back = Say(6, {kOne});
  EXPECT_THAT(back.lost, IsEmpty());
  EXPECT_THAT(back.unwanted, IsEmpty());
  EXPECT_THAT(lenders.Tick(10 + Lenders::kBackWithin), IsEmpty());
  EXPECT_EQ(Having(), 1u);
}

TEST_F(LendersTest, ADaemonThatHasStartedAnewHasLostItsServers) {
  Say(5);
  Serve(5, kOne);
  Serve(5, kTwo);
  lenders.OnGone(10, 5);
  const Lenders::Changes back = Say(6, {kTwo});
  EXPECT_THAT(Ids(back.lost), ElementsAre(1));
  EXPECT_THAT(back.lost[0].why, HasSubstr("started anew"));
  EXPECT_EQ(Having(), 1u);
}

TEST_F(LendersTest, ADaemonThatStaysAwayLosesItsServers) {
  Say(5);
  Serve(5, kOne);
  lenders.OnGone(10, 5);
  EXPECT_THAT(lenders.Tick(9 + Lenders::kBackWithin), IsEmpty());
  EXPECT_THAT(Ids(lenders.Tick(10 + Lenders::kBackWithin)), ElementsAre(1));
  EXPECT_THAT(lenders.Tick(11 + Lenders::kBackWithin), IsEmpty());
  const Lenders::Changes back = Say(6, {kOne});
  EXPECT_THAT(back.lost, IsEmpty());
  ASSERT_EQ(back.unwanted.size(), 1u) << "the group has failed, and the server is still there";
  EXPECT_EQ(back.unwanted[0].host, 6u);
  EXPECT_EQ(back.unwanted[0].group, kOne);
}

TEST_F(LendersTest, WhatWasAskedOfADaemonThatIsGoneIsLostAtOnce) {
  Say(5);
  ASSERT_TRUE(lenders.Ask(kIp, kOne, "g"));
  EXPECT_THAT(Ids(lenders.OnGone(10, 5).lost), ElementsAre(1));
  EXPECT_THAT(lenders.Tick(kSecond * 100), IsEmpty());
}

// The list in what a daemon says of itself may be older than what it has just answered.
TEST_F(LendersTest, WhatADaemonSaysOfItselfAgainEndsNothing) {
  Say(5);
  ASSERT_TRUE(lenders.Ask(kIp, kOne, "g"));
  EXPECT_THAT(Say(5).lost, IsEmpty());
  EXPECT_EQ(lenders.OnMade(5, kOne, true), Answer::kTaken);
  EXPECT_THAT(Say(5).lost, IsEmpty());
  EXPECT_EQ(lenders.Remove(kOne), 5u);
  EXPECT_THAT(Say(5, {kOne}).unwanted, IsEmpty()) << "it will hear of that";
}

TEST_F(LendersTest, AHostThatLendsNoMoreOrByAnotherAddressHasLostItsServers) {
  Say(5);
  Serve(5, kOne);
  const auto moved = lenders.OnInfo(5, "h0", FallbackOffer{.bytes = 100, .ip = kOther, .served = {}});
  EXPECT_THAT(Ids(moved.lost), ElementsAre(1));
  ASSERT_EQ(lenders.Ask(kOther, kTwo, "g"), 5u);
  EXPECT_THAT(Ids(lenders.OnInfo(5, "h0", std::nullopt).lost), ElementsAre(2));
  EXPECT_THAT(lenders.List(), IsEmpty());
}

TEST_F(LendersTest, AHostThatIsLostTakesItsServersAlong) {
  Say(5);
  Serve(5, kOne);
  EXPECT_THAT(lenders.OnHostLost({kOther}, "it does not answer").lost, IsEmpty());
  const auto lost = lenders.OnHostLost({kOther, kIp}, "it does not answer").lost;
  EXPECT_THAT(Ids(lost), ElementsAre(1));
  EXPECT_THAT(lost[0].why, HasSubstr("it does not answer"));
}

TEST_F(LendersTest, AGroupOfAFormerManagerWaitsForItsServersDaemon) {
  lenders.Resume(kIp, kOne, "g", 60);
  lenders.Resume(kIp, kTwo, "g", 60);
  EXPECT_THAT(lenders.Tick(59), IsEmpty());
  EXPECT_THAT(Ids(Say(5, {kOne, {9, 1}}).lost), ElementsAre(2));
  EXPECT_THAT(lenders.Tick(61), IsEmpty());
  EXPECT_EQ(Having(), 1u);
  EXPECT_TRUE(lenders.Has(kOne));
  EXPECT_FALSE(lenders.Has(kTwo));
  EXPECT_FALSE(lenders.Has({1, 2})) << "another life";
  lenders.Resume(kOther, kTwo, "g", 60);
  EXPECT_THAT(Ids(lenders.Tick(60)), ElementsAre(2));
}

TEST_F(LendersTest, ARemovedServerOfADaemonThatIsAwayIsUnwantedWhenItIsBack) {
  Say(5);
  Serve(5, kOne);
  lenders.OnGone(10, 5);
  EXPECT_EQ(lenders.Remove(kOne), std::nullopt);
  EXPECT_EQ(Say(6, {kOne}).unwanted.size(), 1u);
}

// Only by a port that is up a daemon shows that the address is its own.
TEST_F(LendersTest, WithoutItsPortNobodyTakesTheAddressOfAnother) {
  Say(5);
  Serve(5, kOne);
  const FallbackOffer down{.bytes = 100, .ip = kIp, .port_is_up = false, .served = {}};
  EXPECT_THAT(lenders.OnInfo(6, "h1", down).lost, IsEmpty());
  EXPECT_EQ(lenders.AddressOf(5), kIp);
  EXPECT_EQ(lenders.AddressOf(6), std::nullopt);
  EXPECT_THAT(lenders.OnInfo(5, "h0", down).lost, IsEmpty());
  EXPECT_FALSE(lenders.List()[0].port_is_up);
  Say(5);
  EXPECT_TRUE(lenders.List()[0].port_is_up);
}

TEST_F(LendersTest, TimeInWhichTheManagerStoodStillDoesNotPass) {
  Say(5);
  Serve(5, kOne);
  lenders.OnGone(kSecond, 5);
  lenders.OnStoodStill(20 * kSecond);
  EXPECT_THAT(lenders.Tick(21 * kSecond), IsEmpty());
  EXPECT_THAT(Ids(lenders.Tick(kSecond + 20 * kSecond + Lenders::kBackWithin)), ElementsAre(1));
}

}  // namespace
}  // namespace epic::manager
