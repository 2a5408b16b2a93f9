#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "incmanager/cli/render.h"

namespace epic::manager {
namespace {

TEST(RenderPolicy, SaysHowAGroupWasPlacedAndWhoseItIs) {
  proto::GroupState group;
  EXPECT_EQ(PolicyLines(group), "");
  group.mutable_placement()->set_policy("shortest");
  EXPECT_EQ(PolicyLines(group), "policy      shortest\n");
  proto::GroupPlacement& placement = *group.mutable_placement();
  placement.set_policy("spatial");
  placement.set_prefer("auto");
  placement.set_rate_gbps(2.5);
  placement.set_width_gbps(10);
  placement.set_tenant("red");
  group.set_path_taken(proto::PATH_HOSTS);
  EXPECT_THAT(PolicyLines(group), ::testing::HasSubstr(", 2.5 Gbit/s asked for, none reserved\n"));
  group.set_path_taken(proto::PATH_NETWORK);
  EXPECT_EQ(PolicyLines(group),
            "policy      spatial, prefers auto, 2.5 Gbit/s reserved\n"
            "width       10 Gbit/s of links and memory when it was placed\n"
            "tenant      red\n");
  EXPECT_THAT(RenderGroup(group), ::testing::HasSubstr("\npolicy      spatial"));
}

TEST(RenderPolicy, SaysWhatAGroupHasOfItsBlocks) {
  proto::GroupState group;
  proto::GroupPlacement& placement = *group.mutable_placement();
  placement.set_policy("temporal");
  placement.set_prefer("auto");
  placement.set_duty(0.3);
  placement.set_job("train");
  placement.set_phase("forward");
  EXPECT_EQ(PolicyLines(group), "policy      temporal, prefers auto, duty 0.3, job train, phase forward\n");
  proto::TreeNode& leaf = *group.add_tree();
  leaf.set_switch_name("leaf1");
  leaf.set_block_duty(0.8);
  leaf.mutable_config()->set_block(2);
  leaf.mutable_config()->set_block_bytes(1 << 20);
  EXPECT_THAT(RenderGroup(group), ::testing::HasSubstr("block 2 of 1.0 MiB, duty 0.3 of 0.8, paper"));
  placement.set_grants(0);
  placement.set_busy(0);
  EXPECT_THAT(PolicyLines(group), ::testing::HasSubstr("\nrequests    0 granted, 0 busy\n"));
  placement.set_grants(90);
  placement.set_busy(10);
  EXPECT_THAT(PolicyLines(group),
              ::testing::HasSubstr(
                  "\nrequests    90 granted, 10 busy: 10.0 % of its calls went between the hosts\n"));
}

TEST(RenderPolicy, HasARowForEachTenant) {
  proto::TenantsReply reply;
  EXPECT_EQ(RenderTenants(reply), "no tenants\n");
  proto::TenantState& state = *reply.add_tenants();
  state.mutable_tenant()->set_name("red");
  state.mutable_tenant()->set_limit_bytes(4 << 20);
  state.mutable_tenant()->set_limit_groups(10);
  state.set_groups(1);
  (*state.mutable_bytes())["leaf1"] = 1 << 20;
  reply.add_tenants()->mutable_tenant()->set_name("blue");
  EXPECT_EQ(RenderTenants(reply),
            "tenant  groups   Gbit/s reserved  bytes of a switch  kept for it  has\n"
            "red     1 of 10  0                4.0 MiB            -            leaf1 1.0 MiB\n"
            "blue    0        0                any                -            -\n");
}

TEST(RenderPolicy, AnExplanationHasWidthsAndMemoryWhereTheyAreKnown) {
  proto::ExplainReply reply;
  proto::RootChoice& choice = *reply.add_roots();
  choice.set_root("agg1");
  choice.set_chosen(true);
  choice.set_depth_links(2);
  choice.set_rate_gbps(10);
  choice.set_width_gbps(2.5);
  choice.set_delay_us(40);
  proto::Aggregator& aggregator = *choice.add_switches();
  aggregator.set_switch_name("agg1");
  aggregator.set_children(2);
  aggregator.set_bytes(1 << 20);
  aggregator.set_room_bytes(15 << 20);
  reply.set_path(proto::PATH_NETWORK);
  reply.set_policy("edt");
  reply.set_root("agg1");
  reply.set_switches(1);
  reply.set_mode(proto::MODE_TRANSLATED);
  EXPECT_EQ(RenderExplanation(reply),
            "root  links  Gbit/s  width  delay us  switches (children)  state\n"
            "agg1  2      10      2.5    40        agg1 (2)             chosen\n"
            "memory: agg1 takes 1.0 MiB of 15.0 MiB\n"
            "network: root agg1, 1 switch, mode II (translated), policy edt\n");
  reply.mutable_roots(0)->mutable_switches(0)->set_block(3);
  EXPECT_THAT(RenderExplanation(reply), ::testing::HasSubstr("\nmemory: agg1 shares block 3 of 1.0 MiB\n"));
}

}  // namespace
}  // namespace epic::manager
