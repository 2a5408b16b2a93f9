// Groups by the hosts: what ends them, what becomes of them afterwards, and of what their switches held.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"

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
  w.groups()->OnJoin(w.now, 200, w.Request("h0", 0, 2, "beside"));
  w.groups()->OnJoin(w.now, 201, w.Request("h1", 1, 2, "beside"));
  const WatchedSwitches watched = w.groups()->Watched();
  EXPECT_EQ(watched.size(), 3u);
  w.groups()->OnContextsLost(w.now, w.Id("root"));
  EXPECT_EQ(w.Phase(), "running") << "it has none";
  w.groups()->OnSwitchLost(w.now, w.Id("root"), "so it is");
  EXPECT_EQ(w.Last<Failure>(103)->code, ErrorCode::kSwitchLost);
  EXPECT_EQ(w.Last<Failure>(103)->switch_name, "root");
  EXPECT_EQ(w.Phase("beside"), "running");
  const LinkEnd link{w.Id("h1"), 0};
  w.groups()->OnLinkDown(w.now, link, [&w](Nanos since) { return since == w.now; });
  EXPECT_EQ(w.Last<Failure>(201)->code, ErrorCode::kLinkLost);
}

// The same ranks, with and without their switch.
TEST(GroupPath, AGroupMadeAnewGoesByTheHostsAndBack) {
  GroupWorldFixture w(testing::Tree32());
  w.JoinAll(4);
  w.AnswerInstalls();
  w.groups()->OnSwitchLost(w.now, w.Id("root"), "its engine has stopped");
  EXPECT_EQ(w.Last<Failure>(100)->code, ErrorCode::kSwitchLost);
  for (SessionId session = 100; session < 104; ++session) w.groups()->OnSessionClosed(w.now, session);
  w.AnswerRemovals();
  LoseAgent(&w, "root");
  w.JoinAll(4);
  EXPECT_EQ(w.Last<JoinedReply>(100)->path, Path::kHosts);
  for (SessionId session = 100; session < 104; ++session) w.groups()->OnLeave(w.now, session);
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
    w.groups()->OnJoin(w.now, 100, w.Request("h0", 0, 2));
    w.groups()->OnJoin(w.now, 101, w.Request("h2", 1, 2));
    w.AnswerInstalls();
    ASSERT_EQ(w.Phase(), "running");
    const std::set<NodeId> tree = w.groups()->Find("g")->footprint.switches;
    ASSERT_EQ(tree.size(), 3u);
    const NodeId other = w.Id(tree.contains(w.Id("spine1")) ? "spine2" : "spine1");
    const std::string name = w.topology.nodes[other].name;
    if (when == "afterwards") w.groups()->OnPeer(w.now, 100, to_rank1);
    if (when == "and they connect then") {
      EXPECT_TRUE(w.switches.OnVerdict(other, Verdict::kSwitchLost));
    }
    w.groups()->OnSwitchLost(w.now, other, "so it is");
    EXPECT_EQ(w.Phase() == "running", when != "afterwards");
    if (when != "afterwards") w.groups()->OnPeer(w.now, 100, to_rank1);
    const auto* failure = w.Last<Failure>(101);
    ASSERT_EQ(failure == nullptr, when == "before they connect") << "it is back by then";
    if (failure == nullptr) continue;
    const std::string words = when == "afterwards"
                                  ? "switch " + name + " is lost: so it is"
                                  : "h0 does not reach h2: " + name + " is between them, and it is lost";
    EXPECT_EQ(failure->message, words);
  }
}

void SetState(Topology* topology, LinkEnd end, LinkState state) {
  const LinkEnd there = topology->Across(end);
  topology->nodes[end.node].hops[end.hop].state = state;
  topology->nodes[there.node].hops[there.hop].state = state;
}

// Between root and h0 others only forward. The way of the first group returns, and that of the second, which
// was placed meanwhile, is the other one.
TEST(GroupPath, WhoseWayAnOlderGroupTakesBackFails) {
  testing::TopologyBuilder builder;
  for (const char* name : {"root", "x", "y", "leaf", "z", "far"}) builder.Switch(name);
  for (const char* host : {"h0", "h1", "h2"}) builder.Host(host);
  for (const char* name : {"x", "y"}) builder.Link("root", name).Link(name, "leaf");
  builder.Link("root", "z").Link("z", "far");  // so that root is in the middle
  GroupWorldFixture w(builder.Link("leaf", "h0").Link("far", "h1").Link("root", "h2"));
  std::vector<Forwarding> tables;
  const auto compute = [&] {
    const std::vector<Forwarding> before = tables;
    tables =
        ComputeForwarding(w.topology, {.tables = before.empty() ? nullptr : &before, .ways = w.groups()->Ways()});
    w.groups()->OnNetwork(tables);
    w.groups()->FailMoved(w.now);
  };
  compute();
  w.path = Path::kNetwork;
  const auto join_all = [&](SessionId first_session, uint32_t first_qpn, const std::string& group) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      JoinRequest join = w.Request("h" + std::to_string(rank), rank, 3, group);
      join.qpn = first_qpn + rank;
      w.groups()->OnJoin(w.now, first_session + rank, join);
    }
    w.AnswerInstalls();
  };
  join_all(100, 0x11, "g");
  ASSERT_EQ(w.Phase(), "running");
  const Footprint first = w.groups()->Find("g")->footprint;
  ASSERT_FALSE(first.ways.empty());
  const auto taken = std::ranges::find_if(
      first.ways, [&](const Way& way) { return way.at == w.Id("leaf") && way.to == w.Id("root"); });
  ASSERT_NE(taken, first.ways.end());
  const LinkEnd link{taken->at, taken->hop};
  SetState(&w.topology, link, LinkState::kDown);
  compute();
  EXPECT_EQ(w.Phase(), "running") << "it may come back";
  join_all(200, 0x111, "later");
  ASSERT_EQ(w.Phase("later"), "running");
  SetState(&w.topology, link, LinkState::kUp);
  compute();
  EXPECT_EQ(w.Phase(), "running");
  ASSERT_NE(w.Last<Failure>(200), nullptr);
  EXPECT_EQ(w.Last<Failure>(200)->code, ErrorCode::kLinkLost);
  EXPECT_THAT(w.Last<Failure>(200)->message, ::testing::HasSubstr("another group relies on that"));
}

// A cable that was swapped, or a host that has moved: the old ports may have carriers.
TEST(GroupPath, ALinkThatIsGoneEndsTheGroup) {
  for (const bool of_host : {false, true}) {
    GroupWorldFixture w(testing::Tree32());
    w.JoinAll(4);
    w.AnswerInstalls();
    const NodeId h3 = w.Id("h3");
    w.groups()->FailMoved(w.now);
    ASSERT_EQ(w.Phase(), "running");
    if (of_host) {
      w.topology.Link(w.Id("leaf1"), {.port = "swp9"}, h3, {});
      w.topology.nodes[h3].attached = 1;
    }
    SetState(&w.topology, of_host ? LinkEnd{h3, 0} : *w.topology.EndAt(w.Id("root"), "swp2"),
             LinkState::kGone);
    w.groups()->FailMoved(w.now);
    const auto* failure = w.Last<Failure>(103);
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->code, ErrorCode::kLinkLost);
    EXPECT_EQ(failure->switch_name, of_host ? "leaf2" : "root");
    EXPECT_EQ(failure->message,
              of_host
                  ? "the link between leaf2:swp2 and h3 is lost: h3 has moved to leaf1:swp9"
                  : "the link between root:swp2 and leaf2:swp3 is lost: another is at one of its ports, or "
                    "a port is gone");
  }
}

// While the tree is made a switch that is lost, or has forgotten its part, has refused it.
TEST(GroupPath, ASwitchThatGoesWhileItIsAskedIsGoneRound) {
  for (const Path path : {Path::kAuto, Path::kNetwork}) {
    GroupWorldFixture w(testing::Tree32());
    w.path = path;
    w.JoinAll(4);
    ASSERT_EQ(w.Phase(), "installing");
    w.groups()->OnContextsLost(w.now, w.Id("root"));
    if (path == Path::kNetwork) {
      EXPECT_EQ(w.Last<Failure>(100)->code, ErrorCode::kSwitchLost);
      continue;
    }
    ASSERT_NE(w.Last<JoinedReply>(100), nullptr);
    EXPECT_EQ(w.Last<JoinedReply>(100)->path, Path::kHosts);
    EXPECT_EQ(w.Last<JoinedReply>(100)->path_reason,
              "switch root lost its contexts: its engine started anew");
    EXPECT_EQ(w.world.removals.size(), 3u);
    w.groups()->OnContextsLost(w.now, w.Id("root"));
    EXPECT_EQ(w.Phase(), "running") << "nothing of it is there";
  }
}

// A switch that is slow to remove what another one has refused disturbs nobody; but the group is not gone,
// and its QPNs are not used again, before it has.
TEST(GroupPath, RefusedContextsAreRemovedBesideTheGroup) {
  GroupWorldFixture w(testing::Tree32());
  w.JoinAll(4);
  const uint64_t id = w.world.installs[0].second.group_id;
  w.groups()->OnInstalled(w.now, w.Id("leaf1"), id,
                      {.status = MakeStatus(StatusCode::kResourceExhausted, "arena: full")});
  EXPECT_EQ(w.Phase(), "running");
  EXPECT_EQ(w.Last<JoinedReply>(100)->path_reason, "switch leaf1: arena: full");
  EXPECT_TRUE(w.groups()->GroupsOn(w.Id("leaf2")).empty()) << "an agent that registers now removes it";
  w.groups()->OnInstalled(w.now, w.Id("leaf2"), id, {.arena_bytes = 1000});
  w.groups()->OnInstalled(w.now, w.Id("root"), id,
                      {.status = MakeStatus(StatusCode::kResourceExhausted, "arena: full")});
  EXPECT_EQ(w.Phase(), "running");
  ASSERT_EQ(w.world.removals.size(), 3u);
  for (SessionId session = 100; session < 104; ++session) w.groups()->OnLeave(w.now, session);
  EXPECT_EQ(w.Phase(), "leaving");
  EXPECT_EQ(w.groups()->Removing(id)->size(), 3u);
  EXPECT_EQ(w.Last<LeftNote>(100), nullptr);
  w.AnswerRemovals();
  EXPECT_NE(w.Last<LeftNote>(100), nullptr);
  EXPECT_EQ(w.Phase(), "none");
}

TEST(GroupPath, RefusedContextsAreRemovedOnceWhenHostsDoNotReachEachOther) {
  GroupWorldFixture w(testing::RoutedTree32());
  w.JoinAll(4);
  const uint64_t id = w.world.installs[0].second.group_id;
  w.groups()->OnInstalled(w.now, w.Id("leaf1"), id,
                      {.status = MakeStatus(StatusCode::kResourceExhausted, "arena: full")});
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
