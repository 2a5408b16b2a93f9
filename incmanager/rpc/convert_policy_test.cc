#include "incmanager/rpc/convert_policy.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "incmanager/rpc/convert.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

TEST(ConvertPolicy, WhatIsNoneIsNamed) {
  proto::CreateGroupRequest request;
  request.set_policy("spatial");
  request.set_prefer("latency");
  request.set_rate_gbps(2.5);
  request.set_tenant("red");
  const GroupSpec spec = FromProto(request);
  EXPECT_EQ(spec.policy, Policy::kSpatial);
  EXPECT_EQ(spec.prefer, Prefer::kLatency);
  EXPECT_EQ(spec.rate_kbps, 2'500'000U);
  EXPECT_EQ(spec.tenant, "red");
  EXPECT_EQ(spec.wrong, "");
  request.set_policy("luck");
  EXPECT_EQ(FromProto(request).wrong, "policy: 'luck' is none of shortest, edt, spatial and temporal");
  request.set_policy("spatial");
  request.set_prefer("luck");
  EXPECT_EQ(FromProto(request).wrong, "prefer: 'luck' is none of auto, latency and bandwidth");
  request.set_prefer("");
  for (const double rate : {-1.0, 1e7, std::numeric_limits<double>::quiet_NaN()}) {
    request.set_rate_gbps(rate);
    EXPECT_NE(FromProto(request).wrong.find("is not between 0 and 1000000"), std::string::npos) << rate;
  }
  EXPECT_FALSE(PolicyFromProto({}).ok());
}

TEST(ConvertPolicy, ADutyIsMoreThanNothingAndNotMoreThanAll) {
  proto::CreateGroupRequest request;
  request.set_policy("temporal");
  EXPECT_EQ(FromProto(request).duty, 0U);
  request.set_duty(0.3);
  request.set_job("train");
  request.set_phase("forward");
  const GroupSpec spec = FromProto(request);
  EXPECT_EQ(spec.policy, Policy::kTemporal);
  EXPECT_EQ(spec.duty, 300'000U);
  EXPECT_EQ(spec.job, "train");
  EXPECT_EQ(spec.phase, "forward");
  EXPECT_EQ(spec.wrong, "");
  request.set_duty(1e-9);
  EXPECT_EQ(FromProto(request).duty, 1U);
  request.set_duty(1);
  EXPECT_EQ(FromProto(request).duty, kWholeTime);
  for (const double duty : {0.0, -0.1, 1.000001, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    request.set_duty(duty);
    EXPECT_NE(FromProto(request).wrong.find("duty: "), std::string::npos) << duty;
  }
  request.set_duty(2);
  EXPECT_EQ(FromProto(request).wrong, "duty: 2 is not more than 0 and at most 1");
}

TEST(ConvertPolicy, AGroupHasItsBlocksAndWhatBecameOfItsRequests) {
  const Topology topology = testing::Tree32().Build();
  Group group;
  group.spec.policy = Policy::kTemporal;
  group.spec.duty = 300'000;
  group.spec.job = "train";
  group.spec.phase = "forward";
  ContextPlan& context = group.plan.contexts.emplace_back();
  context.node = *topology.FindNode("leaf1");
  context.block = 2;
  context.block_bytes = 640;
  Load load;
  for (const uint32_t duty : {300'000u, 500'000u})
    load.Apply({.switches = {{context.node, 640, 2, 7}}, .share = {.duty = duty}});
  proto::GroupState state = ToProto(topology, group);
  AddBlocks(load, group, &state);
  EXPECT_EQ(state.placement().duty(), 0.3);
  EXPECT_EQ(state.placement().job(), "train");
  EXPECT_EQ(state.placement().phase(), "forward");
  EXPECT_EQ(state.placement().prefer(), "auto");
  EXPECT_EQ(state.tree(0).config().block(), 2U);
  EXPECT_EQ(state.tree(0).config().block_bytes(), 640U);
  EXPECT_EQ(state.tree(0).block_duty(), 0.8);

  proto::DumpReply tables;
  for (const uint64_t id : {7u, 8u}) {
    proto::GroupDump& dump = *tables.add_groups();
    dump.mutable_config()->set_group_id(id);
    dump.mutable_config()->set_block(id == 7 ? 2 : 0);
    for (const auto& [name, value] : {std::pair{"grants", 90}, std::pair{"busy", 10}}) {
      proto::Counter& counter = *dump.add_counters();
      counter.set_name(name);
      counter.set_value(static_cast<uint64_t>(value));
    }
  }
  AddRequests(tables, 8, state.mutable_placement());
  AddRequests(tables, 9, state.mutable_placement());
  EXPECT_FALSE(state.placement().has_grants()) << "it has no block, or is not there";
  AddRequests(tables, 7, state.mutable_placement());
  EXPECT_EQ(state.placement().grants(), 90U);
  EXPECT_EQ(state.placement().busy(), 10U);
  group.spec.policy = Policy::kSpatial;
  EXPECT_EQ(ToProto(topology, group).placement().duty(), 0);
}

TEST(ConvertPolicy, TenantsAndWhatTheyHave) {
  proto::Tenant in;
  in.set_name("red");
  EXPECT_FALSE(FromProto(in)->limit_bytes);
  EXPECT_FALSE(FromProto(in)->limit_groups);
  in.set_limit_groups(0);
  in.set_limit_gbps(1.5);
  in.set_guarantee_bytes(4096);
  const Tenant tenant = *FromProto(in);
  EXPECT_EQ(tenant.limit_groups, 0U);
  EXPECT_EQ(tenant.limit_kbps, 1'500'000U);
  EXPECT_EQ(tenant.guaranteed_bytes, 4096U);
  in.set_guarantee_bytes(UINT64_MAX);
  EXPECT_EQ(FromProto(in).status().code(), StatusCode::kInvalidArgument);
  in.set_guarantee_bytes(0);
  in.set_limit_gbps(-1);
  EXPECT_EQ(FromProto(in).status().code(), StatusCode::kInvalidArgument);

  const Topology topology = testing::Tree32().Build();
  Tenants tenants;
  Load load;
  ASSERT_TRUE(tenants.Set(tenant, {}, load).ok());
  load.Apply(
      {.links = {}, .switches = {{1, 640}}, .reserved_kbps = 500'000, .exclusive = false, .tenant = "red"});
  const proto::TenantsReply reply = ToProto(topology, tenants, load);
  ASSERT_EQ(reply.tenants_size(), 1);
  EXPECT_EQ(reply.tenants(0).groups(), 1U);
  EXPECT_EQ(reply.tenants(0).reserved_gbps(), 0.5);
  EXPECT_EQ(reply.tenants(0).bytes().at("leaf1"), 640U);
  EXPECT_EQ(reply.tenants(0).tenant().limit_gbps(), 1.5);
  EXPECT_FALSE(reply.tenants(0).tenant().has_limit_bytes());
}

}  // namespace
}  // namespace epic::manager
