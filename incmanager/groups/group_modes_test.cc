// Which mode each switch of a group gets, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;
using ::testing::HasSubstr;
using testing::Refusal;

GroupSpec Spec(Mode mode, uint32_t world_size) {
  GroupSpec spec;
  spec.name = "g";
  spec.world_size = world_size;
  spec.mode = mode;
  return spec;
}

TEST(GroupModes, EverySwitchGetsTheGroupsMode) {
  for (const Mode mode : ModesOfOwnMemory()) {
    GroupWorldFixture w(testing::Tree32());
    ASSERT_TRUE(w.groups()->Create(Spec(mode, 4)).ok());
    w.JoinAll(4);
    w.AnswerInstalls();
    ASSERT_EQ(w.installed.size(), 3u);
    for (const ContextPlan& context : w.installed) {
      EXPECT_EQ(context.mode, mode);
      EXPECT_FALSE(context.reproducible);
      EXPECT_GE(context.slots, 2 * context.message_packets * context.window_messages);
    }
    EXPECT_EQ(w.Last<JoinedReply>(100)->mode, mode);
  }
}

TEST(GroupModes, DefaultIsII) {
  GroupWorldFixture w(testing::Star(2));
  ASSERT_TRUE(w.groups()->Create(Spec(Mode::kUnspecified, 2)).ok());
  EXPECT_EQ(w.groups()->Find("g")->spec.mode, Mode::kTranslated);
  w.JoinAll(2, "automatic");
  w.AnswerInstalls();
  EXPECT_EQ(w.installed.back().mode, Mode::kTranslated);
}

TEST(GroupModes, ReproducibleGoesToEverySwitchAndCostsMemory) {
  GroupWorldFixture w(testing::Tree32());
  GroupSpec spec = Spec(Mode::kAugmented, 4);
  spec.reproducible = true;
  ASSERT_TRUE(w.groups()->Create(spec).ok());
  w.JoinAll(4);
  w.AnswerInstalls();
  ASSERT_EQ(w.installed.size(), 3u);
  for (const ContextPlan& context : w.installed) {
    EXPECT_TRUE(context.reproducible);
    // 10 Gbit/s and 20 us: BL is 25000 bytes; two children.
    EXPECT_EQ(context.paper.formula, "(D+1)*2BL");
    EXPECT_EQ(context.paper.bytes, 3u * 2 * 25000);
  }
}

TEST(GroupModes, MixedTreesHaveAModePerSwitch) {
  GroupWorldFixture w(testing::Tree32());
  GroupSpec spec = Spec(Mode::kAugmented, 4);
  spec.switch_modes = {{"leaf1", Mode::kTerminated}, {"root", Mode::kAugmented}};
  ASSERT_TRUE(w.groups()->Create(spec).ok());
  w.JoinAll(4);
  w.AnswerInstalls();
  ASSERT_EQ(w.installed.size(), 3u);
  for (const ContextPlan& context : w.installed) {
    const bool terminated = context.node == w.Id("leaf1");
    EXPECT_EQ(context.mode, terminated ? Mode::kTerminated : Mode::kAugmented);
    EXPECT_EQ(context.paper.formula, terminated ? "(D+1)*2BL" : "4BL");
  }
  EXPECT_EQ(w.Last<JoinedReply>(100)->mode, Mode::kAugmented) << "the group's, also below leaf1";
}

TEST(GroupModes, WhatCannotBeMixedIsRefusedWithTheReason) {
  GroupWorldFixture w(testing::Tree32());
  const auto create = [&w](Mode mode, const std::string& name, Mode own) {
    GroupSpec spec = Spec(mode, 4);
    spec.switch_modes[name] = own;
    return w.groups()->Create(spec);
  };
  const Status reflects = create(Mode::kAugmented, "leaf1", Mode::kTranslated);
  EXPECT_EQ(reflects.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(reflects.message()),
              HasSubstr("leaf1 in mode II, the group in mode III: modes II and III cannot share a tree"));
  EXPECT_EQ(create(Mode::kUnspecified, "leaf1", Mode::kTerminated).code(), StatusCode::kInvalidArgument)
      << "the default is II";
  EXPECT_EQ(create(Mode::kAugmented, "leaf9", Mode::kTerminated).code(), StatusCode::kNotFound);
  EXPECT_EQ(create(Mode::kAugmented, "h0", Mode::kTerminated).code(), StatusCode::kNotFound);
  EXPECT_EQ(create(Mode::kAugmented, "leaf1", Mode::kUnspecified).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(create(static_cast<Mode>(99), "leaf1", Mode::kTerminated).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(w.Phase(), "none");
  EXPECT_TRUE(create(Mode::kTranslated, "leaf1", Mode::kTranslated).ok());
}

// leaf2 offers mode II only.
TEST(GroupModes, SwitchesThatDoNotOfferTheModeAreNamed) {
  GroupWorldFixture w(testing::Tree32());
  EngineReport report = w.Report(w.Id("leaf2"));
  report.modes = {};
  report.modes.Add(Mode::kTranslated);
  ASSERT_TRUE(w.switches.Heartbeat(w.now, "leaf2", &report).ok());
  GroupSpec spec = Spec(Mode::kAugmented, 4);
  spec.path = Path::kNetwork;
  ASSERT_TRUE(w.groups()->Create(spec).ok());
  w.JoinAll(4);
  const auto* failure = w.Last<Failure>(100);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->code, ErrorCode::kNoTree);
  EXPECT_EQ(failure->switch_name, "leaf2");
  EXPECT_THAT(failure->message,
              HasSubstr("leaf2, which cannot take part: its engine does not offer mode III"));
  // Mode II goes through it, and mode III goes where it is not.
  w.JoinAll(4, "translated");
  EXPECT_EQ(w.Phase("translated"), "installing");
  JoinRequest first = w.Request("h0", 0, 2, "beside");
  first.mode = Mode::kAugmented;
  w.groups()->OnJoin(w.now, 300, first);
  w.groups()->OnJoin(w.now, 301, w.Request("h1", 1, 2, "beside"));
  EXPECT_EQ(w.Phase("beside"), "installing");
}

TEST(GroupModes, FirstJoinChoosesAndALaterOneMayNotContradict) {
  GroupWorldFixture w(testing::Star(3));
  JoinRequest first = w.Request("h0", 0, 3);
  first.mode = Mode::kAugmented;
  w.groups()->OnJoin(w.now, 100, first);
  JoinRequest second = w.Request("h1", 1, 3);
  second.mode = Mode::kTranslated;
  const Failure refused = Refusal(&w, second);
  EXPECT_EQ(refused.code, ErrorCode::kMismatch);
  EXPECT_EQ(refused.rank, 1);
  EXPECT_EQ(refused.message, "mode: rank 1 asks for mode II, the group g has mode III");
  second.mode = Mode::kAugmented;
  w.groups()->OnJoin(w.now, 101, second);
  w.Join(2, 3);  // has no wish
  w.AnswerInstalls();
  EXPECT_EQ(w.installed.back().mode, Mode::kAugmented);

  ASSERT_TRUE(w.groups()
                  ->Create([] {
                    GroupSpec spec = Spec(Mode::kTerminated, 2);
                    spec.name = "reserved";
                    return spec;
                  }())
                  .ok());
  JoinRequest other = w.Request("h0", 0, 2, "reserved");
  other.mode = Mode::kAugmented;
  EXPECT_EQ(Refusal(&w, other).message, "mode: rank 0 asks for mode III, the group reserved has mode I");
  JoinRequest bad = w.Request("h0", 0, 2, "bad");
  bad.mode = static_cast<Mode>(99);
  EXPECT_EQ(Refusal(&w, bad).message, "mode: rank 0 asks for 99, which is none of " + ModeChoice());
}

}  // namespace
}  // namespace epic::manager
