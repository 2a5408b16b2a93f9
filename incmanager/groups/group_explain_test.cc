// What a group would get is what it gets (docs/DEPLOY.md, "What a group would get").
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;

GroupSpec Of(const std::vector<std::string>& hosts, Path path = Path::kAuto) {
  GroupSpec spec;
  spec.name = "g";
  spec.hosts = hosts;
  spec.path = path;
  return spec;
}

std::vector<std::string> Hosts(size_t count) {
  std::vector<std::string> hosts;
  for (size_t i = 0; i < count; ++i) hosts.push_back(fmt::format("h{}", i));
  return hosts;
}

const RootChoice& RootOf(const GroupWorldFixture& w, const Placement& placement, const std::string& name) {
  return placement.roots[w.Id(name)];
}

TEST(GroupExplain, SaysTheRootAndWhyItIsNoOther) {
  GroupWorldFixture w(testing::TwoSpines());
  const Placement placement = *w.groups()->Explain(Of(Hosts(4)));
  EXPECT_EQ(placement.path, Path::kNetwork);
  EXPECT_EQ(placement.root, w.Id("spine1"));
  EXPECT_EQ(placement.switches, 3U);
  EXPECT_EQ(placement.mode, kDefaultMode);
  EXPECT_TRUE(RootOf(w, placement, "spine1").chosen);
  EXPECT_EQ(RootOf(w, placement, "spine2").why, "equal to spine1, which comes first");
  w.JoinAll(4);
  const Placement next = *w.groups()->Explain(Of(Hosts(4)));
  EXPECT_EQ(next.root, w.Id("spine2"));
  EXPECT_EQ(RootOf(w, next, "spine1").why, "busier: 1 group on the root, spine2 has 0");
}

TEST(GroupExplain, SaysByWhichPathAndWhy) {
  GroupWorldFixture w(testing::TwoSpines());
  EngineReport report = w.Report(w.Id("leaf1"));
  report.max_path_mtu = 1024;
  ASSERT_TRUE(w.switches.Heartbeat(w.now, "leaf1", &report).ok());
  GroupSpec spec = Of(Hosts(4));
  spec.path_mtu = 4096;
  const char* why = "path_mtu: 4096 is more than the engine of leaf1 carries (1024)";
  const Placement by_hosts = *w.groups()->Explain(spec);
  EXPECT_EQ(by_hosts.path, Path::kHosts);
  EXPECT_EQ(by_hosts.path_reason, why);
  EXPECT_TRUE(by_hosts.failure.ok());
  EXPECT_EQ(RootOf(w, by_hosts, "spine1").why, why) << "the best tree, which is not taken";
  EXPECT_FALSE(RootOf(w, by_hosts, "spine1").chosen);
  spec.path = Path::kNetwork;
  const Placement refused = *w.groups()->Explain(spec);
  EXPECT_EQ(refused.path, Path::kUnspecified);
  EXPECT_EQ(refused.failure.code, ErrorCode::kMtu);
  EXPECT_EQ(refused.failure.message, why);
  EXPECT_EQ(refused.path_reason, "");

  const Placement asked = *w.groups()->Explain(Of(Hosts(4), Path::kHosts));
  EXPECT_EQ(asked.path_reason, "asked for by its operator");
  EXPECT_EQ(RootOf(w, asked, "spine1").why, "path hosts is asked for");
  EXPECT_EQ(RootOf(w, asked, "leaf1").why, "deeper: 3 links, spine1 has 2");
}

TEST(GroupExplain, WhatNoGroupMayAskForIsRefused) {
  GroupWorldFixture w(testing::Tree32());
  const auto error = [&w](const GroupSpec& spec) {
    const auto placement = w.groups()->Explain(spec);
    return placement.ok() ? "none" : std::string(placement.status().message());
  };
  EXPECT_EQ(error(Of({"h0", ToString(w.topology.nodes[w.Id("h1")].address)})), "none");
  EXPECT_EQ(error(Of({"h0", "h7"})), "hosts: the topology has no host h7");
  EXPECT_EQ(w.groups()->Explain(Of({"h0", "h7"})).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(error(Of({"h0", "leaf1"})), "hosts: the topology has no host leaf1");
  EXPECT_EQ(error(Of({"h0"})), "hosts: 1 named, and a group has at least 2 ranks");
  EXPECT_EQ(error(Of({})), "hosts: 0 named, and a group has at least 2 ranks");
  GroupSpec spec = Of(Hosts(4));
  spec.switch_modes["leaf7"] = Mode::kTerminated;
  EXPECT_EQ(error(spec), "switch_modes: the topology has no switch leaf7");
  spec = Of(Hosts(4));
  spec.wrong = "types: 'int33' is not a type";
  EXPECT_EQ(error(spec), "types: 'int33' is not a type");
  // Ranks may share a host.
  EXPECT_EQ(error(Of({"h0", "h0", "h1"})), "none");
  EXPECT_EQ(w.groups()->Explain(Of({"h0", "h0", "h1"}))->roots[w.Id("leaf1")].switches[0].children, 3U);
  // The name is not looked at, nor whether there is such a group.
  ASSERT_TRUE(w.groups()
                  ->Create([] {
                    GroupSpec g = Of({});
                    g.world_size = 2;
                    return g;
                  }())
                  .ok());
  EXPECT_EQ(error(Of({"h0", "h1"})), "none");
}

TEST(GroupExplain, ChangesNothing) {
  GroupWorldFixture asked(testing::Tree32());
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(asked.groups()->Explain(Of(Hosts(4))).ok());
    ASSERT_TRUE(asked.groups()->Explain(Of(Hosts(4), Path::kHosts)).ok());
  }
  EXPECT_TRUE(asked.groups()->Names().empty());
  EXPECT_TRUE(asked.world.notes.empty());
  EXPECT_TRUE(asked.world.installs.empty());
  EXPECT_TRUE(asked.world.sent.empty());
  // The next group has the same QPNs and PSNs as without.
  GroupWorldFixture other(testing::Tree32());
  for (GroupWorldFixture* w : {&asked, &other}) {
    w->JoinAll(4);
    w->AnswerInstalls();
  }
  EXPECT_EQ(asked.world.notes, other.world.notes);
  ASSERT_EQ(asked.installed.size(), other.installed.size());
  for (size_t i = 0; i < asked.installed.size(); ++i) {
    EXPECT_EQ(asked.installed[i].group_id, other.installed[i].group_id);
    ASSERT_EQ(asked.installed[i].children.size(), other.installed[i].children.size());
    for (size_t j = 0; j < asked.installed[i].children.size(); ++j) {
      EXPECT_EQ(asked.installed[i].children[j].local_qpn, other.installed[i].children[j].local_qpn);
      EXPECT_EQ(asked.installed[i].children[j].in_psn, other.installed[i].children[j].in_psn);
    }
  }
}

// Whatever the switches are and whatever is asked for.
TEST(GroupExplain, IsWhatAGroupThenGets) {
  std::map<Path, int> got;
  for (int trial = 0; trial < 400; ++trial) {
    SCOPED_TRACE(fmt::format("trial {}, which is the seed", trial));
    std::mt19937 random(static_cast<uint32_t>(trial));
    GroupWorldFixture w(trial % 2 == 0 ? testing::TwoSpines() : testing::RoutedTree32());
    for (const NodeId node : w.topology.switches) {
      EngineReport report = w.Report(node);
      if (random() % 6 == 0) report.abilities = Abilities::First();
      if (random() % 8 == 0) report.max_children = 1 + random() % 2;
      if (random() % 6 == 0) report.max_path_mtu = 1024;
      ASSERT_TRUE(w.switches.Heartbeat(w.now, w.topology.nodes[node].name, &report).ok());
      if (random() % 20 == 0)
        w.switches.OnVerdict(node, random() % 2 == 0 ? Verdict::kAgentLost : Verdict::kSwitchLost);
    }
    for (int i = 0; i < static_cast<int>(random() % 3); ++i) w.JoinAll(2, fmt::format("other{}", i));
    GroupSpec spec = Of(Hosts(2 + random() % 3), static_cast<Path>(random() % 4));
    spec.mode = random() % 2 == 0 ? Mode::kAugmented : Mode::kUnspecified;
    if (random() % 3 == 0) EPIC_CHECK(AddOps("product", &spec.needs).empty());
    if (random() % 3 == 0) spec.path_mtu = 4096;
    if (random() % 8 == 0) spec.message_packets = spec.window_messages = 8;
    const Placement placement = *w.groups()->Explain(spec);
    ++got[placement.path];

    spec.world_size = static_cast<uint32_t>(spec.hosts.size());
    ASSERT_TRUE(w.groups()->Create(spec).ok());
    // Not those of the other groups.
    for (uint32_t rank = 0; rank < spec.world_size; ++rank) {
      JoinRequest join = w.Request(spec.hosts[rank], rank, spec.world_size);
      join.qpn = 0x100 + rank;
      w.groups()->OnJoin(w.now, 1000 + rank, join);
    }
    if (const auto* failure = w.Last<Failure>(1000)) {
      EXPECT_EQ(placement.path, Path::kUnspecified);
      EXPECT_EQ(placement.failure.message, failure->message);
      EXPECT_EQ(placement.failure.code, failure->code);
      continue;
    }
    const Group group = *w.groups()->Find("g");
    ASSERT_EQ(placement.path, group.path_taken) << placement.failure.message << " " << group.path_reason;
    EXPECT_TRUE(placement.failure.ok());
    if (placement.path == Path::kHosts) {
      EXPECT_EQ(placement.path_reason, group.path_reason);
      continue;
    }
    EXPECT_EQ(placement.root, group.plan.contexts[0].node);
    EXPECT_EQ(placement.switches, group.plan.contexts.size());
    EXPECT_EQ(placement.mode, group.spec.mode);
    EXPECT_TRUE(placement.roots[placement.root].chosen);
  }
  EXPECT_GT(got[Path::kNetwork], 20);
  EXPECT_GT(got[Path::kHosts], 20);
  EXPECT_GT(got[Path::kUnspecified], 20);
}

}  // namespace
}  // namespace epic::manager
