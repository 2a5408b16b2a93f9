#include "inchost/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace epic::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Keeps what is said.
class World : public RelayWorld {
 public:
  void ToManager(const proto::FromHost& message) override {
    to_manager.push_back(message.ShortDebugString());
  }
  void ToRank(RankId rank, const proto::ServerMessage& message, bool last) override {
    to_ranks[rank].push_back(message);
    if (last) ended.push_back(rank);
  }
  void Break(RankId rank, bool manager_lives) override {
    (manager_lives ? returned : broken).push_back(rank);
  }
  std::vector<RankId> broken;    // as the manager has gone
  std::vector<RankId> returned;  // as it lives
  std::vector<std::string> to_manager;
  std::map<RankId, std::vector<proto::ServerMessage>> to_ranks;
  std::vector<RankId> ended;
};

proto::ClientMessage Join(const std::string& group) {
  proto::ClientMessage message;
  message.mutable_join()->set_group(group);
  return message;
}

proto::ToHost Welcome() {
  proto::ToHost message;
  message.mutable_welcome();
  return message;
}

proto::ToHost Told(RankId rank, bool last) {
  proto::ToHost message;
  message.mutable_told()->set_session(rank);
  proto::ServerMessage& told = *message.mutable_told()->mutable_message();
  if (last) {
    told.mutable_left();
  } else {
    told.mutable_waiting();
  }
  message.mutable_told()->set_last(last);
  return message;
}

class RelayTest : public ::testing::Test {
 protected:
  void Connect() {
    proto::HostInfo info;
    info.set_name("h0");
    relay_.OnStream(kSecond, info);
    relay_.OnManager(kSecond, Welcome());
    world_.to_manager.clear();
  }

  World world_;
  Relay relay_{"192.0.2.1:7400", &world_};
};

TEST_F(RelayTest, SaysFirstWhoItIsAndPassesRanksOnWhenWelcomed) {
  relay_.OnRank(0, 7, Join("g"));
  proto::HostInfo info;
  info.set_name("h0");
  relay_.OnStream(kSecond, info);
  EXPECT_THAT(world_.to_manager, ElementsAre("info { name: \"h0\" }"));
  EXPECT_FALSE(relay_.connected());
  relay_.OnManager(kSecond, Welcome());
  EXPECT_TRUE(relay_.connected());
  EXPECT_THAT(world_.to_manager,
              ElementsAre("info { name: \"h0\" }", "said { session: 7 message { join { group: \"g\" } } }"));
}

TEST_F(RelayTest, EachRankHearsWhatIsForIt) {
  Connect();
  relay_.OnRank(kSecond, 1, Join("g"));
  relay_.OnRank(kSecond, 2, Join("g"));
  relay_.OnManager(kSecond, Told(2, false));
  relay_.OnManager(kSecond, Told(2, true));
  relay_.OnManager(kSecond, Told(2, false));  // after its end
  relay_.OnManager(kSecond, Told(3, false));  // of no rank here
  EXPECT_THAT(world_.to_ranks[1], IsEmpty());
  EXPECT_EQ(world_.to_ranks[2].size(), 2u);
  EXPECT_THAT(world_.ended, ElementsAre(2));
  EXPECT_FALSE(world_.to_ranks.contains(3));
}

TEST_F(RelayTest, ARankThatGoesIsToldOnceAndOnlyOfWhomTheManagerKnows) {
  relay_.OnRank(0, 1, Join("g"));
  relay_.OnRankClosed(1);
  EXPECT_THAT(world_.to_manager, IsEmpty());
  Connect();
  relay_.OnRank(kSecond, 2, Join("g"));
  world_.to_manager.clear();
  relay_.OnRankClosed(1);
  relay_.OnRankClosed(2);
  relay_.OnRankClosed(2);
  EXPECT_THAT(world_.to_manager, ElementsAre("said { session: 2 }"));
  EXPECT_EQ(relay_.ranks(), 0u);
}

TEST_F(RelayTest, WithTheManagerItsRanksAreLostAndOthersWait) {
  Connect();
  relay_.OnRank(kSecond, 1, Join("g"));
  relay_.OnStreamEnd("it does not answer");
  ASSERT_THAT(world_.ended, ElementsAre(1));
  const proto::Failure& failure = world_.to_ranks[1].back().failure();
  EXPECT_EQ(failure.code(), proto::ERROR_MANAGER_LOST);
  EXPECT_EQ(failure.message(), "this host has lost the manager at 192.0.2.1:7400: it does not answer");
  relay_.OnRank(2 * kSecond, 2, Join("g"));
  world_.to_manager.clear();
  relay_.OnRankClosed(1);
  EXPECT_THAT(world_.to_manager, IsEmpty()) << "the stream that knew of it is gone";
  Connect();
  EXPECT_THAT(world_.ended, ElementsAre(1)) << "the other one is passed on";
}

TEST_F(RelayTest, WhoHasWaitedTenSecondsForTheManagerIsToldWhy) {
  relay_.OnRank(0, 1, Join("g"));
  relay_.OnStreamEnd("it refuses this host: name: there is a host h0 already");
  relay_.OnRank(5 * kSecond, 2, Join("g"));
  relay_.Tick(10 * kSecond - 1);
  EXPECT_THAT(world_.ended, IsEmpty());
  relay_.Tick(10 * kSecond);
  EXPECT_THAT(world_.ended, ElementsAre(1));
  EXPECT_EQ(world_.to_ranks[1].back().failure().code(), proto::ERROR_MANAGER_UNREACHABLE);
  EXPECT_THAT(
      world_.to_ranks[1].back().failure().message(),
      HasSubstr("cannot reach the manager at 192.0.2.1:7400 within 10 s: it refuses this host: name: there"));
}

TEST_F(RelayTest, HowLongRanksWaitForTheManagerMayBeSaid) {
  Relay impatient("192.0.2.1:7400", &world_, kSecond / 2);
  impatient.OnRank(0, 1, Join("g"));
  impatient.Tick(kSecond / 2 - 1);
  EXPECT_THAT(world_.ended, IsEmpty());
  impatient.Tick(kSecond / 2);
  ASSERT_THAT(world_.ended, ElementsAre(1));
  EXPECT_THAT(world_.to_ranks[1].back().failure().message(), HasSubstr("within 0.5 s: no answer"));
}

TEST_F(RelayTest, ASessionBeginsWithAJoinAndSaysLittleMoreBeforeItsAnswer) {
  proto::ClientMessage leave;
  leave.mutable_leave();
  relay_.OnRank(0, 1, leave);
  EXPECT_EQ(world_.to_ranks[1].back().failure().code(), proto::ERROR_INVALID_ARGUMENT);
  for (int i = 0; i < 100; ++i) relay_.OnRank(0, 2, Join("g"));
  EXPECT_EQ(world_.to_ranks[2].size(), 1u);
  EXPECT_THAT(world_.ended, ElementsAre(1, 2));
  Connect();
  EXPECT_THAT(world_.to_manager, IsEmpty());
}

TEST_F(RelayTest, TellsTheManagerEachSecondThatItLives) {
  relay_.Tick(5 * kSecond);
  EXPECT_THAT(world_.to_manager, IsEmpty()) << "there is no stream";
  Connect();
  relay_.Tick(2 * kSecond - 1);
  EXPECT_THAT(world_.to_manager, IsEmpty());
  relay_.Tick(2 * kSecond);
  relay_.Tick(2 * kSecond + 1);
  EXPECT_THAT(world_.to_manager, ElementsAre(""));
}

// Its manager keeps groups: the rank comes back by another session, and waits as long as it likes.
TEST_F(RelayTest, ARankThatMayComeBackIsNotToldThatTheManagerIsAway) {
  Connect();
  proto::ClientMessage join = Join("g");
  join.mutable_join()->set_rejoins(true);
  for (const RankId rank : {1, 2, 3}) relay_.OnRank(0, rank, join);
  proto::ToHost joined = Told(1, false);
  joined.mutable_told()->mutable_message()->mutable_joined()->set_secret("s");
  joined.mutable_told()->mutable_message()->mutable_joined()->set_durable(true);
  relay_.OnManager(0, joined);
  joined.mutable_told()->set_session(2);
  joined.mutable_told()->mutable_message()->mutable_joined()->clear_secret();
  relay_.OnManager(0, joined);
  relay_.OnStreamEnd("it has ended");
  EXPECT_THAT(world_.broken, ElementsAre(1, 3)) << "one that joins may join again";
  EXPECT_THAT(world_.ended, ElementsAre(2)) << "of a manager that keeps no groups";
  relay_.OnRankClosed(1);

  proto::ClientMessage rejoin, end;
  rejoin.mutable_rejoin()->set_group("g");
  end.mutable_peer()->set_rank(1);
  relay_.OnRank(kSecond, 7, rejoin);
  for (int i = 0; i < 20; ++i) relay_.OnRank(kSecond, 7, end);
  relay_.Tick(100 * kSecond);
  EXPECT_THAT(world_.ended, ElementsAre(2));
  world_.to_manager.clear();
  relay_.OnStream(kSecond, {});
  relay_.OnManager(kSecond, Welcome());
  ASSERT_GE(world_.to_manager.size(), 22u);
  EXPECT_THAT(world_.to_manager[1], HasSubstr("rejoin"));
}

// It has come back by this daemon under a manager that keeps no groups, which the rank alone knows.
TEST_F(RelayTest, AReturnedRankWhoseGroupEndsWithTheManagerIsToldThatTheManagerIsLost) {
  Connect();
  proto::ClientMessage rejoin;
  rejoin.mutable_rejoin()->set_group("g");
  relay_.OnRank(0, 1, rejoin);
  rejoin.mutable_rejoin()->set_ends_with_manager(true);
  relay_.OnRank(0, 2, rejoin);
  relay_.OnStreamEnd("it has ended");
  EXPECT_THAT(world_.broken, ElementsAre(1));
  EXPECT_THAT(world_.ended, ElementsAre(2));
}

// Its stream has been ended by the manager, as the daemon stood still, or the daemon ends: the manager lives,
// and takes back also those whose groups end with it.
TEST_F(RelayTest, WhereTheManagerLivesRanksComeBackToIt) {
  const auto some = [this] {
    Connect();
    proto::ClientMessage join = Join("g"), rejoin;
    join.mutable_join()->set_rejoins(true);
    rejoin.mutable_rejoin()->set_group("g");
    for (const RankId rank : {1, 2}) relay_.OnRank(0, rank, join);
    relay_.OnRank(0, 3, rejoin);
    relay_.OnRank(0, 4, Join("old"));
    proto::ToHost joined = Told(1, false);
    joined.mutable_told()->mutable_message()->mutable_joined()->set_secret("s");
    relay_.OnManager(0, joined);
  };
  some();
  relay_.OnStreamEnd("it refuses this host", true);
  EXPECT_THAT(world_.returned, ElementsAre(1, 3));
  EXPECT_THAT(world_.broken, ElementsAre(2)) << "it joins again";
  EXPECT_THAT(world_.ended, ElementsAre(4));
  for (const RankId rank : {1, 2, 3, 4}) relay_.OnRankClosed(rank);
  world_ = {};
  some();
  relay_.OnStop();
  EXPECT_THAT(world_.returned, ElementsAre(1, 3));
  EXPECT_THAT(world_.broken, IsEmpty());
  EXPECT_THAT(world_.ended, ElementsAre(2, 4));
  EXPECT_THAT(world_.to_ranks[2].back().failure().message(), HasSubstr("this host's daemon (inchost)"));
}

}  // namespace
}  // namespace epic::host
