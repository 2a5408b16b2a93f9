// Groups under policy temporal (docs/DEPLOY.md, "Memory that groups share").
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using ::testing::Contains;
using testing::GroupWorldFixture;
using ::testing::HasSubstr;

// What a group of mode II takes of each switch here: 128 slots of 24 bytes and two MTUs.
constexpr uint64_t kTaken = 128 * (24 + 2 * 4096);
constexpr uint32_t kPercent = kWholeTime / 100;

GroupSpec Spec(const std::string& name, uint32_t percent) {
  GroupSpec spec;
  spec.name = name;
  spec.hosts = {"h0", "h1"};
  spec.world_size = 2;
  spec.policy = Policy::kTemporal;
  spec.duty = percent * kPercent;
  return spec;
}

// Switches with room for two groups each.
struct World : GroupWorldFixture {
  World() : GroupWorldFixture(testing::FatTree4()) {
    for (const NodeId node : topology.switches) Say(node, true);
  }
  void Say(NodeId node, bool blocks) {
    EngineReport report = Report(node);
    report.arena_bytes = 2 * kTaken + 1000;
    report.blocks = blocks;
    report.version = "0.1.0";
    ASSERT_TRUE(switches.Heartbeat(now, report.name, &report).ok());
  }
  // Created and joined.
  void Start(const GroupSpec& spec) {
    ASSERT_TRUE(groups()->Create(spec).ok());
    for (uint32_t rank = 0; rank < spec.world_size; ++rank) {
      JoinRequest join = Request(spec.hosts[rank], rank, spec.world_size, spec.name);
      join.qpn = ++next;
      first_session.try_emplace(spec.name, 10'000 + next);
      groups()->OnJoin(now, 10'000 + next, join);
    }
  }
  // And running, as it was explained.
  Group Made(const GroupSpec& spec) {
    const Placement told = *groups()->Explain(spec);
    Start(spec);
    for (const auto& [node, context] : std::exchange(world.installs, {})) {
      installed.push_back(context);
      groups()->OnInstalled(now, node, context.group_id, {.arena_bytes = kTaken});
    }
    const Group group = *groups()->Find(spec.name);
    EXPECT_EQ(told.path, group.path_taken);
    if (told.path == Path::kHosts) {
      EXPECT_EQ(told.path_reason, group.path_reason);
    }
    return group;
  }
  void End(const std::string& name) {
    ASSERT_TRUE(groups()->Destroy(now, name, true).ok());
    groups()->Tick(now + 10 * kSecond);
    AnswerRemovals();
  }
  const BlockLoads& Blocks() const { return groups()->load().at(Id("edge1")).blocks; }

  uint32_t next = 0;
  std::map<std::string, SessionId> first_session;
};

// The block of its only switch, or why it has none.
std::string BlockOf(const Group& group) {
  if (group.plan.contexts.empty()) return group.path_reason;
  const ContextPlan& context = group.plan.contexts[0];
  return fmt::format("block {} of {}, low byte {}", context.block, context.block_bytes, LowByteOf(context));
}

TEST(GroupBlocks, OwnersHaveTheSameMemoryOnTheSameCore) {
  World w;
  EXPECT_EQ(BlockOf(w.Made(Spec("a", 60))), fmt::format("block 1 of {}, low byte 1", kTaken));
  EXPECT_EQ(BlockOf(w.Made(Spec("b", 50))), fmt::format("block 2 of {}, low byte 2", kTaken));
  EXPECT_EQ(BlockOf(w.Made(Spec("c", 50))), fmt::format("block 2 of {}, low byte 2", kTaken));
  EXPECT_THAT(w.world.notes,
              Contains("group c: shares memory with others: edge1: block 2 of 1.0 MiB, duty 0.5 of 1"));
  EXPECT_EQ(BlockOf(w.Made(Spec("d", 40))), fmt::format("block 1 of {}, low byte 1", kTaken));
  for (const ContextPlan& context : w.installed) {
    for (const EndpointPlan& child : context.children) EXPECT_EQ(child.local_qpn % 256, LowByteOf(context));
  }
  EXPECT_EQ(BlockOf(w.Made(Spec("e", 1))),
            "edge1 has 0.0 of 2.0 MiB free, 1.0 needed, and none of its 2 blocks has 0.01 of its time left");
  EXPECT_EQ(w.groups()->Find("e")->path_taken, Path::kHosts);
  // The next low byte is that of the next who may choose.
  w.End("b");
  EXPECT_EQ(w.Blocks().at(2).owners, 1U);
  w.End("c");
  EXPECT_EQ(BlockOf(w.Made(Spec("f", 100))), fmt::format("block 2 of {}, low byte 3", kTaken));
}

TEST(GroupBlocks, PhasesOfAJobDoNotAddUp) {
  World w;
  for (const char* phase : {"forward", "backward", "step"}) {
    GroupSpec spec = Spec(phase, 90);
    spec.job = "train";
    spec.phase = phase;
    w.Made(Spec(std::string("full-") + phase, 100));
    if (w.Blocks().size() > 1) w.End(std::string("full-") + phase);
    EXPECT_EQ(w.Made(spec).path_taken, Path::kNetwork) << phase;
  }
  EXPECT_EQ(w.Blocks().size(), 2U);
}

TEST(GroupBlocks, OnlyGroupsOfThePolicyAsk) {
  World w;
  GroupSpec spatial = Spec("spatial", 0);
  spatial.policy = Policy::kSpatial;
  for (const GroupSpec& spec : {Spec("temporal", 0), spatial}) {
    const bool asks = spec.policy == Policy::kTemporal;
    const Group group = w.Made(spec);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const auto* joined = w.Last<JoinedReply>(w.first_session.at(spec.name) + rank);
      ASSERT_NE(joined, nullptr);
      EXPECT_EQ(joined->asks, asks);
    }
    EXPECT_EQ(group.plan.contexts[0].block != 0, asks);
    EXPECT_EQ(group.plan.contexts[0].block_bytes != 0, asks);
    EXPECT_EQ(group.allocation->share.duty, kWholeTime) << "nothing was said";
  }
  // By the hosts nobody has anything to ask.
  w.Made(Spec("hosts", 100));
  EXPECT_EQ(w.groups()->Find("hosts")->path_taken, Path::kHosts);
  EXPECT_FALSE(w.Last<JoinedReply>(w.first_session.at("hosts"))->asks);
}

// Calls that find their memory taken go between the hosts, whatever path was asked for.
TEST(GroupBlocks, TheHostsMustReachEachOther) {
  World w;
  GroupSpec spec = Spec("network", 50);
  spec.path = Path::kNetwork;
  w.Made(spec);
  const auto* joined = w.Last<JoinedReply>(w.first_session.at("network"));
  ASSERT_NE(joined, nullptr);
  EXPECT_TRUE(joined->asks && joined->hosts_reach) << joined->path_reason;

  GroupWorldFixture routed(testing::RoutedTree32());
  routed.groups()->SetDefaultPolicy(Policy::kTemporal);
  routed.path = Path::kNetwork;
  routed.JoinAll(4);
  const auto* failed = routed.Last<Failure>(100);
  ASSERT_NE(failed, nullptr);
  EXPECT_THAT(failed->message, HasSubstr("h0 does not reach h2")) << failed->message;
}

TEST(GroupBlocks, AModeAndASwitchWithoutThemAreNamed) {
  World w;
  GroupSpec spec = Spec("one", 50);
  spec.mode = Mode::kTerminated;
  EXPECT_EQ(BlockOf(w.Made(spec)), "mode I has no blocks, which policy temporal needs");
  spec = Spec("mixed", 50);
  spec.mode = Mode::kAugmented;
  spec.switch_modes["edge1"] = Mode::kTerminated;
  EXPECT_EQ(BlockOf(w.Made(spec)), "edge1: mode I has no blocks, which policy temporal needs");
  w.Say(w.Id("edge1"), false);
  spec = Spec("without", 50);
  EXPECT_EQ(BlockOf(w.Made(spec)), "blocks are not in edge1 (version 0.1.0)");
  spec.name = "network";
  spec.path = Path::kNetwork;
  EXPECT_EQ(w.groups()->Explain(spec)->failure.code, ErrorCode::kNoTree);
  // Who has none serves others.
  spec.name = "spatial";
  spec.policy = Policy::kSpatial;
  spec.duty = 0;
  EXPECT_EQ(w.Made(spec).path_taken, Path::kNetwork);
}

TEST(GroupBlocks, ArePartOfTheLoadUntilTheLastContextHasGone) {
  World w;
  w.Made(Spec("a", 60));
  w.Made(Spec("b", 100));
  w.Made(Spec("c", 40));
  EXPECT_EQ(w.Blocks().at(1).Taken(), kWholeTime);
  ASSERT_TRUE(w.groups()->Destroy(w.now, "a", true).ok());
  w.groups()->Tick(w.now + 10 * kSecond);
  EXPECT_EQ(w.Blocks().at(1).Taken(), kWholeTime) << "its switch has not answered";
  w.AnswerRemovals();
  EXPECT_EQ(w.Blocks().at(1).Taken(), 40 * kPercent);
  w.End("c");
  w.End("b");
  EXPECT_TRUE(w.groups()->load() == Load{});
}

TEST(GroupBlocks, ARefusedInstallationGivesBackItsPart) {
  World w;
  w.Made(Spec("a", 60));
  w.Made(Spec("full", 100));
  w.Start(Spec("b", 40));
  EXPECT_EQ(w.Blocks().at(1).owners, 2U);
  const auto& [node, context] = w.world.installs[0];
  w.groups()->OnInstalled(w.now, node, context.group_id,
                      {.status = MakeStatus(StatusCode::kResourceExhausted,
                                            "arena: 1051648 bytes needed, 64 of 2104296 bytes left")});
  EXPECT_EQ(w.groups()->Find("b")->path_taken, Path::kHosts);
  w.AnswerRemovals();
  EXPECT_EQ(w.Blocks().at(1).owners, 1U);
}

TEST(GroupBlocks, AreAsLargeAsTheyWereToldWhateverIsAnswered) {
  World w;
  w.Start(Spec("a", 60));
  w.groups()->OnInstalled(w.now, w.Id("edge1"), w.world.installs[0].second.group_id, {.arena_bytes = 64});
  EXPECT_EQ(w.groups()->load().at(w.Id("edge1")).bytes, kTaken);
  EXPECT_EQ(w.groups()->Find("a")->plan.contexts[0].arena_bytes, 64U) << "as it was answered";
}

TEST(GroupBlocks, QpnsOfOneLowByteMayEnd) {
  World w;
  w.Made(Spec("full", 100));
  uint32_t owners = 0;
  std::string why;
  for (; why.empty(); ++owners) why = w.Made(Spec(fmt::format("g{}", owners), 1)).path_reason;
  EXPECT_EQ(why,
            "edge1 has 0.0 of 2.0 MiB free, 1.0 needed, and none of its 2 blocks has 0.01 of its time left");
  EXPECT_EQ(owners, 101U);
  // With less of the time there are more than a low byte has QPNs.
  World other;
  other.Made(Spec("full", 100));
  GroupSpec spec = Spec("", 0);
  spec.duty = kPercent / 10;
  for (owners = 0, why.clear(); why.empty(); ++owners) {
    spec.name = fmt::format("g{}", owners);
    other.Start(spec);
    for (const auto& [node, context] : std::exchange(other.world.installs, {}))
      other.groups()->OnInstalled(other.now, node, context.group_id, {.arena_bytes = kTaken});
    why = other.groups()->Find(spec.name)->path_reason;
  }
  EXPECT_EQ(why, "edge1 has no QPN left for the block that the group would share");
  EXPECT_EQ(owners, QpnPool::kQpnsPerTag / 2 + 1);
}

TEST(GroupBlocks, WhatIsNoShareIsRefusedByItsField) {
  World w;
  const auto error = [&w](const GroupSpec& spec) {
    const Status status = w.groups()->Create(spec);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  GroupSpec spec = Spec("g", 101);
  EXPECT_EQ(error(spec), "duty: 1.01 is not more than 0 and at most 1");
  spec = Spec("g", 50);
  spec.phase = "forward";
  EXPECT_EQ(error(spec), "phase: forward is that of no job");
  spec.job = "two words";
  EXPECT_EQ(error(spec), "job: must be 1 to 64 printable characters without spaces");
  spec.job = "train";
  spec.phase = std::string(65, 'x');
  EXPECT_EQ(error(spec), "phase: must be 1 to 64 printable characters without spaces");
  for (const Policy policy : {Policy::kShortest, Policy::kEdt, Policy::kSpatial}) {
    spec = Spec("g", 50);
    spec.policy = policy;
    EXPECT_EQ(error(spec), fmt::format("duty: policy {} has no use for it, only temporal has", Name(policy)));
    spec.duty = 0;
    spec.job = "train";
    EXPECT_EQ(error(spec), fmt::format("job: policy {} has no use for it, only temporal has", Name(policy)));
    spec.job.clear();
    spec.phase = "forward";
    EXPECT_EQ(error(spec),
              fmt::format("phase: policy {} has no use for it, only temporal has", Name(policy)));
  }
}

// Of groups that ranks make as they join.
TEST(GroupBlocks, TheDefaultPolicyMayBeTemporal) {
  World w;
  w.groups()->SetDefaultPolicy(Policy::kTemporal);
  w.JoinAll(2);
  w.AnswerInstalls();
  EXPECT_TRUE(w.Last<JoinedReply>(100)->asks);
  EXPECT_EQ(w.Blocks().at(1).Taken(), kWholeTime);
}

TEST(GroupBlocks, AnExplanationSaysWhichAreShared) {
  World w;
  w.Made(Spec("a", 60));
  w.Made(Spec("b", 60));
  const Placement placement = *w.groups()->Explain(Spec("", 40));
  const RootChoice& choice = placement.roots[w.Id("edge1")];
  ASSERT_TRUE(choice.chosen);
  EXPECT_EQ(choice.switches[0].block, 1U);
  EXPECT_EQ(choice.switches[0].bytes, kTaken);
  EXPECT_THAT(w.groups()->Explain(Spec("", 50))->path_reason,
              HasSubstr("none of its 2 blocks has 0.5 of its time"));
}

}  // namespace
}  // namespace epic::manager
