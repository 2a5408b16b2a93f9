#include "incmanager/rpc/convert_policy.h"

#include <gtest/gtest.h>

#include <limits>

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
  request.set_policy("temporal");
  EXPECT_EQ(FromProto(request).wrong, "policy: 'temporal' is none of shortest, edt and spatial");
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
