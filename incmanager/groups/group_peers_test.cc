// What ranks say of the connections between them, and who hears it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;
using ::testing::HasSubstr;

// Three ranks by the hosts.
struct Ring : GroupWorldFixture {
  Ring() : GroupWorldFixture(testing::Star(3)) {
    path = Path::kHosts;
    JoinAll(3);
    EXPECT_EQ(Phase(), "running");
  }
  void Say(uint32_t rank, const PeerEnd& end) { groups()->OnPeer(now, 100 + rank, end); }
  size_t Told(uint32_t rank) { return world.sent[100 + rank].size(); }
};

constexpr PeerEnd kToRank2{.rank = 2, .qpn = 0x77, .psn = 0xabcdef};

TEST(GroupPeers, AnEndIsToldToTheRankThatItIsFor) {
  Ring w;
  w.Say(0, kToRank2);
  const auto* told = w.Last<PeerEnd>(102);
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->rank, 0u);
  EXPECT_EQ(ToString(told->ip), "10.10.0.1");
  EXPECT_EQ(told->qpn, 0x77u);
  EXPECT_EQ(told->psn, 0xabcdefu);
  EXPECT_FALSE(told->ready);
  EXPECT_EQ(w.Last<PeerEnd>(101), nullptr);
  PeerEnd ready = kToRank2;
  ready.ready = true;
  w.Say(0, ready);
  EXPECT_TRUE(w.Last<PeerEnd>(102)->ready);
  w.Say(2, {.rank = 0, .qpn = 0x78, .psn = 1, .ready = true});
  EXPECT_EQ(w.Last<PeerEnd>(100)->rank, 2u) << "both at once";
  EXPECT_EQ(w.Phase(), "running");
}

TEST(GroupPeers, WhatCannotBeEndsTheGroupAndNamesWhoSaidIt) {
  const auto failure = [](const std::vector<PeerEnd>& said) {
    Ring w;
    for (const PeerEnd& end : said) w.Say(1, end);
    for (SessionId session = 100; session < 103; ++session) {
      const auto* told = w.Last<Failure>(session);
      if (told == nullptr) return Failure{};
      EXPECT_EQ(told->code, ErrorCode::kInvalidArgument);
      EXPECT_EQ(told->rank, 1);
    }
    return *w.Last<Failure>(100);
  };
  PeerEnd ready = kToRank2;
  ready.ready = true;
  PeerEnd other = ready;
  other.psn = 1;
  EXPECT_TRUE(failure({kToRank2, ready}).ok());
  EXPECT_EQ(failure({{.rank = 3, .qpn = 1}}).message,
            "rank 1 of group g spoke of a connection that cannot be: rank: 3 is not below the world size 3");
  EXPECT_THAT(failure({{.rank = 1, .qpn = 1}}).message, HasSubstr("rank: 1 is its own"));
  EXPECT_THAT(failure({{.rank = 2, .qpn = 0}}).message, HasSubstr("qpn: 0x0 is not a 24-bit QPN"));
  EXPECT_THAT(failure({{.rank = 2, .qpn = 1 << 24}}).message, HasSubstr("qpn: 0x1000000 is not"));
  EXPECT_THAT(failure({{.rank = 2, .qpn = 1, .psn = 1 << 24}}).message, HasSubstr("psn: 0x1000000 is not"));
  EXPECT_THAT(failure({kToRank2, kToRank2}).message, HasSubstr("qpn: there is one for rank 2 already"));
  EXPECT_THAT(failure({kToRank2, other}).message, HasSubstr("qpn: there is one for rank 2 already"));
  EXPECT_THAT(failure({ready, ready}).message, HasSubstr("ready: said already to rank 2"));
}

// Four ranks by the hosts that have multicast.
struct FetchRing : GroupWorldFixture {
  explicit FetchRing(bool multicast) : GroupWorldFixture(testing::Star(4)) {
    path = Path::kHosts;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      JoinRequest join = Request("h" + std::to_string(rank), rank, 4);
      join.datagram_qpn = multicast ? 0x31 : 0;
      join.datagram_receives = multicast ? 1024 : 0;
      join.datagram_reach = DatagramReach::kRemote;
      groups()->OnJoin(now, 100 + rank, join);
    }
    EXPECT_EQ(Phase(), "running");
  }
  // What the first rank is told when these are said by rank 1; ok if it is no failure.
  Failure After(const std::vector<PeerEnd>& said) {
    for (const PeerEnd& end : said) groups()->OnPeer(now, 101, end);
    const auto* told = Last<Failure>(100);
    return told == nullptr ? Failure{} : *told;
  }
};

// Beside the other connection with the same rank, and to neighbours alone.
TEST(GroupPeers, TheRingForLostDatagramsHasConnectionsOfItsOwn) {
  const PeerEnd fetches{.rank = 2, .qpn = 0x77, .psn = 5, .fetches = true};
  PeerEnd ready = fetches;
  ready.ready = true;
  PeerEnd other = fetches;
  other.qpn = 0x78;
  other.fetches = false;
  FetchRing w(true);
  EXPECT_TRUE(w.After({other, fetches, ready}).ok());
  const auto* told = w.Last<PeerEnd>(102);
  ASSERT_NE(told, nullptr);
  EXPECT_TRUE(told->fetches && told->ready);
  EXPECT_EQ(told->qpn, 0x77u);
  EXPECT_EQ(told->rank, 1u);
  ASSERT_GE(w.world.sent[102].size(), 3u);
  EXPECT_FALSE(std::get<PeerEnd>(w.world.sent[102][w.world.sent[102].size() - 3]).fetches);
  other.ready = true;
  EXPECT_TRUE(w.After({other, {.rank = 0, .qpn = 0x79, .fetches = true}, {.rank = 3, .qpn = 0x80}}).ok());

  EXPECT_THAT(FetchRing(true).After({fetches, fetches}).message,
              HasSubstr("qpn: there is one for rank 2 already"));
  EXPECT_THAT(FetchRing(true).After({ready, ready}).message, HasSubstr("ready: said already to rank 2"));
  EXPECT_EQ(
      FetchRing(true).After({{.rank = 3, .qpn = 1, .fetches = true}}).message,
      "rank 1 of group g spoke of a connection that cannot be: fetches: rank 3 is no neighbour of rank 1 on "
      "the ring");
  EXPECT_THAT(FetchRing(false).After({fetches}).message, HasSubstr("fetches: the group has no multicast"));
}

TEST(GroupPeers, InAGroupWhoseHostsMakeNoConnectionsThereAreNone) {
  GroupWorldFixture w(testing::Star(3));
  w.path = Path::kNetwork;
  w.JoinAll(3);
  w.AnswerInstalls();
  w.groups()->OnPeer(w.now, 100, kToRank2);
  EXPECT_THAT(w.Last<Failure>(100)->message,
              HasSubstr("its hosts make no connections: path network was asked for by rank 0"));

  GroupWorldFixture both(testing::Star(3));
  both.JoinAll(3);
  both.AnswerInstalls();
  both.groups()->OnPeer(both.now, 100, kToRank2);
  EXPECT_NE(both.Last<PeerEnd>(102), nullptr) << "for calls that the switches lack";
}

// Who knows of a mismatch is gone, and acknowledges nothing any more; and who is told twice knows it once.
TEST(GroupPeers, AMismatchThatOneRankTellsIsEverybodys) {
  Ring w;
  w.groups()->OnMismatch(w.now, 999, "nobody's");
  EXPECT_EQ(w.Last<Failure>(101), nullptr);
  w.groups()->OnMismatch(w.now, 100, "rank 2 called with another count");
  w.groups()->OnMismatch(w.now, 101, "rank 1 called with another type");
  for (SessionId session = 100; session < 103; ++session) {
    const auto* failure = w.Last<Failure>(session);
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->code, ErrorCode::kMismatch);
    EXPECT_EQ(failure->message, "rank 2 called with another count");
  }
}

TEST(GroupPeers, AMismatchWithoutWordsIsTold) {
  Ring w;
  w.groups()->OnMismatch(w.now, 100, "");
  const auto* failure = w.Last<Failure>(102);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->message, "the ranks' calls differ");
}

// What comes too early or too late is nobody's fault, or cannot be told from it.
TEST(GroupPeers, WhatComesAtAnotherTimeIsPassedOver) {
  GroupWorldFixture early(testing::Star(3));
  early.Join(0, 3);
  early.groups()->OnPeer(early.now, 100, kToRank2);
  early.groups()->OnPeer(early.now, 999, kToRank2);
  EXPECT_TRUE(early.world.sent.empty());

  Ring w;
  const size_t before = w.Told(2);
  w.groups()->OnLeave(w.now, 102);
  w.Say(0, kToRank2);
  EXPECT_EQ(w.Told(2), before) << "it has left";
  w.Say(2, {.rank = 0, .qpn = 1});
  EXPECT_EQ(w.Last<PeerEnd>(100), nullptr);
  w.Say(0, {.rank = 1, .qpn = 1});
  EXPECT_NE(w.Last<PeerEnd>(101), nullptr) << "those two go on";
  w.groups()->OnAbort(w.now, 100, "enough");
  w.Say(1, {.rank = 0, .qpn = 1});
  EXPECT_NE(w.Last<Failure>(100), nullptr);
}

}  // namespace
}  // namespace epic::manager
