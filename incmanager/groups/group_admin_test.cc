// Switches and operators, as groups see them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;
using ::testing::HasSubstr;
using testing::Refusal;

// Else its agent, which registers just then, would remove what a manager that dies before the end is kept still
// has.
TEST(GroupLife, AContextIsKeptUntilItsRemovalIsAnswered) {
  GroupWorldFixture w(testing::Tree32());
  w.JoinAll(4);
  w.AnswerInstalls();
  const NodeId leaf2 = w.Id("leaf2");
  for (const SessionId session : {100, 101, 102, 103}) w.groups()->OnLeave(w.now, session);
  ASSERT_FALSE(w.world.removals.empty());
  EXPECT_EQ(w.groups()->GroupsOn(leaf2).size(), 1u);
  w.AnswerRemovals();
  EXPECT_TRUE(w.groups()->GroupsOn(leaf2).empty());
}

TEST(GroupLife, SwitchTrouble) {
  GroupWorldFixture w(testing::Tree32());
  w.JoinAll(4);
  w.AnswerInstalls();
  const NodeId leaf2 = w.Id("leaf2");
  EXPECT_EQ(w.groups()->GroupsOn(leaf2).size(), 1u);

  // An agent that is lost disturbs nobody, but no new group goes through its switch.
  for (NodeId node : {w.Id("root"), w.Id("leaf1")}) w.BringUp(node);
  const Nanos later = w.now + kAgentLostAfter + 1;
  for (NodeId node : {w.Id("root"), w.Id("leaf1")}) {
    const EngineReport report = w.Report(node);
    ASSERT_TRUE(w.switches.Heartbeat(later, report.name, &report).ok());
  }
  const HealthWatch watch(&w.topology, &w.switches);
  for (const NodeId node : w.topology.switches)
    EXPECT_EQ(w.switches.OnVerdict(node, watch.VerdictOf(later, node)), node == leaf2);
  EXPECT_EQ(w.Phase(), "running");
  w.path = Path::kNetwork;
  w.groups()->OnJoin(w.now, 200, w.Request("h1", 0, 2, "other"));
  w.groups()->OnJoin(w.now, 201, w.Request("h2", 1, 2, "other"));
  const auto* refused = w.Last<Failure>(201);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->code, ErrorCode::kNoTree);
  EXPECT_EQ(refused->switch_name, "leaf2");
  EXPECT_THAT(refused->message, HasSubstr("leaf2, which cannot take part: its agent is lost"));

  // It comes back: the same engine keeps its groups, another one has lost them.
  const auto again = w.switches.Register(later, "leaf2", "agent", w.Report(leaf2));
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->contexts_lost);
  const EngineReport reborn = w.Report(leaf2, 2);
  const auto changed = w.switches.Heartbeat(later, "leaf2", &reborn);
  EXPECT_TRUE(changed->contexts_lost);
  w.groups()->OnContextsLost(later, leaf2);
  const auto* lost = w.Last<Failure>(100);
  ASSERT_NE(lost, nullptr);
  EXPECT_EQ(lost->code, ErrorCode::kSwitchLost);
  EXPECT_EQ(lost->switch_name, "leaf2");
}

TEST(SwitchTable, EngineDownLosesContextsOnce) {
  GroupWorldFixture w(testing::Star(2));
  EXPECT_TRUE(w.switches.Heartbeat(w.now, "s1", nullptr)->engine_down);
  EXPECT_FALSE(w.switches.Heartbeat(w.now, "s1", nullptr)->engine_down);
  EXPECT_EQ(w.switches.Unusable(0, Mode::kTranslated), "its engine is down");
  const EngineReport reborn = w.Report(0, 2);
  EXPECT_TRUE(w.switches.Heartbeat(w.now, "s1", &reborn)->set_forwarding);
  EXPECT_EQ(w.switches.Unusable(0, Mode::kTranslated), "it has no forwarding table yet");
  w.switches.OnForwardingSet(0, false);
  EXPECT_TRUE(w.switches.Heartbeat(w.now, "s1", &reborn)->set_forwarding) << "tried again";
  w.switches.OnForwardingSet(0, true);
  EXPECT_EQ(w.switches.Unusable(0, Mode::kTranslated), "");
}

TEST(SwitchTable, LeftoversMakeTheAgentRegisterAgainOnceItsEngineAnswers) {
  GroupWorldFixture w(testing::Star(2));
  w.switches.OnLeftover(0);
  EXPECT_FALSE(w.switches.Heartbeat(w.now, "s1", nullptr)->register_again);
  const EngineReport report = w.Report(0);
  EXPECT_TRUE(w.switches.Heartbeat(w.now, "s1", &report)->register_again);
  w.BringUp(0);
  EXPECT_FALSE(w.switches.Heartbeat(w.now, "s1", &report)->register_again);
}

TEST(SwitchTable, ContradictionsWithTheTopologyAreNamed) {
  GroupWorldFixture w(testing::Star(2));
  EXPECT_EQ(w.switches.Register(w.now, "s9", "a", w.Report(0)).status().code(), StatusCode::kNotFound);
  const auto message = [&w](const EngineReport& report) {
    return std::string(w.switches.Register(w.now, "s1", "a", report).status().message());
  };
  EngineReport report = w.Report(0);
  report.address = Ipv4{0x0a000001};
  EXPECT_EQ(message(report), "engine.address: the engine of s1 says 10.0.0.1, test:5 says 10.10.255.1");
  report = w.Report(0);
  report.mac[5] = 9;
  EXPECT_THAT(message(report), ::testing::StartsWith("engine.mac:"));
  report = w.Report(0);
  report.ports.pop_back();
  EXPECT_EQ(message(report),
            "engine.ports: the engine of s1 has no port swp2, which test:11 links to h1");
}

TEST(GroupLife, PathMtuIsTheLeastOfAllAndMayNotBeExceeded) {
  GroupWorldFixture w(testing::Star(2));
  JoinRequest small = w.Request("h0", 0, 2);
  small.max_path_mtu = 1024;
  w.groups()->OnJoin(w.now, 100, small);
  w.Join(1, 2);
  w.AnswerInstalls();
  EXPECT_EQ(w.installed.back().path_mtu, 1024u);

  GroupSpec spec;
  spec.name = "big";
  spec.world_size = 2;
  spec.path = Path::kNetwork;
  spec.path_mtu = 2048;
  ASSERT_TRUE(w.groups()->Create(spec).ok());
  small.group = "big";
  w.groups()->OnJoin(w.now, 200, small);
  w.groups()->OnJoin(w.now, 201, w.Request("h1", 1, 2, "big"));
  const auto* failure = w.Last<Failure>(201);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->code, ErrorCode::kMtu);
  EXPECT_EQ(failure->message, "path_mtu: 2048 is more than host h0 (rank 0) carries (1024)");

  EngineReport report = w.Report(0);
  report.ports[1].mtu = 1500;
  ASSERT_TRUE(w.switches.Heartbeat(w.now, "s1", &report).ok());
  w.groups()->OnJoin(w.now, 210, w.Request("h0", 0, 2, "big"));
  w.groups()->OnJoin(w.now, 211, w.Request("h1", 1, 2, "big"));
  EXPECT_EQ(w.Last<Failure>(211)->message,
            "path_mtu: 2048 is more than the link at s1:swp2 (MTU 1500) carries (1024)");
  EXPECT_EQ(w.Last<Failure>(211)->switch_name, "s1");
}

TEST(GroupLife, ReservedGroupsComeBack) {
  GroupWorldFixture w(testing::Star(2));
  GroupSpec spec;
  spec.name = "g";
  spec.world_size = 2;
  spec.hosts = {"h0", "h1"};
  spec.message_packets = 4;
  spec.window_messages = 4;
  ASSERT_TRUE(w.groups()->Create(spec).ok());
  EXPECT_EQ(w.groups()->Create(spec).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(w.Phase(), "reserved");
  EXPECT_EQ(Refusal(&w, w.Request("h0", 0, 3)).code, ErrorCode::kSizeMismatch);
  EXPECT_EQ(Refusal(&w, w.Request("h0", 1, 2)).message, "rank 1 of group g is reserved for host h1, not h0");
  for (uint32_t life = 1; life <= 2; ++life) {
    w.JoinAll(2);
    w.AnswerInstalls();
    EXPECT_EQ(w.installed.back().generation, life);
    EXPECT_EQ(w.installed.back().slots, 32u);
    w.groups()->OnLeave(w.now, 100);
    w.groups()->OnLeave(w.now, 101);
    w.AnswerRemovals();
    EXPECT_EQ(w.Phase(), "reserved");
  }
  EXPECT_TRUE(w.groups()->Destroy(w.now, "g", false).ok());
  EXPECT_EQ(w.Phase(), "none");
}

// A host that was found has no other name than its address until its ranks say one.
TEST(GroupLife, AGroupMayBeReservedForAddresses) {
  GroupWorldFixture w(testing::Star(2));
  GroupSpec spec;
  spec.name = "g";
  spec.world_size = 2;
  for (const char* host : {"h0", "h1"}) spec.hosts.push_back(ToString(w.topology.nodes[w.Id(host)].address));
  ASSERT_TRUE(w.groups()->Create(spec).ok());
  EXPECT_EQ(Refusal(&w, w.Request("h0", 1, 2)).message,
            "rank 1 of group g is reserved for host " + spec.hosts[1] + ", not h0");
  w.JoinAll(2);
  w.AnswerInstalls();
  EXPECT_EQ(w.Phase(), "running");
}

// Switches have room for W; ranks begin with what the topology's figures give, or with W if that was wished.
TEST(GroupLife, RanksAreToldWhichWindowToBeginWith) {
  for (const uint32_t wished : {0u, 3u}) {
    GroupWorldFixture w(testing::Star(2));
    GroupSpec spec;
    spec.name = "g";
    spec.world_size = 2;
    spec.message_packets = 8;
    spec.window_messages = wished;
    ASSERT_TRUE(w.groups()->Create(spec).ok());
    w.JoinAll(2);
    w.AnswerInstalls();
    const auto* joined = w.Last<JoinedReply>(100);
    ASSERT_NE(joined, nullptr);
    EXPECT_EQ(w.installed.back().window_messages, joined->window_messages);
    EXPECT_EQ(joined->start_messages == 0, wished != 0);
    EXPECT_LE(joined->start_messages, joined->window_messages);
    EXPECT_EQ(w.groups()->Find("g")->window.start_messages, joined->start_messages);
    if (wished != 0) {
      EXPECT_EQ(joined->window_messages, wished);
    }
  }
}

TEST(GroupLife, TheLastWindowOfEachRankIsKept) {
  GroupWorldFixture w(testing::Star(2));
  w.JoinAll(2);
  w.groups()->OnWindow(100, {.messages = 1, .ns_per_packet = 1, .before_messages = 1});
  w.AnswerInstalls();
  const auto window_of = [&w](uint32_t rank) { return w.groups()->Find("g")->members.at(rank).window; };
  EXPECT_FALSE(window_of(0)) << "the group did not run";
  const uint32_t bound = w.Last<JoinedReply>(100)->window_messages;
  const WindowInUse whole{
      .messages = bound, .ns_per_packet = 300, .before_messages = 1, .before_ns_per_packet = 400};
  w.groups()->OnWindow(101, whole);
  w.groups()->OnWindow(999, whole);  // of nobody
  EXPECT_FALSE(window_of(0));
  ASSERT_TRUE(window_of(1));
  EXPECT_EQ(window_of(1)->messages, bound);
  const std::vector<std::pair<uint32_t, uint32_t>> wrong = {{0, 1}, {bound + 1, 1}, {1, 0}, {1, bound + 1}};
  for (const auto& [messages, before] : wrong)
    w.groups()->OnWindow(101, {.messages = messages, .ns_per_packet = 1, .before_messages = before});
  EXPECT_EQ(window_of(1)->ns_per_packet, 300u) << "the protocol does not allow it such a window";
  w.groups()->OnWindow(101, {.messages = 1, .ns_per_packet = 250, .before_messages = bound});
  EXPECT_EQ(window_of(1)->messages, 1u);
}

// The manager's limit, or the operator's, and never more than a message takes beside its header.
TEST(GroupLife, RanksAreToldHowMuchTheyInline) {
  const auto told = [](uint32_t message_packets, std::optional<uint32_t> asked) {
    GroupWorldFixture w(testing::Star(2));
    GroupSpec spec;
    spec.name = "g";
    spec.world_size = 2;
    spec.path_mtu = 1024;
    spec.message_packets = message_packets;
    spec.inline_bytes = asked;
    EXPECT_TRUE(w.groups()->Create(spec).ok());
    w.JoinAll(2);
    w.AnswerInstalls();
    return w.Last<JoinedReply>(100)->inline_bytes;
  };
  EXPECT_EQ(told(16, {}), 8128u);
  EXPECT_EQ(told(2, {}), 2048u - 64);
  EXPECT_EQ(told(16, 0), 0u);
  EXPECT_EQ(told(16, 10000), 10000u);
}

TEST(GroupLife, DestroyNeedsForceWhileRanksAreIn) {
  GroupWorldFixture w(testing::Star(2));
  EXPECT_EQ(w.groups()->Destroy(w.now, "g", true).code(), StatusCode::kNotFound);
  w.JoinAll(2);
  w.AnswerInstalls();
  const Status refused = w.groups()->Destroy(w.now, "g", false);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("group g is running with 2 ranks; use --force"));
  EXPECT_EQ(w.Phase(), "running");
  ASSERT_TRUE(w.groups()->Destroy(w.now, "g", true).ok());
  EXPECT_EQ(w.Last<Failure>(100)->code, ErrorCode::kAborted);
  EXPECT_EQ(w.Last<Failure>(101)->code, ErrorCode::kAborted);
  for (const SessionId session : {100, 101}) w.groups()->OnSessionClosed(w.now, session);
  w.AnswerRemovals();
  EXPECT_EQ(w.Phase(), "none");
}

}  // namespace
}  // namespace epic::manager
