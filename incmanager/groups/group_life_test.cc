#include "incmanager/groups/group_life.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;
using ::testing::HasSubstr;
using testing::Refusal;

const ContextPlan& On(const GroupWorldFixture& world, const std::string& name) {
  for (const ContextPlan& context : world.installed) {
    if (context.node == world.Id(name)) return context;
  }
  throw std::out_of_range(name);
}

TEST(GroupLife, JoinInstallRunLeave) {
  GroupWorldFixture w(testing::Tree32());
  for (uint32_t rank = 0; rank < 3; ++rank) w.Join(rank, 4);
  EXPECT_EQ(w.Phase(), "joining");
  EXPECT_TRUE(w.world.installs.empty());
  w.Join(3, 4);
  EXPECT_EQ(w.Phase(), "installing");
  ASSERT_EQ(w.world.installs.size(), 3u);
  EXPECT_TRUE(w.world.sent.empty());
  w.AnswerInstalls();
  EXPECT_EQ(w.Phase(), "running");
  for (SessionId session = 100; session < 104; ++session) EXPECT_NE(w.Last<JoinedReply>(session), nullptr);

  for (SessionId session = 100; session < 103; ++session) w.groups()->OnLeave(w.now, session);
  EXPECT_EQ(w.Phase(), "leaving");
  EXPECT_TRUE(w.world.removals.empty());
  w.groups()->OnLeave(w.now, 103);
  EXPECT_EQ(w.world.removals.size(), 3u);
  EXPECT_EQ(w.Last<LeftNote>(100), nullptr) << "contexts are still there";
  w.AnswerRemovals();
  for (SessionId session = 100; session < 104; ++session) EXPECT_NE(w.Last<LeftNote>(session), nullptr);
  EXPECT_EQ(w.Phase(), "none");
  EXPECT_TRUE(w.world.failed.empty());
}

TEST(GroupLife, BothEndsOfEveryEdgeAgree) {
  GroupWorldFixture w(testing::Tree32());
  w.JoinAll(4);
  w.AnswerInstalls();
  const ContextPlan& root = On(w, "root");
  EXPECT_FALSE(root.parent.has_value());
  ASSERT_EQ(root.children.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const ContextPlan& leaf = On(w, i == 0 ? "leaf1" : "leaf2");
    const EndpointPlan& down = root.children[i];
    ASSERT_TRUE(leaf.parent.has_value());
    EXPECT_EQ(leaf.parent_node, root.node);
    EXPECT_EQ(down.local_qpn, leaf.parent->remote_qpn);
    EXPECT_EQ(down.remote_qpn, leaf.parent->local_qpn);
    EXPECT_EQ(down.in_psn, leaf.parent->out_psn);
    EXPECT_EQ(down.out_psn, leaf.parent->in_psn);
    EXPECT_NE(down.in_psn, down.out_psn);
    EXPECT_EQ(down.remote_mac, w.topology.nodes[leaf.node].mac);
    EXPECT_EQ(leaf.parent->remote_ip, w.topology.nodes[root.node].address);
    EXPECT_FALSE(down.is_host);
    EXPECT_THAT(down.ranks, ::testing::ElementsAre(2 * i, 2 * i + 1));
    for (size_t j = 0; j < 2; ++j) {
      const auto rank = static_cast<uint32_t>(2 * i + j);
      const EndpointPlan& host = leaf.children[j];
      const auto* joined = w.Last<JoinedReply>(100 + rank);
      ASSERT_NE(joined, nullptr);
      EXPECT_TRUE(host.is_host);
      EXPECT_THAT(host.ranks, ::testing::ElementsAre(rank));
      EXPECT_EQ(host.remote_qpn, 0x11 + rank);
      EXPECT_EQ(joined->remote_ip, w.topology.nodes[leaf.node].address);
      EXPECT_EQ(joined->remote_qpn, host.local_qpn);
      EXPECT_EQ(joined->send_psn, host.in_psn);
      EXPECT_EQ(joined->recv_psn, host.out_psn);
    }
  }
  EXPECT_GE(root.slots, 2 * root.message_packets * root.window_messages);
  EXPECT_TRUE(std::has_single_bit(root.slots));
  EXPECT_EQ(root.path_mtu, 4096u);
}

TEST(GroupLife, EndsOfARoutedEdgeSendToTheRouter) {
  GroupWorldFixture w(testing::RoutedTree32());
  w.JoinAll(4);
  w.AnswerInstalls();
  const ContextPlan& root = On(w, "root");
  const ContextPlan& leaf1 = On(w, "leaf1");
  const ContextPlan& leaf2 = On(w, "leaf2");
  EXPECT_EQ(ToString(root.children[1].remote_mac), "02:f0:00:00:00:0a");
  EXPECT_EQ(root.children[1].remote_ip, w.topology.nodes[leaf2.node].address);
  EXPECT_EQ(ToString(leaf2.parent->remote_mac), "02:f0:00:00:00:0b");
  EXPECT_EQ(leaf2.parent->remote_ip, w.topology.nodes[root.node].address);
  EXPECT_EQ(root.children[0].remote_mac, w.topology.nodes[leaf1.node].mac);
  EXPECT_EQ(leaf1.parent->remote_mac, w.topology.nodes[root.node].mac);
  EXPECT_EQ(leaf2.children[0].remote_mac, w.topology.nodes[w.Id("h2")].mac);
}

TEST(GroupLife, StartPsnIsThatOfEveryEndpoint) {
  GroupOptions options;
  options.start_psn = 0xfffff0;
  GroupWorldFixture w(testing::Tree32(), options);
  w.JoinAll(4);
  w.AnswerInstalls();
  for (const ContextPlan& context : w.installed) {
    for (const EndpointPlan& child : context.children) {
      EXPECT_EQ(child.in_psn, 0xfffff0u);
      EXPECT_EQ(child.out_psn, 0xfffff0u);
    }
  }
}

TEST(GroupLife, QpnsRestBeforeTheyAreUsedAgain) {
  GroupWorldFixture w(testing::Star(2));
  std::set<uint32_t> qpns;
  for (int life = 0; life < 3; ++life) {
    w.JoinAll(2);
    w.AnswerInstalls();
    for (const EndpointPlan& child : w.installed.back().children)
      EXPECT_TRUE(qpns.insert(child.local_qpn).second);
    for (SessionId session = 100; session < 102; ++session) w.groups()->OnLeave(w.now, session);
    w.AnswerRemovals();
  }
  QpnPool pool(1);
  for (uint32_t i = 0; i < QpnPool::kQpnsPerSwitch; ++i) ASSERT_TRUE(pool.Take(0, 1, 0).has_value());
  pool.GiveBack(0, QpnPool::kFirstQpn + 5, 0);
  EXPECT_FALSE(pool.Take(0, 1, QpnPool::kQuarantine - 1).has_value());
  EXPECT_THAT(pool.Take(0, 1, QpnPool::kQuarantine),
              ::testing::Optional(::testing::ElementsAre(QpnPool::kFirstQpn + 5)));
}

TEST(GroupLife, ARankThatIsRefusedDisturbsNoGroup) {
  GroupWorldFixture w(testing::Star(4));
  EXPECT_EQ(Refusal(&w, w.Request("h0", 0, 0)).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(w.Phase(), "none");
  w.Join(0, 4);
  EXPECT_EQ(Refusal(&w, w.Request("h1", 0, 4)).code, ErrorCode::kDuplicateRank);
  for (uint32_t rank = 1; rank < 4; ++rank) w.Join(rank, 4);
  w.AnswerInstalls();
  EXPECT_EQ(w.Phase(), "running");
  EXPECT_EQ(Refusal(&w, w.Request("h1", 1, 4)).code, ErrorCode::kDuplicateRank);
  EXPECT_EQ(w.Phase(), "running");
}

TEST(GroupLife, WaitingOnceASecondThenTimeout) {
  GroupWorldFixture w(testing::Star(4));
  w.Join(0, 4);
  w.Join(2, 4);
  int waits = 0;
  // 119.9 s in tenths of a second.
  for (int i = 0; i < 1199; ++i) {
    w.now += 100 * kMillisecond;
    w.groups()->Tick(w.now);
  }
  for (const SessionEvent& event : w.world.sent[100]) {
    ASSERT_TRUE(std::holds_alternative<WaitingNote>(event));
    EXPECT_THAT(std::get<WaitingNote>(event).missing_ranks, ::testing::ElementsAre(1, 3));
    ++waits;
  }
  EXPECT_EQ(waits, 119);
  w.now += 100 * kMillisecond;
  w.groups()->Tick(w.now);
  for (const SessionId session : {100, 102}) {
    const auto* failure = w.Last<Failure>(session);
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->code, ErrorCode::kJoinTimeout);
    EXPECT_EQ(failure->message, "group g: 2 of 4 ranks did not join in time: 1, 3");
  }
  EXPECT_EQ(w.Phase(), "none");
}

TEST(GroupLife, ARankThatWaitsForEverIsNeverTooLate) {
  GroupWorldFixture w(testing::Star(2));
  JoinRequest join = w.Request("h0", 0, 2);
  join.join_timeout_ms = UINT32_MAX;
  w.groups()->OnJoin(w.now, 100, join);
  w.groups()->Tick(w.now += UINT32_MAX * kMillisecond + kSecond);
  EXPECT_EQ(w.Phase(), "joining");
  w.Join(1, 2);
  w.AnswerInstalls();
  EXPECT_EQ(w.Phase(), "running");
}

TEST(GroupLife, LateRankCompletesTheGroup) {
  GroupWorldFixture w(testing::Star(2));
  w.Join(0, 2);
  for (int i = 0; i < 600; ++i) w.groups()->Tick(w.now += 100 * kMillisecond);
  w.Join(1, 2);
  w.AnswerInstalls();
  EXPECT_EQ(w.Phase(), "running");
}

TEST(GroupLife, RankThatGoesAwayWhileJoiningMayComeAgain) {
  GroupWorldFixture w(testing::Star(3));
  w.Join(0, 3);
  w.Join(1, 3);
  w.groups()->OnSessionClosed(w.now, 101);
  EXPECT_EQ(w.Phase(), "joining");
  EXPECT_TRUE(w.world.sent.empty()) << "the others keep waiting";
  w.Join(1, 3);
  w.Join(2, 3);
  w.AnswerInstalls();
  EXPECT_EQ(w.Phase(), "running");

  GroupWorldFixture alone(testing::Star(2));
  alone.Join(0, 2);
  alone.groups()->OnSessionClosed(alone.now, 100);
  EXPECT_EQ(alone.Phase(), "none");
}

TEST(GroupLife, LostRankFailsARunningGroup) {
  GroupWorldFixture w(testing::Tree32());
  w.JoinAll(4);
  w.AnswerInstalls();
  w.groups()->OnSessionClosed(w.now, 102);
  EXPECT_EQ(w.Phase(), "failed");
  EXPECT_EQ(w.world.failed.size(), 3u) << "all switches stop the group";
  for (const SessionId session : {100, 101, 103}) {
    const auto* failure = w.Last<Failure>(session);
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->code, ErrorCode::kRankLost);
    EXPECT_EQ(failure->rank, 2);
  }
  EXPECT_TRUE(w.world.removals.empty()) << "sessions are still open";
  for (const SessionId session : {100, 101, 103}) w.groups()->OnSessionClosed(w.now, session);
  EXPECT_EQ(w.world.removals.size(), 3u);
  w.AnswerRemovals();
  EXPECT_EQ(w.Phase(), "none");
}

TEST(GroupLife, FailedGroupIsRemovedAfterALingerAndItsNameIsFreeAtOnce) {
  GroupWorldFixture w(testing::Star(2));
  w.JoinAll(2);
  w.AnswerInstalls();
  w.groups()->OnAbort(w.now, 100, "out of memory");
  const auto* failure = w.Last<Failure>(101);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->code, ErrorCode::kAborted);
  EXPECT_EQ(failure->rank, 0);
  EXPECT_THAT(failure->message, HasSubstr("rank 0 on h0 (pid 1000) aborted: out of memory"));

  w.groups()->OnJoin(w.now, 200, w.Request("h0", 0, 2));
  EXPECT_EQ(w.Phase(), "joining") << "a new life beside the one that is being removed";
  w.now += 5 * kSecond - 1;
  w.groups()->Tick(w.now);
  EXPECT_TRUE(w.world.removals.empty());
  w.groups()->Tick(++w.now);
  EXPECT_EQ(w.world.removals.size(), 1u);
  w.AnswerRemovals();
  EXPECT_EQ(w.Phase(), "joining");
  w.groups()->OnSessionClosed(w.now, 101);
  EXPECT_EQ(w.Phase(), "joining") << "a session of the former life";
}

TEST(GroupLife, RefusedInstallUndoesTheOthers) {
  GroupWorldFixture w(testing::Tree32());
  w.path = Path::kNetwork;
  w.JoinAll(4);
  ASSERT_EQ(w.world.installs.size(), 3u);
  const uint64_t id = w.world.installs[0].second.group_id;
  w.groups()->OnInstalled(w.now, w.Id("root"), id, {.arena_bytes = 1000});
  w.groups()->OnInstalled(w.now, w.Id("leaf1"), id,
                      {.status = MakeStatus(StatusCode::kResourceExhausted,
                                            "arena: 600 bytes needed, 500 of 900 bytes left")});
  for (SessionId session = 100; session < 104; ++session) {
    const auto* failure = w.Last<Failure>(session);
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->code, ErrorCode::kNoResource);
    EXPECT_EQ(failure->switch_name, "leaf1");
    EXPECT_EQ(failure->message, "switch leaf1: arena: 600 bytes needed, 500 of 900 bytes left");
  }
  EXPECT_EQ(w.world.removals.size(), 3u) << "also where the answer is still to come";
  w.groups()->OnInstalled(w.now, w.Id("leaf2"), id, {.arena_bytes = 1000});
  w.AnswerRemovals();
  EXPECT_EQ(w.Phase(), "none");
}

TEST(GroupLife, RankLostWhileInstalling) {
  GroupWorldFixture w(testing::Star(2));
  w.JoinAll(2);
  w.groups()->OnSessionClosed(w.now, 100);
  EXPECT_EQ(w.Last<Failure>(101)->code, ErrorCode::kRankLost);
  w.AnswerInstalls();
  EXPECT_EQ(w.Last<JoinedReply>(101), nullptr);
  EXPECT_EQ(w.world.removals.size(), 1u);
}

// Its last acknowledgement may be lost, and nobody repeats it: who is still there would wait for ever.
TEST(GroupLife, RankThatIsGoneBeforeTheOthersHaveLeftIsLost) {
  GroupWorldFixture w(testing::Star(2));
  w.JoinAll(2);
  w.AnswerInstalls();
  w.groups()->OnLeave(w.now, 100);
  w.groups()->OnSessionClosed(w.now, 100);
  const Failure* failure = w.Last<Failure>(101);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->code, ErrorCode::kRankLost);
  EXPECT_EQ(failure->rank, 0);
}

TEST(GroupLife, RankThatIsGoneWhenAllHaveLeftIsNot) {
  GroupWorldFixture w(testing::Star(2));
  w.JoinAll(2);
  w.AnswerInstalls();
  w.groups()->OnLeave(w.now, 100);
  w.groups()->OnJoin(w.now, 200, w.Request("h0", 0, 2));
  EXPECT_EQ(w.Last<Failure>(200)->code, ErrorCode::kAlreadyExists);
  w.groups()->OnLeave(w.now, 101);
  w.groups()->OnSessionClosed(w.now, 100);
  w.AnswerRemovals();
  EXPECT_NE(w.Last<LeftNote>(101), nullptr);
}

TEST(GroupLife, RankWhoseCallWasRefusedNeedNotWaitForTheOthers) {
  GroupWorldFixture w(testing::Star(2));
  w.JoinAll(2);
  w.AnswerInstalls();
  w.groups()->OnLeave(w.now, 100, {ErrorCode::kMismatch, "the calls differ in count"});
  EXPECT_EQ(w.Last<Failure>(101), nullptr) << "its refusal may be on the way";
  w.groups()->OnSessionClosed(w.now, 100);
  const Failure* failure = w.Last<Failure>(101);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->code, ErrorCode::kMismatch);
  EXPECT_EQ(failure->rank, 0);
  EXPECT_THAT(failure->message, ::testing::EndsWith("the calls differ in count"));
}

}  // namespace
}  // namespace epic::manager
