// Groups under policies edt and spatial, and of tenants (docs/DEPLOY.md, "Policies", "Tenants").
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;

constexpr uint64_t kMebibyte = 1 << 20;
// What a group of mode II takes of each switch here: 128 slots of 24 bytes and two MTUs.
constexpr uint64_t kTakenByEach = 128 * (24 + 2 * 4096);

void HaveArenas(GroupWorldFixture* w, uint64_t bytes) {
  for (const NodeId node : w->topology.switches) {
    EngineReport report = w->Report(node);
    report.arena_bytes = bytes;
    ASSERT_TRUE(w->switches.Heartbeat(w->now, report.name, &report).ok());
  }
}

GroupSpec SpecUnder(const std::string& name, std::vector<std::string> hosts, Policy policy) {
  GroupSpec spec;
  spec.name = name;
  spec.hosts = std::move(hosts);
  spec.world_size = static_cast<uint32_t>(spec.hosts.size());
  spec.policy = policy;
  return spec;
}

// Created, joined and running; what `group show` would have.
Group Made(GroupWorldFixture* w, const GroupSpec& spec) {
  const Placement told = *w->groups()->Explain(spec);
  EXPECT_TRUE(w->groups()->Create(spec).ok());
  static uint32_t next = 1;
  for (uint32_t rank = 0; rank < spec.world_size; ++rank) {
    JoinRequest join = w->Request(spec.hosts[rank], rank, spec.world_size, spec.name);
    join.qpn = ++next;
    w->groups()->OnJoin(w->now, 10'000 + next, join);
  }
  for (const auto& [node, context] : std::exchange(w->world.installs, {}))
    w->groups()->OnInstalled(w->now, node, context.group_id, {.arena_bytes = kTakenByEach});
  const Group group = *w->groups()->Find(spec.name);
  EXPECT_EQ(told.path, group.path_taken) << "as it was explained";
  if (told.path == Path::kHosts) {
    EXPECT_EQ(told.path_reason, group.path_reason);
  }
  EXPECT_EQ(told.root, group.plan.contexts.empty() ? kNoNode : group.plan.contexts[0].node);
  return group;
}

std::string RootNameOf(const GroupWorldFixture& w, const Group& group) {
  return group.plan.contexts.empty() ? group.path_reason : w.topology.nodes[group.plan.contexts[0].node].name;
}

void End(GroupWorldFixture* w, const std::string& name) {
  ASSERT_TRUE(w->groups()->Destroy(w->now, name, true).ok());
  w->groups()->Tick(w->now + 10 * kSecond);
  w->AnswerRemovals();
}

TEST(GroupPolicy, TreesOfEdtShareNoLinkAndGiveThemBack) {
  GroupWorldFixture w(testing::FatTree4());
  HaveArenas(&w, 16 * kMebibyte);
  const Group one = Made(&w, SpecUnder("one", {"h0", "h2", "h4"}, Policy::kEdt));
  EXPECT_EQ(RootNameOf(w, one), "core1");
  // One-child switches are in it: edge1, edge2 with agg1, edge3 with agg3.
  EXPECT_EQ(one.plan.contexts.size(), 6U);
  EXPECT_EQ(one.width_kbps, 10'000'000U);
  EXPECT_EQ(one.allocation->links.size(), 8U);
  EXPECT_EQ(RootNameOf(w, Made(&w, SpecUnder("two", {"h1", "h3"}, Policy::kEdt))), "agg2");
  const Group three = Made(&w, SpecUnder("three", {"h0", "h6"}, Policy::kEdt));
  EXPECT_EQ(three.path_taken, Path::kHosts);
  EXPECT_EQ(three.path_reason,
            "the link between edge1:swp1 and h0 is in another tree of policy edt; and 1 more in the way");
  End(&w, "three");
  End(&w, "one");
  EXPECT_EQ(RootNameOf(w, Made(&w, SpecUnder("three", {"h0", "h6"}, Policy::kEdt))), "core1");
}

TEST(GroupPolicy, SpatialReservesAndGivesBack) {
  GroupWorldFixture w(testing::FatTree4());
  HaveArenas(&w, 16 * kMebibyte);
  GroupSpec spec = SpecUnder("one", {"h0", "h2"}, Policy::kSpatial);
  spec.rate_kbps = 7'000'000;
  EXPECT_EQ(RootNameOf(w, Made(&w, spec)), "agg1");
  spec.name = "two";
  spec.path = Path::kNetwork;
  const Placement refused = *w.groups()->Explain(spec);
  EXPECT_EQ(refused.failure.code, ErrorCode::kNoResource);
  EXPECT_EQ(refused.failure.brief,
            "the link between edge1:swp1 and h0 has 3 Gbit/s for the group, 7 needed; and 1 more in the way");
  End(&w, "one");
  EXPECT_EQ(RootNameOf(w, Made(&w, spec)), "agg1");
  End(&w, "two");
  EXPECT_TRUE(w.groups()->load() == Load{});
}

TEST(GroupPolicy, TheDefaultIsOfGroupsMadeFromThenOn) {
  GroupWorldFixture w(testing::FatTree4());
  ASSERT_TRUE(w.groups()->Create(SpecUnder("before", {"h0", "h2"}, Policy::kUnspecified)).ok());
  w.groups()->SetDefaultPolicy(Policy::kEdt);
  ASSERT_TRUE(w.groups()->Create(SpecUnder("after", {"h0", "h2"}, Policy::kUnspecified)).ok());
  EXPECT_EQ(w.groups()->Find("before")->spec.policy, Policy::kShortest);
  EXPECT_EQ(w.groups()->Find("after")->spec.policy, Policy::kEdt);
  w.JoinAll(2, "of-ranks");
  EXPECT_EQ(w.groups()->Find("of-ranks")->spec.policy, Policy::kEdt);
}

TEST(GroupPolicy, WhatAPolicyHasNoUseForIsRefused) {
  GroupWorldFixture w(testing::FatTree4());
  GroupSpec spec = SpecUnder("g", {"h0", "h2"}, Policy::kEdt);
  spec.rate_kbps = 1;
  EXPECT_EQ(w.groups()->Create(spec).message(), "rate: policy edt has no use for it, only spatial and temporal have");
  spec = SpecUnder("g", {"h0", "h2"}, Policy::kUnspecified);
  spec.prefer = Prefer::kLatency;
  EXPECT_EQ(w.groups()->Create(spec).message(), "prefer: policy shortest has no use for it, only spatial and temporal have");
  spec = SpecUnder("g", {"h0", "h2"}, Policy::kEdt);
  spec.tenant = "red";
  EXPECT_EQ(w.groups()->Create(spec).code(), StatusCode::kNotFound);
}

TEST(GroupPolicy, ATenantsDemandsEndAtItsLimitAndNotAtOthers) {
  for (const Policy policy : {Policy::kShortest, Policy::kEdt, Policy::kSpatial}) {
    SCOPED_TRACE(Name(policy));
    GroupWorldFixture w(testing::FatTree4());
    HaveArenas(&w, 4 * kMebibyte);
    ASSERT_TRUE(w.groups()->SetTenant({.name = "red", .limit_bytes = 2 * kMebibyte}).ok());
    ASSERT_TRUE(w.groups()->SetTenant({.name = "blue", .guaranteed_bytes = kMebibyte}).ok());
    GroupSpec spec = SpecUnder("red1", {"h0", "h1"}, policy);
    spec.tenant = "red";
    EXPECT_EQ(RootNameOf(w, Made(&w, spec)), "edge1");
    End(&w, "red1");
    EXPECT_TRUE(w.groups()->load() == Load{});
    if (policy == Policy::kEdt) continue;
    EXPECT_EQ(RootNameOf(w, Made(&w, spec)), "edge1");
    spec.name = "red2";
    EXPECT_EQ(RootNameOf(w, Made(&w, spec)),
              "edge1 has 1021.0 of 4096.0 KiB free, 1027.0 needed; no more is free for tenant "
              "red, which may have 2.0 MiB of a switch");
    spec.tenant = "blue";
    for (const char* name : {"blue1", "blue2"}) {
      spec.name = name;
      EXPECT_EQ(RootNameOf(w, Made(&w, spec)), "edge1");
    }
    EXPECT_EQ(w.groups()->SetTenant({.name = "green", .guaranteed_bytes = 2 * kMebibyte}).message(),
              "guarantee_bytes: 2.0 MiB would have to be kept for tenants, and edge1 has 1015.0 KiB free");
    EXPECT_EQ(w.groups()->RemoveTenant("red").message(), "tenant: group red1 is reserved for red");
  }
}

TEST(GroupPolicy, ATenantHasSoManyGroups) {
  GroupWorldFixture w(testing::FatTree4());
  ASSERT_TRUE(w.groups()->SetTenant({.name = "red", .limit_groups = 1}).ok());
  GroupSpec spec = SpecUnder("one", {"h0", "h1"}, Policy::kShortest);
  spec.tenant = "red";
  EXPECT_EQ(RootNameOf(w, Made(&w, spec)), "edge1");
  spec.name = "two";
  EXPECT_EQ(RootNameOf(w, Made(&w, spec)), "tenant red: it has 1 of 1 group that may go through switches");
  End(&w, "one");
  EXPECT_EQ(w.groups()->RemoveTenant("red").message(), "tenant: group two is reserved for red");
}

}  // namespace
}  // namespace epic::manager
