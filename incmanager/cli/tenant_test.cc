#include "incmanager/cli/tenant.h"

#include <gtest/gtest.h>

#include <limits>

namespace epic::manager {
namespace {

proto::TenantsReply RedAndBlue() {
  proto::TenantsReply all;
  proto::Tenant& red = *all.add_tenants()->mutable_tenant();
  red.set_name("red");
  red.set_limit_bytes(4 << 20);
  red.set_limit_groups(10);
  red.set_limit_gbps(2.5);
  red.set_guarantee_bytes(1 << 20);
  all.add_tenants()->mutable_tenant()->set_name("blue");
  return all;
}

TEST(TenantTest, WhatIsNotNamedStays) {
  const proto::Tenant red = TenantWith(RedAndBlue(), {.name = "red", .limit_groups = 12});
  EXPECT_EQ(red.limit_groups(), 12u);
  EXPECT_EQ(red.limit_bytes(), 4u << 20);
  EXPECT_EQ(red.limit_gbps(), 2.5);
  EXPECT_EQ(red.guarantee_bytes(), 1u << 20);
  const proto::Tenant blue = TenantWith(RedAndBlue(), {.name = "blue", .guarantee_bytes = 7});
  EXPECT_FALSE(blue.has_limit_groups() || blue.has_limit_bytes() || blue.has_limit_gbps());
  EXPECT_EQ(blue.guarantee_bytes(), 7u);
}

TEST(TenantTest, EachLimitCanBeTakenAway) {
  const proto::Tenant bytes = TenantWith(RedAndBlue(), {.name = "red", .limit_bytes = kNoLimit});
  EXPECT_FALSE(bytes.has_limit_bytes());
  EXPECT_TRUE(bytes.has_limit_groups() && bytes.has_limit_gbps());
  const proto::Tenant rest = TenantWith(RedAndBlue(), {.name = "red",
                                                       .limit_groups = kNoLimit,
                                                       .limit_gbps = std::numeric_limits<double>::infinity(),
                                                       .guarantee_bytes = 0});
  EXPECT_TRUE(rest.has_limit_bytes());
  EXPECT_FALSE(rest.has_limit_groups() || rest.has_limit_gbps());
  EXPECT_EQ(rest.guarantee_bytes(), 0u);
}

// A limit of 0 is one: nothing is allowed.
TEST(TenantTest, ANewOneHasWhatIsNamedAndNoOtherLimit) {
  const proto::Tenant green = TenantWith(RedAndBlue(), {.name = "green", .limit_groups = 0});
  EXPECT_EQ(green.name(), "green");
  EXPECT_TRUE(green.has_limit_groups());
  EXPECT_FALSE(green.has_limit_bytes() || green.has_limit_gbps());
}

}  // namespace
}  // namespace epic::manager
