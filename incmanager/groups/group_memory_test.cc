// What switches have free is known before they are asked (docs/DEPLOY.md, "Memory to fit").
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;

// What a group of mode II takes of each switch here: 128 slots of 24 bytes and two MTUs.
constexpr uint64_t kTakenByOne = 128 * (24 + 2 * 4096);

void HasArena(GroupWorldFixture* w, const std::string& name, uint64_t bytes) {
  EngineReport report = w->Report(w->Id(name));
  report.arena_bytes = bytes;
  ASSERT_TRUE(w->switches.Heartbeat(w->now, name, &report).ok());
}

GroupSpec OfHosts(std::vector<std::string> hosts) {
  GroupSpec spec;
  spec.hosts = std::move(hosts);
  return spec;
}

TEST(GroupMemory, ATreeWithTooLittleIsRefusedBeforeASwitchIsAsked) {
  GroupWorldFixture w(testing::Tree32());
  HasArena(&w, "leaf1", 1 << 20);
  w.path = Path::kNetwork;
  w.JoinAll(4);
  EXPECT_TRUE(w.world.installs.empty());
  const auto* failure = w.Last<Failure>(100);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->code, ErrorCode::kNoResource);
  EXPECT_EQ(failure->switch_name, "leaf1");
  EXPECT_EQ(failure->message, "switch leaf1: arena: 1051648 bytes needed, 1048576 of 1048576 bytes left");
  w.path = Path::kAuto;
  w.JoinAll(4, "other");
  EXPECT_EQ(w.groups()->Find("other")->path_taken, Path::kHosts);
  EXPECT_EQ(w.groups()->Find("other")->path_reason, "leaf1 has 1024.0 of 1024.0 KiB free, 1027.0 needed");
  EXPECT_TRUE(w.world.installs.empty());
}

TEST(GroupMemory, ASwitchThatIsFullIsGoneRound) {
  GroupWorldFixture w(testing::TwoSpines());
  for (const char* name : {"spine1", "leaf1", "leaf2"}) HasArena(&w, name, 3 * kTakenByOne);
  HasArena(&w, "spine2", kTakenByOne - 64);
  for (int i = 0; i < 3; ++i) {
    const std::string name = "g" + std::to_string(i);
    const Placement told = *w.groups()->Explain(OfHosts({"h0", "h1", "h2", "h3"}));
    EXPECT_EQ(told.root, w.Id("spine1"));
    EXPECT_EQ(told.roots[w.Id("spine1")].switches[0].bytes, kTakenByOne);
    EXPECT_EQ(told.roots[w.Id("spine1")].switches[0].room, (3 - i) * kTakenByOne);
    w.JoinAll(4, name);
    EXPECT_EQ(w.groups()->Find(name)->plan.contexts[0].node, w.Id("spine1")) << name;
  }
  // The next one finds no switch with room, of the leaves, which all trees need.
  const Placement told = *w.groups()->Explain(OfHosts({"h0", "h1", "h2", "h3"}));
  EXPECT_EQ(told.path, Path::kHosts);
  EXPECT_EQ(told.path_reason, "leaf1 has 0.0 of 3.0 MiB free, 1.0 needed");
}

TEST(GroupMemory, IsGivenBackWhenTheLastSwitchHasRemovedItsContext) {
  GroupWorldFixture w(testing::Tree32());
  for (const char* name : {"root", "leaf1", "leaf2"}) HasArena(&w, name, kTakenByOne);
  w.JoinAll(4);
  for (const auto& [node, context] : std::exchange(w.world.installs, {}))
    w.groups()->OnInstalled(w.now, node, context.group_id, {.arena_bytes = kTakenByOne});
  EXPECT_EQ(w.Phase(), "running");
  const auto path_now = [&w] { return w.groups()->Explain(OfHosts({"h0", "h1", "h2", "h3"}))->path; };
  EXPECT_EQ(path_now(), Path::kHosts);
  for (uint32_t rank = 0; rank < 4; ++rank) w.groups()->OnLeave(w.now, 100 + rank);
  const auto removals = std::exchange(w.world.removals, {});
  ASSERT_EQ(removals.size(), 3U);
  for (const auto& [node, id] : removals) {
    EXPECT_EQ(path_now(), Path::kHosts);
    w.groups()->OnRemoved(w.now, node, id);
  }
  EXPECT_EQ(path_now(), Path::kNetwork);
}

// Of a context that was refused after all, as by an engine whose memory is in pieces.
TEST(GroupMemory, OfARefusedContextIsHeldUntilAllSwitchesHaveRemovedIt) {
  GroupWorldFixture w(testing::Tree32());
  for (const char* name : {"root", "leaf1", "leaf2"}) HasArena(&w, name, kTakenByOne);
  w.JoinAll(4);
  const auto installs = std::exchange(w.world.installs, {});
  w.groups()->OnInstalled(
      w.now, installs[0].first, installs[0].second.group_id,
      {.status = MakeStatus(StatusCode::kResourceExhausted, "arena: 2 bytes needed, 1 of 2 bytes left")});
  EXPECT_EQ(w.groups()->Find("g")->path_taken, Path::kHosts);
  const auto path_now = [&w] { return w.groups()->Explain(OfHosts({"h0", "h1", "h2", "h3"}))->path; };
  EXPECT_EQ(path_now(), Path::kHosts);
  w.AnswerRemovals();
  EXPECT_EQ(path_now(), Path::kNetwork);
}

TEST(GroupMemory, IsWhatTheSwitchSaysThatItHasTaken) {
  GroupWorldFixture w(testing::Tree32());
  for (const char* name : {"root", "leaf1", "leaf2"}) HasArena(&w, name, 2 * kTakenByOne);
  w.JoinAll(4);
  const auto room = [&w] {
    return w.groups()->Explain(OfHosts({"h0", "h1", "h2", "h3"}))->roots[w.Id("root")].switches[0].room;
  };
  EXPECT_EQ(room(), kTakenByOne);
  w.AnswerInstalls();  // 1000 bytes
  EXPECT_EQ(room(), 2 * kTakenByOne - 1024);
}

TEST(GroupMemory, AnAnswerThatNoSwitchCanMeanDoesNoHarm) {
  GroupWorldFixture w(testing::Tree32());
  w.JoinAll(4);
  for (const auto& [node, context] : std::exchange(w.world.installs, {}))
    w.groups()->OnInstalled(w.now, node, context.group_id, {.arena_bytes = UINT64_MAX});
  EXPECT_EQ(w.Phase(), "running");
  for (uint32_t rank = 0; rank < 4; ++rank) w.groups()->OnLeave(w.now, 100 + rank);
  w.AnswerRemovals();
  EXPECT_TRUE(w.groups()->load() == Load{});
}

}  // namespace
}  // namespace epic::manager
