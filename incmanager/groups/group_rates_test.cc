// The rates of a tree's edges, for people.
#include <gtest/gtest.h>

#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;

// An edge is as fast as the slowest link that its packets cross, also by a switch that is left out.
TEST(GroupRates, AreThoseOfTheSlowestLinkOfEachEdge) {
  testing::TopologyBuilder builder;
  builder.Switch("root").Switch("leaf1").Switch("leaf2");
  for (const char* host : {"h0", "h1", "h2"}) builder.Host(host);
  builder.Link("root", "leaf1", ", rate_gbps: 2.5").Link("root", "leaf2", ", rate_gbps: 40");
  builder.Link("leaf1", "h0").Link("leaf2", "h1", ", rate_gbps: 25").Link("leaf2", "h2");
  GroupWorldFixture w(builder);
  w.JoinAll(3);
  w.AnswerInstalls();
  ASSERT_EQ(w.installed.size(), 2U);
  const ContextPlan& root = w.installed[0];
  const ContextPlan& leaf2 = w.installed[1];
  ASSERT_EQ(root.children.size(), 2U);
  EXPECT_EQ(root.children[0].rate_gbps, 2.5) << "to h0 over leaf1";
  EXPECT_EQ(root.children[1].rate_gbps, 40) << "to leaf2";
  EXPECT_EQ(leaf2.children[0].rate_gbps, 25);
  EXPECT_EQ(leaf2.children[1].rate_gbps, 10);
}

}  // namespace
}  // namespace epic::manager
