// Groups whose payloads lie in a switch's pool, and their fallback servers (docs/PROTOCOL-CONTROL.md, 7.5).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"
#include "protocol/context_memory.h"
#include "protocol/fallback.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;
using ::testing::HasSubstr;

class GroupPoolTest : public ::testing::Test {
 protected:
  // Two ranks on h0 and h1 of a star; h3 lends.
  GroupPoolTest() { Lend("h3", 64 << 20); }

  void Lend(const std::string& host, uint64_t bytes) {
    w.lending.hosts.push_back({.host = w.Id(host), .all_bytes = bytes});
  }
  static GroupSpec Pooled(Path path = Path::kAuto, uint32_t size = 2) {
    GroupSpec spec;
    spec.name = "g";
    spec.world_size = size;
    spec.mode = Mode::kPooled;
    spec.path = path;
    return spec;
  }
  void Begin(const GroupSpec& spec = Pooled()) {
    ASSERT_TRUE(w.groups()->Create(spec).ok());
    w.JoinAll(spec.world_size);
  }
  void Run() {
    Begin();
    w.AnswerServers();
    w.AnswerInstalls();
    ASSERT_EQ(w.Phase(), "running");
  }
  Failure Failed() const {
    const auto* failure = w.Last<Failure>(100);
    return failure == nullptr ? Failure{} : *failure;
  }
  Group Now() const { return *w.groups()->Find("g"); }
  // The switch says that its ports from this one on have an MTU of 1,500.
  static void Narrow(GroupWorldFixture* world, const std::string& name, size_t from) {
    EngineReport report = world->Report(world->Id(name));
    for (size_t port = from; port < report.ports.size(); ++port) report.ports[port].mtu = 1500;
    ASSERT_TRUE(world->switches.Heartbeat(world->now, name, &report).ok());
  }

  GroupWorldFixture w{testing::Star(4)};
};

TEST_F(GroupPoolTest, TheServerIsMadeThenTheSwitchInstalledThenRanksAreTold) {
  Begin();
  EXPECT_TRUE(w.world.installs.empty());
  ASSERT_EQ(w.world.servers.size(), 1u);
  const auto [host, request] = w.world.servers[0];
  EXPECT_EQ(host, w.Id("h3"));
  const Group group = Now();
  const ContextPlan& planned = group.plan.contexts.at(0);
  EXPECT_EQ(request.group_id, group.id);
  EXPECT_EQ(request.name, "g");
  EXPECT_EQ(request.world_size, 2u);
  EXPECT_EQ(request.path_mtu, 4096u);
  EXPECT_EQ(request.slots, planned.slots);
  EXPECT_EQ(request.accumulator_mtus, 2u);
  EXPECT_EQ(request.bytes, LentBytes(4096, 2, planned.slots));
  EXPECT_EQ(request.switch_ip, w.topology.nodes[w.Id("s1")].address);
  EXPECT_EQ(request.switch_qpn, planned.server->local_qpn);
  EXPECT_EQ(request.server_psn, planned.server->in_psn);
  EXPECT_EQ(request.switch_psn, planned.server->out_psn);

  w.AnswerServers();
  ASSERT_EQ(w.world.installs.size(), 1u);
  const ContextPlan& context = w.world.installs[0].second;
  EXPECT_EQ(context.mode, Mode::kPooled);
  ASSERT_TRUE(context.server.has_value());
  EXPECT_EQ(context.server->remote_ip, w.topology.nodes[w.Id("h3")].address);
  EXPECT_EQ(context.server->remote_qpn, 0x777u);
  EXPECT_EQ(context.server->port, "swp4");
  EXPECT_EQ(context.server->local_qpn % 256, context.children[0].local_qpn % 256) << "of one core";
  EXPECT_FALSE(context.server->is_host);
  EXPECT_EQ(context.children.size(), 2u);
  EXPECT_EQ(w.Last<JoinedReply>(100), nullptr);
  w.AnswerInstalls();
  ASSERT_NE(w.Last<JoinedReply>(101), nullptr);
  EXPECT_EQ(w.Last<JoinedReply>(101)->mode, Mode::kPooled);
}

TEST_F(GroupPoolTest, TheMemoryIsGivenBackWhenTheSwitchHasRemovedTheContext) {
  Run();
  EXPECT_TRUE(w.groups()->MeansServer(w.Id("h3"), Now().id, Now().generation));
  w.groups()->OnLeave(w.now, 100);
  w.groups()->OnLeave(w.now, 101);
  EXPECT_TRUE(w.world.removed_servers.empty()) << "the switch may still send";
  w.AnswerRemovals();
  ASSERT_EQ(w.world.removed_servers.size(), 1u);
  EXPECT_EQ(w.world.removed_servers[0].first, w.Id("h3"));
}

TEST_F(GroupPoolTest, WithoutAHostThatLendsItGoesByTheHostsOrIsRefused) {
  w.lending.hosts.clear();
  const std::string why = "no host lends memory to mode pooled (inchost --fallback)";
  Begin();
  EXPECT_EQ(Now().path_taken, Path::kHosts);
  EXPECT_EQ(Now().path_reason, why);
  GroupWorldFixture other(testing::Star(4));
  ASSERT_TRUE(other.groups()->Create(Pooled(Path::kNetwork)).ok());
  other.JoinAll(2);
  ASSERT_NE(other.Last<Failure>(100), nullptr);
  EXPECT_EQ(other.Last<Failure>(100)->code, ErrorCode::kNoResource);
  EXPECT_EQ(other.Last<Failure>(100)->message, why);
}

TEST_F(GroupPoolTest, AHostThatLendsByAPortThatIsDownIsNamed) {
  w.lending.hosts[0].port_is_up = false;
  Begin(Pooled(Path::kNetwork));
  EXPECT_EQ(Failed().code, ErrorCode::kNoResource);
  EXPECT_THAT(Failed().message, HasSubstr("no host that lends memory to mode pooled reaches s1"));
  EXPECT_THAT(Failed().message, HasSubstr("h3, whose port is down"));
}

TEST_F(GroupPoolTest, AHostWithTooLittleLeftIsNamedWithBytesNeededAndLeft) {
  w.lending.hosts[0].all_bytes = 100'000;
  Begin(Pooled(Path::kNetwork));
  EXPECT_EQ(Failed().code, ErrorCode::kNoResource);
  EXPECT_THAT(Failed().message, HasSubstr("h3 has most left: "));
  EXPECT_THAT(Failed().message, HasSubstr("bytes needed, 100000 of 100000 left (inchost --fallback)"));
}

// What groups have is not free for others, though no host has said so yet.
TEST_F(GroupPoolTest, TheHostWithMostLeftIsTakenAndOneOfTheGroupsOwnOnlyIfThereIsNoOther) {
  Lend("h0", 640 << 20);
  Lend("h2", 64 << 20);
  const auto server_of = [this](const std::string& name) {
    GroupSpec spec = Pooled();
    spec.name = name;
    EXPECT_TRUE(w.groups()->Create(spec).ok());
    for (uint32_t rank : {0u, 1u})
      w.groups()->OnJoin(w.now, w.now + rank, w.Request("h" + std::to_string(rank), rank, 2, name));
    w.now += kSecond;
    return w.topology.nodes[w.world.servers.back().first].name;
  };
  EXPECT_EQ(server_of("a"), "h2");
  EXPECT_EQ(server_of("b"), "h3");
  w.lending.hosts.resize(2);
  w.lending.hosts[0].all_bytes = 0;
  EXPECT_EQ(server_of("c"), "h0");
  EXPECT_TRUE(w.groups()->Find("c")->server->of_a_rank);
}

TEST_F(GroupPoolTest, ARefusalOfTheHostIsThatOfTheNetworksPath) {
  Begin();
  const auto [host, request] = w.world.servers[0];
  const Failure refused{ErrorCode::kNoResource, "h3 says no", -1, ""};
  w.groups()->OnServerMade(w.now, host, request.group_id, request.generation, {.refused = refused});
  EXPECT_EQ(Now().path_taken, Path::kHosts);
  EXPECT_EQ(Now().path_reason, "h3 says no");
  w.AnswerRemovals();
  EXPECT_EQ(w.world.removed_servers.size(), 1u);
}

TEST_F(GroupPoolTest, AHostThatDoesNotAnswerIsGivenUpAndItsLateAnswerUndone) {
  Begin(Pooled(Path::kNetwork));
  const auto [host, request] = w.world.servers[0];
  w.now += GroupLife::kServerMadeWithin - 1;
  w.groups()->Tick(w.now);
  EXPECT_EQ(w.Phase(), "installing");
  w.now += 1;
  w.groups()->Tick(w.now);
  EXPECT_EQ(Failed().code, ErrorCode::kFallbackLost);
  EXPECT_THAT(Failed().message, HasSubstr("h3"));
  w.AnswerRemovals();
  w.world.removed_servers.clear();
  w.groups()->OnServerMade(w.now, host, request.group_id, request.generation,
                           {.refused = {}, .ip = w.topology.nodes[host].address, .qpn = 1});
  EXPECT_EQ(w.world.removed_servers.size(), 1u);
}

TEST_F(GroupPoolTest, TimeInWhichTheManagerStoodStillIsNotTheHosts) {
  Begin(Pooled(Path::kNetwork));
  w.now += 3 * GroupLife::kServerMadeWithin;
  w.groups()->OnStoodStill(3 * GroupLife::kServerMadeWithin);
  w.groups()->Tick(w.now);
  EXPECT_EQ(w.Phase(), "installing");
  w.now += GroupLife::kServerMadeWithin;
  w.groups()->Tick(w.now);
  EXPECT_EQ(Failed().code, ErrorCode::kFallbackLost);
}

TEST_F(GroupPoolTest, ALostServerEndsItsGroupWithTheHostsName) {
  Run();
  const Group group = Now();
  w.groups()->OnServerEnded(w.now, w.Id("h2"), group.id, group.generation, "not its");
  EXPECT_EQ(w.Phase(), "running");
  w.groups()->OnServerEnded(w.now, w.Id("h3"), group.id, group.generation, "length");
  for (const SessionId session : {100, 101}) {
    ASSERT_NE(w.Last<Failure>(session), nullptr);
    EXPECT_EQ(w.Last<Failure>(session)->code, ErrorCode::kFallbackLost);
    EXPECT_THAT(w.Last<Failure>(session)->message, HasSubstr("h3"));
    EXPECT_THAT(w.Last<Failure>(session)->message, HasSubstr("length"));
  }
}

TEST_F(GroupPoolTest, TheServersLinkIsNoLinkOfTheTree) {
  Run();
  const NodeId h3 = w.Id("h3");
  w.groups()->OnLinkDown(w.now, w.topology.AttachedEnd(h3), [](Nanos) { return true; });
  EXPECT_EQ(Failed().code, ErrorCode::kFallbackLost);
  EXPECT_THAT(Failed().message, HasSubstr("h3, the group's fallback server, is lost: the link between"));
}

TEST_F(GroupPoolTest, ALegThatTheSwitchSaysHasEndedEndsTheGroup) {
  for (const LegEnd end : {LegEnd::kRefused, LegEnd::kMessage, LegEnd::kOther}) {
    GroupWorldFixture own(testing::Star(4));
    own.lending.hosts = {{.host = own.Id("h3"), .all_bytes = 64 << 20}};
    ASSERT_TRUE(own.groups()->Create(Pooled()).ok());
    own.JoinAll(2);
    own.AnswerServers();
    own.AnswerInstalls();
    const Group group = *own.groups()->Find("g");
    ContextReports contexts;
    contexts[group.id] = {.generation = group.generation};
    own.now += kSecond;
    own.groups()->OnContexts(own.now, own.Id("s1"), contexts, own.now, "");
    EXPECT_EQ(own.Phase(), "running");
    contexts[group.id].leg_end = end;
    contexts[group.id].leg_message = "server: the leg has ended: length";
    own.groups()->OnContexts(own.now, own.Id("s1"), contexts, own.now, "");
    ASSERT_NE(own.Last<Failure>(100), nullptr);
    const Failure& failure = *own.Last<Failure>(100);
    EXPECT_EQ(failure.code, end == LegEnd::kMessage ? ErrorCode::kTransport : ErrorCode::kFallbackLost);
    EXPECT_THAT(failure.message, HasSubstr("server: the leg has ended: length"));
    EXPECT_THAT(failure.message, HasSubstr("h3"));
  }
}

TEST_F(GroupPoolTest, ASwitchWithoutAPoolIsNamed) {
  EngineReport report = w.Report(w.Id("s1"));
  report.pool_buffer_bytes = 0;
  ASSERT_TRUE(w.switches.Heartbeat(w.now, "s1", &report).ok());
  Begin(Pooled(Path::kNetwork));
  EXPECT_EQ(Failed().code, ErrorCode::kNoTree);
  EXPECT_EQ(Failed().message, "s1 has no pool (incengine --pool)");
}

TEST_F(GroupPoolTest, ASwitchThatKnowsNoPrioritiesKeepsNoLimitOfThem) {
  EngineReport report = w.Report(w.Id("s1"));
  report.abilities.priorities = false;
  ASSERT_TRUE(w.switches.Heartbeat(w.now, "s1", &report).ok());
  GroupSpec spec = Pooled(Path::kNetwork);
  spec.priority_limit = PriorityOf(0.5);
  Begin(spec);
  EXPECT_EQ(Failed().code, ErrorCode::kNoTree);
  EXPECT_THAT(Failed().message, HasSubstr("knows no priorities, and would not keep their limit"));
}

// A buffer has 8,192 bytes: of FP32 and of packets of 4,096 bytes two, of blocks four.
TEST_F(GroupPoolTest, PacketsAreAsLongAsSumsFitIntoThePoolsBuffers) {
  GroupSpec spec = Pooled(Path::kNetwork);
  spec.int8 = true;
  Begin(spec);
  EXPECT_EQ(Now().path_mtu, 2048u);
  spec.name = "other";
  spec.path_mtu = 4096;
  ASSERT_TRUE(w.groups()->Create(spec).ok());
  for (uint32_t rank : {0u, 1u})
    w.groups()->OnJoin(w.now, 200 + rank, w.Request("h" + std::to_string(rank), rank, 2, "other"));
  EXPECT_EQ(w.Last<Failure>(200)->code, ErrorCode::kMtu);
  EXPECT_THAT(w.Last<Failure>(200)->message, HasSubstr("the pool of s1, with buffers of 8192 bytes"));
}

TEST_F(GroupPoolTest, WhatNoSuchGroupHasIsNamed) {
  const auto refused = [this](const auto& change) {
    GroupSpec spec = Pooled();
    change(&spec);
    const Status status = w.groups()->Create(spec);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(refused([](GroupSpec* spec) { spec->reproducible = true; }),
            "reproducible: in mode V sums are built in the order of arrival");
  EXPECT_EQ(refused([](GroupSpec* spec) {
              spec->mode = Mode::kAugmented;
              spec->priority_limit = 1;
            }),
            "priority_limit: in mode III calls have no priorities");
  EXPECT_EQ(refused([](GroupSpec* spec) { spec->switch_modes["s1"] = Mode::kPooled; }),
            "switch_modes: one switch sums for a group in mode V");
  for (const Policy policy : {Policy::kEdt, Policy::kSpatial, Policy::kTemporal}) {
    EXPECT_EQ(refused([policy](GroupSpec* spec) { spec->policy = policy; }),
              std::string("policy: ") + Name(policy) + " places no group in mode V, only shortest does");
  }
  // The default is for others.
  w.groups()->SetDefaultPolicy(Policy::kSpatial);
  Run();
}

TEST_F(GroupPoolTest, ExplainSaysWhichHostWouldLendHowMuch) {
  GroupSpec spec = Pooled();
  spec.hosts = {"h0", "h1"};
  const Placement placement = *w.groups()->Explain(spec);
  EXPECT_EQ(placement.path, Path::kNetwork);
  EXPECT_EQ(placement.mode, Mode::kPooled);
  EXPECT_EQ(placement.server, w.Id("h3"));
  EXPECT_GT(placement.server_bytes, 1u << 20);
  w.lending.hosts.clear();
  EXPECT_EQ(w.groups()->Explain(spec)->path_reason,
            "no host lends memory to mode pooled (inchost --fallback)");
}

// Else what does not pass is dropped and repeated for ever.
TEST_F(GroupPoolTest, LinksOfSwitchesThatOnlyForwardLimitThePayload) {
  GroupWorldFixture tree(testing::Tree32());
  tree.lending.hosts = {{.host = tree.Id("h3"), .all_bytes = 64 << 20}};
  Narrow(&tree, "leaf1", 0);
  ASSERT_TRUE(tree.groups()->Create(Pooled(Path::kAuto, 4)).ok());
  tree.JoinAll(4);  // on both leaves: the root sums
  ASSERT_EQ(tree.world.servers.size(), 1u);
  EXPECT_EQ(tree.world.servers[0].second.path_mtu, 1024u);
}

TEST_F(GroupPoolTest, AHostBehindALinkThatDoesNotCarryThePacketsIsPassedOver) {
  Narrow(&w, "s1", 3);  // towards h3
  Lend("h2", 32 << 20);
  Begin(Pooled(Path::kNetwork));
  ASSERT_EQ(w.world.servers.size(), 1u);
  EXPECT_EQ(w.world.servers[0].first, w.Id("h2"));
}

TEST_F(GroupPoolTest, WithNoOtherHostItIsNamedWithItsLink) {
  Narrow(&w, "s1", 3);
  Begin(Pooled(Path::kNetwork));
  EXPECT_TRUE(w.world.servers.empty());
  EXPECT_EQ(Failed().code, ErrorCode::kNoResource);
  EXPECT_THAT(Failed().message,
              HasSubstr("with packets of 4096 bytes: h3, for which s1:swp4 has an MTU of 1500"));
}

// At most 12 KiB of a group's own, with the default window and the longest packets.
TEST_F(GroupPoolTest, AGroupTakesLittleOfTheSwitchsOwnMemory) {
  Run();
  const ContextPlan& context = w.installed.at(0);
  EXPECT_LE(MemoryOf({.mode = Mode::kPooled, .path_mtu = context.path_mtu, .slots = context.slots}).bytes(),
            12u << 10);
}

}  // namespace
}  // namespace epic::manager
