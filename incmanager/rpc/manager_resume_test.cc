// Groups that outlive their manager: managers over one store, one after the other, with switches and ranks
// that go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/rpc/kept.h"
#include "incmanager/rpc/manager_life_testing.h"
#include "incmanager/rpc/stored.h"
#include "incmanager/store/memory_store.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;
using testing::kRanks;
using testing::Life;

class ManagerResume : public ::testing::TestWithParam<proto::Path> {
 protected:
  // A group that runs, and what its ranks were told.
  std::vector<SessionId> Run(const std::string& group = "g") {
    const std::vector<SessionId> sessions = life_.Join(group, GetParam());
    joined_.clear();
    for (const SessionId session : sessions) {
      EXPECT_FALSE(life_.told[session].empty());
      if (life_.told[session].empty()) continue;
      EXPECT_TRUE(life_.told[session].back().has_joined()) << life_.told[session].back().ShortDebugString();
      joined_.push_back(life_.told[session].back().joined());
    }
    return sessions;
  }
  std::string StateOf(const std::string& group) {
    const auto shown = life_.state->ShowGroup(group, true, life_.now);
    return shown.ok() ? shown->state() : "none";
  }

  Life life_{testing::Tree32().Build()};
  std::vector<proto::Joined> joined_;
};
INSTANTIATE_TEST_SUITE_P(Paths, ManagerResume, ::testing::Values(proto::PATH_NETWORK, proto::PATH_HOSTS),
                         [](const auto& path) {
                           return path.param == proto::PATH_HOSTS ? "Hosts" : "Network";
                         });

TEST_P(ManagerResume, AGroupGoesOnAndItsRanksComeBackAndLeave) {
  Run();
  const Load load = life_.state->groups().load();
  const std::string shown = life_.state->ShowGroup("g")->SerializeAsString();
  const size_t contexts = life_.Contexts();
  life_.Restart();
  EXPECT_EQ(life_.state->groups().load(), load);
  EXPECT_EQ(life_.state->ShowGroup("g")->SerializeAsString(), shown);
  EXPECT_EQ(life_.Contexts(), contexts);
  std::vector<SessionId> sessions(kRanks);
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    EXPECT_TRUE(life_.Return(joined_[rank], "g", rank, &sessions[rank]).has_rejoined()) << rank;
  for (const SessionId session : sessions) life_.Leave(session);
  for (const SessionId session : sessions) EXPECT_TRUE(life_.told[session].back().has_left());
  EXPECT_EQ(life_.Contexts(), 0u);
  EXPECT_EQ(life_.state->groups().load(), Load());
  EXPECT_EQ(StateOf("g"), "ended");
}

// Whoever had been told something finds that the next manager knows of it.
TEST_P(ManagerResume, AfterEachCommitTheNextManagerKnowsWhatWasTold) {
  const size_t before = life_.store.count();
  const std::vector<SessionId> sessions = Run();
  const size_t running = life_.store.count();
  EXPECT_EQ(running, before + 1) << "a group costs one commit when it runs";
  for (const SessionId session : sessions) life_.Leave(session);
  EXPECT_EQ(life_.store.count(), running + 1) << "and one when it ends";
  const MemoryStore all(life_.store);
  // Before it was kept nobody was told of it.
  life_.Start(before);
  EXPECT_EQ(StateOf("g"), "none");
  EXPECT_EQ(life_.Contexts(), 0u) << "what nobody kept is removed";
  life_.store = all;
  life_.Start(running);
  EXPECT_EQ(StateOf("g"), GetParam() == proto::PATH_HOSTS ? "running" : "ended") << "its contexts are gone";
  life_.store = all;
  life_.Start(running + 1);
  EXPECT_EQ(StateOf("g"), "ended");
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    EXPECT_TRUE(life_.Return(joined_[rank], "g", rank).has_left());
}

TEST_P(ManagerResume, WhoComesBackToAFailedGroupHearsTheWordsOfThen) {
  const std::vector<SessionId> sessions = Run();
  proto::ClientMessage abort;
  abort.mutable_abort()->set_reason("no more");
  life_.Say(sessions[2], abort);
  const std::string words = life_.told[sessions[1]].back().failure().message();
  EXPECT_THAT(words, HasSubstr("no more"));
  life_.Restart();
  EXPECT_EQ(life_.Return(joined_[1], "g", 1).failure().message(), words);
  EXPECT_EQ(life_.Contexts(), 0u);
}

// By some errors a library would take it that the manager does not know it, were it not told Rejoined first.
TEST_P(ManagerResume, AllRanksHearTheErrorThatTheirGroupFailedWith) {
  Run();
  life_.Restart();
  SessionId here = 0, late = 0;
  life_.Return(joined_[0], "g", 0, &here);
  proto::ClientMessage wrong;
  wrong.mutable_peer()->set_rank(99);
  life_.Say(here, wrong);
  const proto::Failure first = life_.told[here].back().failure();
  EXPECT_EQ(first.code(), proto::ERROR_INVALID_ARGUMENT);
  for (const uint32_t rank : {1, 2}) {
    life_.Return(joined_[rank], "g", rank, &late);
    ASSERT_EQ(life_.told[late].size(), 2u) << life_.told[late].front().ShortDebugString();
    EXPECT_TRUE(life_.told[late][0].has_rejoined());
    EXPECT_EQ(life_.told[late][1].failure().SerializeAsString(), first.SerializeAsString());
    life_.Close(life_.Join("g", GetParam(), 0, 77));  // meanwhile another life of it has ended
  }
}

// It does not wait in a group that nobody else comes to.
TEST_P(ManagerResume, WhoWasNotToldThatItsGroupRanIsToldHowItHasEnded) {
  Run();
  life_.Restart();
  SessionId here = 0;
  life_.Return(joined_[0], "g", 0, &here);
  proto::ClientMessage abort;
  abort.mutable_abort()->set_reason("no more");
  life_.Say(here, abort);
  for (int restart = 0; restart < 2; ++restart) {
    const SessionId again = life_.Join("g", GetParam(), 3, 1);
    ASSERT_FALSE(life_.told[again].empty());
    EXPECT_EQ(life_.told[again].front().failure().code(), proto::ERROR_ABORTED);
    EXPECT_NE(StateOf("g"), "joining");
    life_.Restart();
  }
  EXPECT_EQ(life_.told[life_.Join("g", GetParam(), 3, 1, 2)].size(), 0u) << "another process begins anew";
}

// What it was told of the one and of the other was lost with the manager.
TEST_P(ManagerResume, NorDoesOneThatWasThereWaitForThoseThatHaveBeenTold) {
  for (const Nanos later : {0, 70}) {
    const std::string group = later == 0 ? "young" : "old";
    const std::vector<SessionId> sessions = Run(group);
    life_.Pass(later * kSecond);
    proto::ClientMessage abort;
    abort.mutable_abort()->set_reason("no more");
    life_.Say(sessions[0], abort);
    life_.Restart();
    const SessionId again = life_.Join(group, GetParam(), 3, 1);
    EXPECT_EQ(later == 0, !life_.told[again].empty()) << later;
    if (later == 0) {
      EXPECT_EQ(life_.told[again].front().failure().code(), proto::ERROR_ABORTED);
    }
  }
}

TEST_P(ManagerResume, WhoIsNotThatRankIsRefusedAndDisturbsNobody) {
  Run();
  life_.Restart();
  std::vector<proto::Joined> wrong(4, joined_[0]);
  wrong[0].set_secret("another");
  wrong[1].set_secret("");
  wrong[2].set_generation(99);
  wrong[3].set_group_id(1);
  for (const proto::Joined& joined : wrong) {
    const proto::ServerMessage answer = life_.Return(joined, "g", 0);
    EXPECT_TRUE(answer.failure().code() == proto::ERROR_INVALID_ARGUMENT ||
                answer.failure().code() == proto::ERROR_MANAGER_LOST)
        << answer.ShortDebugString();
    EXPECT_EQ(StateOf("g"), "running");
  }
  EXPECT_EQ(life_.Return(joined_[1], "g", 0).failure().code(), proto::ERROR_INVALID_ARGUMENT)
      << "another's secret";
  EXPECT_TRUE(life_.Return(joined_[0], "g", 0).has_rejoined());
  // By another stream once more: the one before is not its any more.
  SessionId second = 0;
  EXPECT_TRUE(life_.Return(joined_[0], "g", 0, &second).has_rejoined());
  EXPECT_EQ(StateOf("g"), "running");
}

// The manager was killed when this had been kept, and nobody, or not all, had been told.
TEST_P(ManagerResume, WhoWasNotToldThatItsGroupRunsJoinsAgainAndIsTold) {
  Run();
  life_.Restart();
  EXPECT_TRUE(life_.Return(joined_[3], "g", 3).has_rejoined());
  const std::vector<SessionId> sessions = life_.Join("g", GetParam());
  for (uint32_t rank = 0; rank < kRanks - 1; ++rank)
    EXPECT_EQ(life_.told[sessions[rank]].front().joined().SerializeAsString(),
              joined_[rank].SerializeAsString());
  EXPECT_EQ(life_.told[sessions[3]].front().failure().code(), proto::ERROR_DUPLICATE_RANK) << "it is there";
  EXPECT_EQ(StateOf("g"), "running");
  for (uint32_t rank = 0; rank < kRanks - 1; ++rank) life_.Leave(sessions[rank]);
  EXPECT_TRUE(life_.Return(joined_[3], "g", 3).has_rejoined());
}

// Another process may have come to have its number, its address and its QPN.
TEST_P(ManagerResume, WhoHasOnlyTheNumbersOfARankIsNotToldItsSecret) {
  for (const uint64_t nonce : {0, 1}) {
    Life life(testing::Tree32().Build());
    for (uint32_t rank = 0; rank < kRanks; ++rank) life.Join("g", GetParam(), rank, 1, nonce);
    life.Restart();
    for (const uint64_t another : {0, 2}) {
      const SessionId session = life.Join("g", GetParam(), 0, 1, another);
      ASSERT_FALSE(life.told[session].empty()) << another;
      EXPECT_EQ(life.told[session].front().failure().code(), proto::ERROR_DUPLICATE_RANK) << another;
    }
    EXPECT_EQ(life.state->ShowGroup("g")->state(), "running");
  }
}

// Nor is a secret what could be reckoned from a seed.
TEST_P(ManagerResume, SecretsAreTheSystems) {
  Run();
  Life again(testing::Tree32().Build());
  const std::vector<SessionId> sessions = again.Join("g", GetParam());
  std::set<std::string> secrets;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    proto::Joined other = again.told[sessions[rank]].back().joined();
    for (const std::string& secret : {joined_[rank].secret(), other.secret()}) {
      EXPECT_EQ(secret.size(), 16u);
      EXPECT_TRUE(secrets.insert(secret).second);
    }
    other.set_secret(joined_[rank].secret());
    EXPECT_EQ(other.SerializeAsString(), joined_[rank].SerializeAsString())
        << "all else follows from the seed";
  }
}

TEST_P(ManagerResume, WhereNobodyComesBackTheGroupEndsLater) {
  Run();
  life_.Restart();
  life_.Pass(GroupLife::kBackWithin - kSecond);
  EXPECT_EQ(StateOf("g"), "running");
  life_.Pass(2 * kSecond);
  EXPECT_EQ(StateOf("g"), "ended");
}

TEST_P(ManagerResume, ARankThatDoesNotComeBackInTimeIsLost) {
  Run();
  life_.Restart();
  SessionId session = 0;
  life_.Return(joined_[0], "g", 0, &session);
  life_.Pass(GroupLife::kOthersBackWithin - kSecond);
  EXPECT_EQ(StateOf("g"), "running");
  life_.Pass(2 * kSecond);
  const proto::Failure& failure = life_.told[session].back().failure();
  EXPECT_EQ(failure.code(), proto::ERROR_RANK_LOST);
  EXPECT_EQ(failure.rank(), 1);
  EXPECT_THAT(failure.message(), HasSubstr("has not come back"));
  EXPECT_EQ(life_.Return(joined_[2], "g", 2).failure().code(), proto::ERROR_RANK_LOST);
}

TEST_P(ManagerResume, JoinsWaitForTheSwitchesOfBeforeAndNoLonger) {
  Run("h");
  ASSERT_TRUE(life_.store.Apply(life_.state->TakeUnkept({})).ok());
  life_.Start(life_.store.count(), false);
  life_.Pass(kSecond);
  const std::vector<SessionId> sessions = life_.Join("g", GetParam());
  EXPECT_TRUE(life_.told[sessions[0]].empty());
  for (NodeId node = 0; node < life_.topology().switches.size(); ++node) life_.Register(node);
  life_.Pass(kSecond);
  ASSERT_FALSE(life_.told[sessions[0]].empty());
  EXPECT_TRUE(life_.told[sessions[0]].front().has_joined())
      << life_.told[sessions[0]].front().ShortDebugString();
}

TEST_P(ManagerResume, ARankWhoseStreamBreaksIsLostAtOnceAndAfterAManagersStandstillMayComeBack) {
  std::vector<SessionId> sessions = Run();
  life_.Pass(400 * kMillisecond);
  life_.now += 20 * kSecond;  // the manager stands still
  life_.Close(sessions[1]);
  life_.Pass(400 * kMillisecond);
  life_.Close(sessions[2]);
  EXPECT_EQ(StateOf("g"), "running");
  EXPECT_TRUE(life_.Return(joined_[1], "g", 1, &sessions[1]).has_rejoined());
  EXPECT_TRUE(life_.Return(joined_[2], "g", 2).has_rejoined());
  life_.Pass(12 * kSecond);
  EXPECT_EQ(StateOf("g"), "running");
  for (int i = 0; i < 10; ++i) life_.Pass(400 * kMillisecond);
  life_.Close(sessions[1]);
  EXPECT_EQ(life_.told[sessions[0]].back().failure().rank(), 1) << "it has ended";
}

TEST_P(ManagerResume, ARankThatHasEndedWhileTheManagerStoodStillIsLost) {
  const std::vector<SessionId> sessions = Run();
  life_.Pass(400 * kMillisecond);
  life_.now += 20 * kSecond;
  life_.Close(sessions[1]);
  life_.Pass(GroupLife::kReturnsWithin - kSecond);
  EXPECT_EQ(StateOf("g"), "running");
  life_.Pass(2 * kSecond);
  EXPECT_EQ(life_.told[sessions[0]].back().failure().code(), proto::ERROR_RANK_LOST);
}

TEST(ManagerResumeOnce, AReservedGroupsLivesAreCountedOnThoughTheLastWasNotKept) {
  Life life(testing::Tree32().Build());
  proto::CreateGroupRequest reserved;
  reserved.set_name("g");
  reserved.set_world_size(kRanks);
  const StatusOr<Batch> row = life.state->Keep(reserved);
  ASSERT_TRUE(row.ok() && life.store.Apply(*row).ok());
  ASSERT_TRUE(life.state->CreateGroup(reserved).ok());
  life.Join("g", proto::PATH_UNSPECIFIED);
  life.Restart();
  EXPECT_EQ(life.state->groups().LivesOf("g"), 1u);
}

TEST(ManagerResumeOnce, AContextThatIsMissingEndsItsGroupNamingTheSwitch) {
  Life life(testing::Tree32().Build());
  const std::vector<SessionId> sessions = life.Join("g", proto::PATH_NETWORK);
  const proto::Joined joined = life.told[sessions[0]].back().joined();
  life.model(life.topology().FindSwitch("leaf1").value()).Start();  // it has none any more
  life.Restart();
  const proto::Failure failure = life.Return(joined, "g", 0).failure();
  EXPECT_EQ(failure.code(), proto::ERROR_SWITCH_LOST);
  EXPECT_EQ(failure.switch_name(), "leaf1");
}

TEST(ManagerResumeOnce, EndsOfConnectionsAreSaidAgainAndPassedOn) {
  Life life(testing::Tree32().Build());
  const std::vector<SessionId> sessions = life.Join("g", proto::PATH_HOSTS);
  std::vector<proto::Joined> joined;
  for (const SessionId session : sessions) joined.push_back(life.told[session].back().joined());
  proto::ClientMessage end;
  end.mutable_peer()->set_rank(1);
  end.mutable_peer()->set_qpn(0x99);
  life.Say(sessions[0], end);
  life.Restart();
  SessionId first = 0, second = 0;
  EXPECT_TRUE(life.Return(joined[0], "g", 0, &first).has_rejoined());
  life.Say(first, end);
  life.Say(first, end);  // twice counts once
  EXPECT_TRUE(life.Return(joined[1], "g", 1, &second).has_rejoined());
  ASSERT_EQ(life.told[second].size(), 2u);
  EXPECT_EQ(life.told[second][1].peer().qpn(), 0x99u);
  // Another queue pair for the same rank is still a mistake.
  end.mutable_peer()->set_qpn(0x9a);
  life.Say(first, end);
  EXPECT_EQ(life.told[second].back().failure().code(), proto::ERROR_INVALID_ARGUMENT);
}

TEST(ManagerResumeOnce, WhatTheTopologyLacksNowIsNamed) {
  Life life(testing::Tree32().Build());
  life.Join("g", proto::PATH_NETWORK);
  Contents rows = *life.store.Load();
  const auto row =
      std::ranges::find_if(rows, [](const auto& one) { return one.first.kind == RowKind::kGroup; });
  ASSERT_NE(row, rows.end());
  proto::StoredGroup stored;
  ASSERT_TRUE(stored.ParseFromString(row->second));
  const auto again = FromStored(life.topology(), stored);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ToStored(life.topology(), *again).SerializeAsString(), row->second);
  stored.set_switches(0, "gone");
  EXPECT_THAT(std::string(FromStored(life.topology(), stored).status().message()),
              HasSubstr("no gone any more"));
  row->second = stored.SerializeAsString();
  life.store = MemoryStore(rows);
  life.Restart();
  const auto shown = life.state->ShowGroup("g", true, life.now);
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_THAT(shown->last_end().how(), HasSubstr("could not go on when its manager was started again"));
  EXPECT_EQ(life.Contexts(), 0u);
}

}  // namespace
}  // namespace epic::manager
