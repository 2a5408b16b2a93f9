// Groups by the hosts: what ends them, what becomes of them afterwards, and of what their switches held.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "incmanager/groups/group_table.h"
#include "incmanager/groups/group_table_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;

void LoseAgent(GroupWorldFixture* w, const std::string& name) {
  EXPECT_TRUE(w->switches.OnVerdict(w->Id(name), Verdict::kAgentLost));
}

// What a group by the hosts crosses ends it when it is lost, and nothing else does.
TEST(GroupPath, ASwitchBetweenTheHostsThatIsLostEndsTheGroup) {
  GroupWorldFixture w(testing::Tree32());
  w.path = Path::kHosts;
  w.JoinAll(4);
  w.table.OnJoin(w.now, 200, w.Request("h0", 0, 2, "beside"));
  w.table.OnJoin(w.now, 201, w.Request("h1", 1, 2, "beside"));
  const WatchedSwitches watched = w.table.Watched();
  EXPECT_EQ(watched.size(), 3u);
  w.table.OnContextsLost(w.now, w.Id("root"));
  EXPECT_EQ(w.Phase(), "running") << "it has none";
  w.table.OnSwitchLost(w.now, w.Id("root"), "so it is");
  EXPECT_EQ(w.Last<Failure>(103)->code, ErrorCode::kSwitchLost);
  EXPECT_EQ(w.Last<Failure>(103)->switch_name, "root");
  EXPECT_EQ(w.Phase("beside"), "running");
  const LinkEnd link{w.Id("h1"), 0};
  w.table.OnLinkDown(w.now, link, [&w](Nanos since) { return since == w.now; });
  EXPECT_EQ(w.Last<Failure>(201)->code, ErrorCode::kLinkLost);
}

// The same ranks, with and without their switch.
TEST(GroupPath, AGroupMadeAnewGoesByTheHostsAndBack) {
  GroupWorldFixture w(testing::Tree32());
  w.JoinAll(4);
  w.AnswerInstalls();
  w.table.OnSwitchLost(w.now, w.Id("root"), "its engine has stopped");
  EXPECT_EQ(w.Last<Failure>(100)->code, ErrorCode::kSwitchLost);
  for (SessionId session = 100; session < 104; ++session) w.table.OnSessionClosed(w.now, session);
  w.AnswerRemovals();
  LoseAgent(&w, "root");
  w.JoinAll(4);
  EXPECT_EQ(w.Last<JoinedReply>(100)->path, Path::kHosts);
  for (SessionId session = 100; session < 104; ++session) w.table.OnLeave(w.now, session);
  w.BringUp(w.Id("root"));
  w.JoinAll(4);
  w.AnswerInstalls();
  EXPECT_EQ(w.Last<JoinedReply>(100)->path, Path::kNetwork);
}

// A group through one spine, whose hosts reach each other by the other: that one concerns it from when single
// calls go between its hosts.
TEST(GroupPath, ASwitchBetweenTheHostsOfANetworkGroupCountsOnceTheyConnect) {
  const PeerEnd to_rank1{.rank = 1, .qpn = 0x77, .psn = 1};
  for (const std::string when : {"before they connect", "afterwards", "and they connect then"}) {
    SCOPED_TRACE(when);
    GroupWorldFixture w(testing::TwoSpines());
    w.table.OnJoin(w.now, 100, w.Request("h0", 0, 2));
    w.table.OnJoin(w.now, 101, w.Request("h2", 1, 2));
    w.AnswerInstalls();
    ASSERT_EQ(w.Phase(), "running");
    const std::set<NodeId> tree = w.table.Find("g")->footprint.switches;
    ASSERT_EQ(tree.size(), 3u);
    const NodeId other = w.Id(tree.contains(w.Id("spine1")) ? "spine2" : "spine1");
    const std::string name = w.topology.nodes[other].name;
    if (when == "afterwards") w.table.OnPeer(w.now, 100, to_rank1);
    if (when == "and they connect then") {
      EXPECT_TRUE(w.switches.OnVerdict(other, Verdict::kSwitchLost));
    }
    w.table.OnSwitchLost(w.now, other, "so it is");
    EXPECT_EQ(w.Phase() == "running", when != "afterwards");
    if (when != "afterwards") w.table.OnPeer(w.now, 100, to_rank1);
    const auto* failure = w.Last<Failure>(101);
    ASSERT_EQ(failure == nullptr, when == "before they connect") << "it is back by then";
    if (failure == nullptr) continue;
    const std::string words = when == "afterwards"
                                  ? "switch " + name + " is lost: so it is"
                                  : "h0 does not reach h2: " + name + " is between them, and it is lost";
    EXPECT_EQ(failure->message, words);
  }
}

// While the tree is made a switch that is lost, or has forgotten its part, has refused it.
TEST(GroupPath, ASwitchThatGoesWhileItIsAskedIsGoneRound) {
  for (const Path path : {Path::kAuto, Path::kNetwork}) {
    GroupWorldFixture w(testing::Tree32());
    w.path = path;
    w.JoinAll(4);
    ASSERT_EQ(w.Phase(), "installing");
    w.table.OnContextsLost(w.now, w.Id("root"));
    if (path == Path::kNetwork) {
      EXPECT_EQ(w.Last<Failure>(100)->code, ErrorCode::kSwitchLost);
      continue;
    }
    ASSERT_NE(w.Last<JoinedReply>(100), nullptr);
    EXPECT_EQ(w.Last<JoinedReply>(100)->path, Path::kHosts);
    EXPECT_EQ(w.Last<JoinedReply>(100)->path_reason,
              "switch root lost its contexts: its engine started anew");
    EXPECT_EQ(w.world.removals.size(), 3u);
    w.table.OnContextsLost(w.now, w.Id("root"));
    EXPECT_EQ(w.Phase(), "running") << "nothing of it is there";
  }
}

// A switch that is slow to remove what another one has refused disturbs nobody; but the group is not gone,
// and its QPNs are not used again, before it has.
TEST(GroupPath, RefusedContextsAreRemovedBesideTheGroup) {
  GroupWorldFixture w(testing::Tree32());
  w.JoinAll(4);
  const uint64_t id = w.world.installs[0].second.group_id;
  w.table.OnInstalled(w.now, w.Id("leaf1"), id, MakeStatus(StatusCode::kResourceExhausted, "arena: full"), 0);
  EXPECT_EQ(w.Phase(), "running");
  EXPECT_EQ(w.Last<JoinedReply>(100)->path_reason, "switch leaf1: arena: full");
  EXPECT_TRUE(w.table.GroupsOn(w.Id("leaf2")).empty()) << "an agent that registers now removes it";
  w.table.OnInstalled(w.now, w.Id("leaf2"), id, absl::OkStatus(), 1000);
  w.table.OnInstalled(w.now, w.Id("root"), id, MakeStatus(StatusCode::kResourceExhausted, "arena: full"), 0);
  EXPECT_EQ(w.Phase(), "running");
  ASSERT_EQ(w.world.removals.size(), 3u);
  for (SessionId session = 100; session < 104; ++session) w.table.OnLeave(w.now, session);
  EXPECT_EQ(w.Phase(), "leaving");
  EXPECT_EQ(w.table.Removing(id)->size(), 3u);
  EXPECT_EQ(w.Last<LeftNote>(100), nullptr);
  w.AnswerRemovals();
  EXPECT_NE(w.Last<LeftNote>(100), nullptr);
  EXPECT_EQ(w.Phase(), "none");
}

TEST(GroupPath, RefusedContextsAreRemovedOnceWhenHostsDoNotReachEachOther) {
  GroupWorldFixture w(testing::RoutedTree32());
  w.JoinAll(4);
  const uint64_t id = w.world.installs[0].second.group_id;
  w.table.OnInstalled(w.now, w.Id("leaf1"), id, MakeStatus(StatusCode::kResourceExhausted, "arena: full"), 0);
  const auto* failure = w.Last<Failure>(100);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->code, ErrorCode::kNoResource);
  EXPECT_EQ(failure->message,
            "switch leaf1: arena: full; nor by the hosts: h0 does not reach h2: a router is between root and "
            "leaf2, which passes nothing for hosts");
  EXPECT_EQ(w.world.removals.size(), 3u);
  w.AnswerRemovals();
  EXPECT_EQ(w.Phase(), "none");
}

}  // namespace
}  // namespace epic::manager
