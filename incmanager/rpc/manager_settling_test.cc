// A manager that has started and waits for what a former one had, or for its store: what waits with it,
// within which bounds, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "incmanager/rpc/kept.h"
#include "incmanager/rpc/manager_life_testing.h"
#include "incmanager/store/memory_store.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kRanks;
using testing::Life;
using ::testing::Not;

class ManagerSettling : public ::testing::Test {
 protected:
  void Keep() { ASSERT_TRUE(life_.store.Apply(life_.state->TakeUnkept({.now = life_.now})).ok()); }
  // A manager that starts, and what of the switches of before has registered since.
  void StartWith(const std::vector<std::string>& switches) {
    Keep();
    life_.Start(life_.store.count(), false);
    for (const std::string& name : switches) life_.Register(*life_.topology().FindSwitch(name));
  }
  std::set<std::string> SwitchesKept() {
    std::set<std::string> names;
    const Contents rows = *life_.store.Load();
    for (const auto& [row, value] : rows) {
      if (row.kind == RowKind::kSwitch) names.insert(row.key);
    }
    return names;
  }
  std::vector<std::string> EventsAbout(const std::string& about) {
    proto::EventsRequest request;
    request.set_about(about);
    std::vector<std::string> texts;
    const proto::EventsReply reply = life_.state->Events(life_.now, request);
    for (const proto::Event& event : reply.events()) texts.push_back(event.text());
    return texts;
  }
  // What a rank is told that joins now; nothing if it waits.
  proto::ServerMessage Told(SessionId session) {
    return life_.told[session].empty() ? proto::ServerMessage() : life_.told[session].back();
  }

  Life life_{testing::Tree32().Build()};
};

TEST_F(ManagerSettling, ASwitchThatDoesNotComeBackIsAwaitedByOneStartAlone) {
  StartWith({"root", "leaf1"});
  const std::vector<SessionId> waiting = life_.Join("g", proto::PATH_HOSTS);
  life_.Pass(9 * kSecond);
  EXPECT_TRUE(life_.told[waiting[0]].empty());
  life_.Pass(2 * kSecond);
  EXPECT_EQ(Told(waiting[0]).failure().switch_name(), "leaf2") << "they wait no longer";
  EXPECT_THAT(EventsAbout("switch leaf2"),
              Contains(HasSubstr(
                  "not awaited when a manager starts, until it registers: it has not registered within "
                  "10 s")));
  EXPECT_THAT(EventsAbout("switch leaf1"), Not(Contains(HasSubstr("not awaited"))));
  Keep();
  EXPECT_THAT(SwitchesKept(), ElementsAre("leaf1", "root"));
  StartWith({"root", "leaf1"});
  EXPECT_TRUE(Told(life_.Join("h", proto::PATH_HOSTS).back()).has_failure()) << "nobody is awaited";
  // It is back.
  life_.Register(*life_.topology().FindSwitch("leaf2"));
  Keep();
  EXPECT_THAT(SwitchesKept(), ElementsAre("leaf1", "leaf2", "root"));
}

TEST_F(ManagerSettling, ASwitchThatTheTopologyHasNoMoreIsForgotten) {
  ASSERT_TRUE(life_.store.Apply({RowOfSwitch("gone")}).ok());
  StartWith({"root", "leaf1", "leaf2"});
  EXPECT_THAT(EventsAbout("switch gone"), ElementsAre(HasSubstr("the topology has it no more")));
  Keep();
  EXPECT_THAT(SwitchesKept(), ElementsAre("leaf1", "leaf2", "root"));
}

TEST_F(ManagerSettling, JoinsThatWaitHaveTheBoundOfThoseThatWaitForOthers) {
  StartWith({});
  const uint32_t most = GroupOptions{}.max_waiting;
  std::vector<SessionId> sessions;
  for (uint32_t i = 0; i < most; ++i)
    sessions.push_back(life_.Join(fmt::format("g{}", i), proto::PATH_HOSTS, 0, 1));
  EXPECT_TRUE(life_.told[sessions.back()].empty());
  const proto::Failure refused = Told(life_.Join("more", proto::PATH_HOSTS, 0, 1)).failure();
  EXPECT_EQ(refused.code(), proto::ERROR_NO_RESOURCE);
  EXPECT_THAT(refused.message(), HasSubstr(fmt::format("{} ranks at ", most)));
  EXPECT_THAT(refused.message(), HasSubstr("--max-waiting"));
  EXPECT_FALSE(Told(life_.Join("more", proto::PATH_HOSTS, 1, 1)).has_failure())
      << "another address has its own";
  // Who goes makes room.
  life_.Close(sessions[0]);
  life_.Leave(sessions[1]);
  EXPECT_TRUE(Told(sessions[1]).has_left());
  for (int i = 0; i < 2; ++i)
    EXPECT_FALSE(Told(life_.Join("again", proto::PATH_HOSTS, 0, static_cast<uint32_t>(i))).has_failure());
  EXPECT_TRUE(Told(life_.Join("again", proto::PATH_HOSTS, 0, 3)).has_failure());
  life_.Pass(11 * kSecond);
  EXPECT_EQ(life_.state->ShowGroup("g2")->state(), "joining");
}

TEST_F(ManagerSettling, WhileTheStoreHangsWhatIsNewIsRefusedAndNamesIt) {
  const std::vector<SessionId> runs = life_.Join("g", proto::PATH_HOSTS);
  const Status hangs =
      MakeStatus(StatusCode::kDeadlineExceeded, "its disk hangs: a write has not returned for 5 s");
  for (int i = 0; i < 2; ++i) life_.state->OnStoreHealth(life_.now, hangs);
  const auto about_it = EventsAbout("manager");
  EXPECT_THAT(about_it.back(), HasSubstr("its store hangs, so that what is new is refused"));
  EXPECT_THAT(about_it[about_it.size() - 2], Not(HasSubstr("hangs"))) << "it is said once";
  const std::string warning = life_.state->ListSwitches(life_.now).warnings(0);
  EXPECT_EQ(warning, "the manager's store hangs: its disk hangs: a write has not returned for 5 s");
  const proto::Failure refused = Told(life_.Join("h", proto::PATH_HOSTS, 0, 1)).failure();
  EXPECT_EQ(refused.code(), proto::ERROR_NO_RESOURCE);
  EXPECT_THAT(refused.message(),
              HasSubstr("the manager's store hangs, and nothing new is promised: its disk hangs"));
  EXPECT_EQ(life_.state->ShowGroup("g")->state(), "running");
  life_.state->OnStoreHealth(life_.now, absl::OkStatus());
  EXPECT_TRUE(Told(life_.Join("h", proto::PATH_HOSTS).back()).has_joined());
  EXPECT_EQ(life_.state->ListSwitches(life_.now).warnings_size(), 0);
}

TEST_F(ManagerSettling, ARowThatIsNotKeptIsAnEvent) {
  life_.state->OnRowLost(life_.now, "row group 7 of 17000000 bytes; a row has 16777216 at most");
  EXPECT_THAT(EventsAbout("manager").back(), HasSubstr("does not outlive it: row group 7"));
}

// Ranks of a group of a network that is discovered, of which nothing is found yet.
class ManagerFinding : public ManagerSettling {
 protected:
  struct KeepingWorld : testing::IdleWorld {
    void Send(SessionId session, const proto::ServerMessage& message, bool) override {
      told[session].push_back(message);
    }
    std::map<SessionId, std::vector<proto::ServerMessage>> told;
  };
  ManagerFinding() {
    for (const SessionId session : life_.Join("g", proto::PATH_HOSTS))
      joined_.push_back(Told(session).joined());
    Keep();
    const auto kept = BeginEpoch(&life_.store, {});
    EXPECT_TRUE(kept.ok() && kept->running.size() == 1);
    state_.Resume({.now = kSecond}, *kept, "memory");
  }
  SessionId Return(uint32_t rank, const std::string& secret) {
    proto::Joined joined = joined_[0];
    joined.set_secret(secret);
    const SessionId session = state_.NewSession("10.9.9.9");
    state_.OnMessage(kSecond, session, testing::RejoinOf("g", rank, joined));
    return session;
  }
  // What a session was told last; nothing if it waits.
  proto::ServerMessage Last(SessionId session) {
    const auto& told = world_.told[session];
    return told.empty() ? proto::ServerMessage() : told.back();
  }
  // It hears this of each session, when nothing more is awaited: which still wait.
  std::vector<SessionId> WhoWaits() {
    std::vector<SessionId> sessions;
    state_.Tick(30 * kSecond);  // the group is not found in time
    for (const auto& [session, told] : world_.told) {
      if (!told.empty() && told.back().failure().code() == proto::ERROR_MANAGER_LOST)
        sessions.push_back(session);
    }
    return sessions;
  }

  std::vector<proto::Joined> joined_;
  KeepingWorld world_;
  ManagerState state_{{.name = "discovered", .path_mtu = 4096, .discovery = true}, {}, 1, 1, &world_};
};

TEST_F(ManagerFinding, OnlyWhoHasItsSecretWaitsAsARank) {
  EXPECT_EQ(Last(Return(0, "another")).failure().code(), proto::ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(Last(Return(0, "")).failure().code(), proto::ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(Last(Return(kRanks, joined_[0].secret())).failure().code(), proto::ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(Last(Return(1, joined_[0].secret())).failure().code(), proto::ERROR_INVALID_ARGUMENT);
  const SessionId first = Return(0, joined_[0].secret()), second = Return(0, joined_[0].secret());
  const SessionId other = Return(1, joined_[1].secret());
  EXPECT_TRUE(world_.told[first].empty() && world_.told[second].empty() && world_.told[other].empty());
  world_.told.clear();
  EXPECT_THAT(WhoWaits(), ElementsAre(second, other)) << "one session of each rank";
}

TEST_F(ManagerFinding, WhatARankSaysMeanwhileHasABound) {
  const SessionId session = Return(0, joined_[0].secret()), other = Return(1, joined_[1].secret());
  proto::ClientMessage window;
  window.mutable_window()->set_messages(1);
  for (int i = 0; i < 4 * 4096 * 2; ++i) state_.OnMessage(kSecond, other, window);
  EXPECT_TRUE(world_.told[other].empty()) << "of the largest group";
  proto::ClientMessage abort;
  abort.mutable_abort()->set_reason(std::string(1 << 20, 'x'));
  int said = 0;
  for (; world_.told[session].empty() && said < 10; ++said) state_.OnMessage(kSecond, session, abort);
  EXPECT_EQ(said, 4);
  EXPECT_EQ(Last(session).failure().code(), proto::ERROR_NO_RESOURCE);
  EXPECT_THAT(Last(session).failure().message(), HasSubstr("more than 4194304 bytes"));
  world_.told.clear();
  EXPECT_THAT(WhoWaits(), ElementsAre(other));
}

}  // namespace
}  // namespace epic::manager
