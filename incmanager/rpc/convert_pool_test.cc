// What is said and kept of groups whose payloads lie in a pool, and what people are shown of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "incmanager/cli/render.h"
#include "incmanager/groups/group_life_testing.h"
#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/stored.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;

// A group that runs with a server on h3.
Group Running(testing::GroupWorldFixture* w) {
  w->lending.hosts = {{.host = w->Id("h3"), .all_bytes = 64 << 20}};
  GroupSpec spec;
  spec.name = "g";
  spec.world_size = 2;
  spec.mode = Mode::kPooled;
  spec.priority_limit = 3 << 15;
  EXPECT_TRUE(w->groups()->Create(spec).ok());
  w->JoinAll(2);
  w->AnswerServers();
  w->AnswerInstalls();
  EXPECT_EQ(w->Phase(), "running");
  return *w->groups()->Find("g");
}

TEST(ConvertPool, TheSwitchIsToldTheLeg) {
  testing::GroupWorldFixture w(testing::Star(4));
  const Group group = Running(&w);
  const proto::GroupConfig config = ToProto(group.plan.contexts.at(0));
  EXPECT_EQ(config.mode(), proto::MODE_POOLED);
  EXPECT_EQ(config.server().remote_qpn(), 0x777u);
  EXPECT_EQ(config.server().remote_ip(), Raw(w.topology.nodes[w.Id("h3")].address));
  EXPECT_EQ(config.server().port(), "swp4");
  EXPECT_FALSE(config.server().is_host());
  EXPECT_EQ(config.priority_limit(), 3u << 15);
  EXPECT_FALSE(ToProto(ContextPlan{}).has_server());
}

TEST(ConvertPool, TheLimitOfPrioritiesIsANumber) {
  proto::CreateGroupRequest request;
  EXPECT_EQ(FromProto(request).priority_limit, 0u) << "none";
  request.set_priority_limit(1.5);
  EXPECT_EQ(FromProto(request).priority_limit, 3u << 15);
  EXPECT_EQ(FromProto(request).wrong, "");
  request.set_priority_limit(0);
  EXPECT_EQ(FromProto(request).priority_limit, kLeastPriority);
  request.set_priority_limit(1e9);
  EXPECT_EQ(FromProto(request).priority_limit, kMostPriority);
  for (const double wrong : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    request.set_priority_limit(wrong);
    EXPECT_THAT(FromProto(request).wrong, HasSubstr("is not a number from 0 on"));
  }
}

// The next manager has it again, with what its host lends.
TEST(ConvertPool, ARunningGroupIsKeptWithItsServer) {
  testing::GroupWorldFixture w(testing::Star(4));
  const Group group = Running(&w);
  const proto::StoredGroup stored = ToStored(w.topology, group);
  EXPECT_EQ(stored.server().host(), "h3");
  const auto again = FromStored(w.topology, stored);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(ToStored(w.topology, *again).SerializeAsString(), stored.SerializeAsString());
  ASSERT_TRUE(again->server.has_value());
  EXPECT_EQ(again->server->bytes, group.server->bytes);
  EXPECT_TRUE(again->server->made);
  EXPECT_FALSE(again->server->footprint.links.empty());

  proto::StoredGroup broken = stored;
  broken.clear_server();
  EXPECT_THAT(std::string(FromStored(w.topology, broken).status().message()),
              HasSubstr("its fallback server and its context contradict each other"));

  // Its memory is taken, and its QPNs.
  testing::GroupWorldFixture next(testing::Star(4));
  next.lending.hosts = {{.host = next.Id("h3"), .all_bytes = group.server->bytes}};
  Group of_former = *again;
  of_former.id = 7;  // lower than this manager's own
  next.groups()->ResumeGroup(next.now, of_former);
  EXPECT_TRUE(next.groups()->MeansServer(next.Id("h3"), 7, group.generation));
  GroupSpec other = group.spec;
  other.hosts = {"h0", "h1"};
  EXPECT_THAT(next.groups()->Explain(other)->path_reason, HasSubstr("h3 has 0.0 of"));
}

TEST(ConvertPool, WhatASwitchSaysOfItsPoolAndOfLegs) {
  proto::EngineInfo info;
  info.mutable_capability()->set_arena_bytes(100);
  EXPECT_EQ(FromProto(info).arena_bytes, 100u);
  EXPECT_EQ(FromProto(info).pool_buffer_bytes, 0u);
  info.mutable_capability()->mutable_pool()->set_bytes(30);
  info.mutable_capability()->mutable_pool()->set_buffer_bytes(10);
  EXPECT_EQ(FromProto(info).arena_bytes, 70u) << "what groups may have of their own";
  EXPECT_EQ(FromProto(info).pool_buffer_bytes, 10u);
  info.mutable_capability()->mutable_pool()->set_bytes(UINT64_MAX);
  EXPECT_EQ(FromProto(info).arena_bytes, 0u);

  for (const auto& [why, end] : {std::pair{proto::LEG_END_MESSAGE, LegEnd::kMessage},
                                 {proto::LEG_END_REFUSED, LegEnd::kRefused},
                                 {proto::LEG_END_OVERRUN, LegEnd::kOverrun},
                                 {proto::LEG_END_UNSPECIFIED, LegEnd::kOther},
                                 {static_cast<proto::LegEnd>(99), LegEnd::kOther}}) {
    proto::EngineInfo told;
    proto::ContextInfo& context = *told.add_contexts();
    context.set_group_id(7);
    EXPECT_EQ(ContextsOf(told).at(7).leg_end, LegEnd::kNone);
    context.mutable_leg()->set_why(why);
    context.mutable_leg()->set_message("length");
    EXPECT_EQ(ContextsOf(told).at(7).leg_end, end);
    EXPECT_EQ(ContextsOf(told).at(7).leg_message, "length");
  }
}

TEST(ConvertPool, PeopleAreShownTheServerAndWhatTheGroupHasHadOfThePool) {
  testing::GroupWorldFixture w(testing::Star(4));
  proto::GroupState state = ToProto(w.topology, Running(&w));
  EXPECT_EQ(state.server().host(), "h3");
  proto::DumpReply dump;
  proto::GroupDump& group = *dump.add_groups();
  group.mutable_config()->set_group_id(state.group_id());
  group.mutable_server();
  proto::Counter& counter = *group.add_counters();
  counter.set_name("splits");
  counter.set_value(12);
  AddTrouble(dump, state.group_id(), state.mutable_tree(0));
  const std::string lines = PoolLines(state);
  EXPECT_THAT(lines, HasSubstr("server      h3, which lends "));
  EXPECT_THAT(lines, HasSubstr("pool        claims 0, evictions 0, downgrades 0, passes 0, "
                               "splits 12, server_bytes_sent 0, server_bytes_back 0\n"));
  EXPECT_THAT(RenderGroup(state), HasSubstr(lines));
  state.mutable_server()->set_of_a_rank(true);
  EXPECT_THAT(PoolLines(state), HasSubstr(", though ranks are on it: no other host lends enough\n"));
  EXPECT_EQ(PoolLines({}), "");
}

TEST(ConvertPool, PeopleAreShownASwitchsPool) {
  proto::DumpReply dump;
  EXPECT_EQ(PoolLine(dump.info()), "");
  proto::Pool& pool = *dump.mutable_info()->mutable_capability()->mutable_pool();
  pool.set_bytes(4 << 20);
  pool.set_buffer_bytes(8192);
  pool.set_buffers(512);
  pool.set_spare_buffers(500);
  pool.set_places(482);
  pool.set_places_in_use(3);
  pool.set_addressing("any");
  pool.set_policy("priority");
  EXPECT_EQ(PoolLine(dump.info()),
            "pool: 4.0 MiB in buffers of 8.0 KiB: 3 of 482 places in use, 500 of 512 buffers spare; "
            "addressing any, "
            "policy priority\n");
  pool.set_age_ns(5'000'000);
  EXPECT_THAT(RenderTables(dump), HasSubstr("policy priority, age 5 ms\n"));
}

TEST(ConvertPool, AnExplanationNamesTheHostThatWouldLend) {
  testing::GroupWorldFixture w(testing::Star(4));
  w.lending.hosts = {{.host = w.Id("h3"), .all_bytes = 64 << 20}};
  GroupSpec spec;
  spec.name = "g";
  spec.hosts = {"h0", "h1"};
  spec.mode = Mode::kPooled;
  const proto::ExplainReply reply = ToProto(w.topology, *w.groups()->Explain(spec));
  EXPECT_EQ(reply.server().host(), "h3");
  EXPECT_THAT(RenderExplanation(reply), HasSubstr("\nfallback server: h3, which lends "));
  EXPECT_EQ(ServerOutcome({}), "");
}

}  // namespace
}  // namespace epic::manager
