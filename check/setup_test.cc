// Options in, a system or an error that names what is wrong out; and lines that replay.
#include "check/setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "check/setups_testing.h"

namespace epic::check {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string ErrorOf(const Setup& setup) {
  const auto config = Build(setup);
  return config.ok() ? "none" : std::string(config.status().message());
}
std::string LineError(const std::string& line) {
  const auto replay = ParseReplay(line);
  return replay.ok() ? "none" : std::string(replay.status().message());
}

TEST(SetupTest, TheDefaultIsASystem) {
  const auto config = Built({});
  EXPECT_EQ(config.tree.switch_parent.size(), 3u);
  EXPECT_EQ(config.tree.rank_switch.size(), 4u);
  ASSERT_EQ(config.calls.size(), 1u);
  EXPECT_EQ(config.calls[0].collective, Collective::kAllReduce);
  EXPECT_EQ(config.calls[0].count, kPathMtu / 4) << "one full packet of INT32";
}

TEST(SetupTest, WhatIsAskedForIsBuilt) {
  const auto config = Built({.mode = "131",
                             .collective = "reduce@2,barrier,allgather",
                             .messages = 3,
                             .message_packets = 2,
                             .window = 4,
                             .psn = 7});
  EXPECT_EQ(config.mode.At(0), engine::Mode::kTerminated);
  EXPECT_EQ(config.mode.At(1), engine::Mode::kAugmented);
  EXPECT_EQ(config.mode.At(2), engine::Mode::kTerminated);
  ASSERT_EQ(config.calls.size(), 3u);
  EXPECT_EQ(config.calls[0].collective, Collective::kReduce);
  EXPECT_EQ(config.calls[0].root, 2u);
  EXPECT_EQ(config.calls[0].count, 6 * kPathMtu / 4);
  EXPECT_EQ(config.calls[1].count, 0u);
  EXPECT_EQ(config.calls[2].parts, 4u);
  EXPECT_EQ(config.message_packets, 2u);
  EXPECT_EQ(config.window_messages, 4u);
  EXPECT_EQ(config.first_psn, 7u);
}

TEST(SetupTest, ElementsAreOfAnyIntegerAndOperationsShowWhoIsInThem) {
  const auto config = Built({.collective = "allreduce,broadcast", .type = "int64", .op = "product"});
  for (const ControlHeader& call : config.calls) {
    EXPECT_EQ(call.type, DataType::kInt64);
    EXPECT_EQ(call.count, kPathMtu / 8);
  }
  EXPECT_EQ(config.calls[0].op, ReduceOp::kProduct);
  EXPECT_EQ(config.calls[1].op, ReduceOp::kNone);
  for (const char* type : {"", "float32", "byte", "int65"})
    EXPECT_THAT(ErrorOf({.type = type}), AllOf(StartsWith("type: "), HasSubstr(type))) << type;
  for (const char* op : {"", "bor", "max", "avg"})
    EXPECT_THAT(ErrorOf({.op = op}), AllOf(StartsWith("op: "), HasSubstr(op))) << op;
  EXPECT_EQ(Built({.type = "bfloat16"}).calls[0].count, kPathMtu / 2);
  EXPECT_EQ(ErrorOf({.type = "float16", .op = "product"}), "op: of float16 sum alone");
  const struct Setup setup { .type = "uint8", .op = "bxor" };
  const auto replay = ParseReplay(Line(setup));
  ASSERT_TRUE(replay.ok());
  EXPECT_EQ(Line(replay->setup), Line(setup));
  EXPECT_THAT(Line(setup), HasSubstr(" type=uint8 op=bxor"));
}

TEST(SetupTest, AnErrorNamesTheOptionAndTheValue) {
  for (const char* mode : {"", "0", "99", "13", "1333", "193", "II1", "x", "2 "})
    EXPECT_THAT(ErrorOf({.mode = mode}), AllOf(StartsWith("mode: "), HasSubstr(mode))) << mode;
  EXPECT_EQ(ErrorOf({.mode = "233"}), "mode: modes II and III cannot share a tree");
  EXPECT_EQ(ErrorOf({.mode = "331"}), "none");
  EXPECT_EQ(ErrorOf({.mode = "222"}), "none");
  EXPECT_THAT(ErrorOf({.collective = "sum"}), AllOf(StartsWith("collective: 'sum'"), HasSubstr("allreduce")));
  EXPECT_THAT(ErrorOf({.collective = "allreduce,,reduce"}), StartsWith("collective: ''"));
  for (const char* call : {"reduce@4", "reduce@", "reduce@x", "allreduce@1", "barrier@0", "broadcast@-1"})
    EXPECT_THAT(ErrorOf({.collective = call}), AllOf(StartsWith("collective: "), HasSubstr(call))) << call;
  EXPECT_EQ(ErrorOf({.collective = ""}), "collective: 1 to 40 calls");
  EXPECT_EQ(ErrorOf({.collective = "barrier*40"}), "none");
  EXPECT_EQ(ErrorOf({.collective = "barrier*40,reduce"}), "collective: 1 to 40 calls");
  for (const char* calls : {"barrier*0", "barrier*41", "barrier*", "barrier*x"})
    EXPECT_THAT(ErrorOf({.collective = calls}), AllOf(StartsWith("collective: "), HasSubstr(calls)));
  for (const char* calls : {"", "at once", "Apart"})
    EXPECT_THAT(ErrorOf({.calls = calls}), AllOf(StartsWith("calls: "), HasSubstr(calls)));
  for (const char* topology : {"", "ring-4", "star-1", "star-", "tree-3", "tree-2-2"})
    EXPECT_THAT(ErrorOf({.topology = topology}), AllOf(HasSubstr("topology"), HasSubstr(topology)))
        << topology;
  EXPECT_EQ(ErrorOf({.topology = "star-9"}), "topology: at most 8 hosts");
}

TEST(SetupTest, AnErrorNamesTheNumberThatIsOutOfRange) {
  for (const uint32_t messages : {0u, 65u})
    EXPECT_THAT(ErrorOf({.messages = messages}), StartsWith("messages:"));
  for (const uint32_t m : {0u, 17u}) EXPECT_THAT(ErrorOf({.message_packets = m}), StartsWith("packets:"));
  for (const uint32_t window : {0u, 17u}) EXPECT_THAT(ErrorOf({.window = window}), StartsWith("window:"));
  EXPECT_EQ(ErrorOf({.psn = 0x1000000}), "psn: 24 bits");
  EXPECT_EQ(ErrorOf({.psn = 0xffffff}), "none");
  for (const FaultBounds& faults :
       {FaultBounds{.losses = 201}, FaultBounds{.duplicates = 201}, FaultBounds{.reorderings = 201},
        FaultBounds{.timeouts = 201}, FaultBounds{.late_timers = 201}})
    EXPECT_EQ(ErrorOf({.faults = faults}), "faults: at most 200 of a kind");
  EXPECT_EQ(ErrorOf({.faults = {.losses = 200}}), "none");
  for (const FaultBounds& faults : {FaultBounds{.crashes = 9}, FaultBounds{.regroups = 9}})
    EXPECT_EQ(ErrorOf({.faults = faults}), "crashes, regroups: at most 8");
}

TEST(SetupTest, CallsMayBeLateAndPacketsWithoutOrder) {
  EXPECT_EQ(Built({.calls = "after-results"}).calls_made, CallsMade::kAfterResults);
  EXPECT_EQ(Built({.collective = "reduce@1*2,barrier"}).calls.size(), 3u);
  EXPECT_EQ(BoundsOf({.late_calls = "3"}).late_calls, 3u);
  EXPECT_EQ(BoundsOf({.late_calls = "any"}).late_calls, kNoBound);
  EXPECT_FALSE(BoundsOf({}).reorder_any);
  EXPECT_TRUE(BoundsOf({.reorder = "any"}).reorder_any);
  for (const char* late : {"201", "-1", "all"})
    EXPECT_THAT(ErrorOf({.late_calls = late}), AllOf(StartsWith("late-calls: "), HasSubstr(late)));
  EXPECT_THAT(ErrorOf({.reorder = "all"}), StartsWith("reorder: 'all'"));
  EXPECT_THAT(ErrorOf({.faults = {.reorderings = 1}, .reorder = "any"}), StartsWith("reorder: with any"));
}

TEST(SetupTest, TimersMayBeLate) {
  EXPECT_EQ(BoundsOf({}).late_timers, 0u);
  const auto replay = ParseReplay("late-timers=2 steps=W0,A0");
  ASSERT_TRUE(replay.ok()) << replay.status().message();
  EXPECT_EQ(BoundsOf(replay->setup).late_timers, 2u);
  EXPECT_EQ(Line(replay->setup), Line({.faults = {.late_timers = 2}}));
}

TEST(SetupTest, SendWindowsMayChange) {
  EXPECT_FALSE(Built({}).changes_windows);
  EXPECT_TRUE(Built({.send_windows = "changing"}).changes_windows);
  for (const char* windows : {"", "Fixed", "2"})
    EXPECT_EQ(ErrorOf({.send_windows = windows}),
              std::string("send-windows: '") + windows + "' is neither fixed nor changing");
}

TEST(SetupTest, CallsTravelInBuffersOfTheirOwnOrInBounceBuffers) {
  EXPECT_FALSE(Built({}).bounces);
  EXPECT_FALSE(Built({.buffers = "separate"}).bounces);
  EXPECT_TRUE(Built({.buffers = "bounce"}).bounces);
  for (const char* buffers : {"", "Bounce", "both"})
    EXPECT_EQ(ErrorOf({.buffers = buffers}),
              std::string("buffers: '") + buffers + "' is neither separate nor bounce");
}

TEST(SetupTest, InvariantsAreLeftOutByName) {
  EXPECT_TRUE(Built({}).without.none());
  InvariantSet two;
  two.set(static_cast<size_t>(Invariant::kSlots)).set(static_cast<size_t>(Invariant::kCanEnd));
  EXPECT_EQ(Built({.without = "slots,can-end"}).without, two);
  for (const InvariantInfo& info : kInvariants)
    EXPECT_TRUE(Built({.without = std::string(info.name)}).without[static_cast<size_t>(info.invariant)]);
  for (const char* name : {"slot", "Slots", "slots "})
    EXPECT_THAT(ErrorOf({.without = std::string("core,") + name}),
                AllOf(StartsWith(std::string("without: '") + name + "' is none of result, "),
                      HasSubstr(", fair-end")));
}

TEST(SetupTest, ALineIsWhatItCameFrom) {
  for (const uint64_t seed : Seeds(300)) {
    sim::Choices choices(seed);
    auto setup = RandomSetup(choices);
    setup.faults.reuse_qpns = choices.Below(2) == 0;
    if (choices.Below(2) == 0) setup.without = "place,core";
    SCOPED_TRACE(ReplayOf(seed, setup));
    std::vector<Action> steps;
    for (uint64_t left = choices.Below(20); left > 0; --left) {
      const ActionInfo& info = kActions[choices.Below(kActions.size())];
      const bool named = info.happens_to != HappensTo::kAll;
      const bool placed = info.happens_to == HappensTo::kChannel;
      steps.push_back({info.kind, static_cast<uint8_t>(named ? choices.Below(256) : 0),
                       static_cast<uint8_t>(placed ? choices.Below(256) : 0)});
    }
    const std::string line = Line(setup) + " steps=" + StepNames(steps);
    const auto replay = ParseReplay(line);
    ASSERT_TRUE(replay.ok()) << replay.status().message();
    EXPECT_EQ(Line(replay->setup), Line(setup));
    EXPECT_EQ(replay->steps, steps);
    EXPECT_TRUE(Build(replay->setup).ok());
  }
}

TEST(SetupTest, WhatALineLeavesOutIsAsByDefault) {
  const auto replay = ParseReplay("losses=3 mode=3");
  ASSERT_TRUE(replay.ok());
  EXPECT_EQ(Line(replay->setup), Line({.mode = "3", .faults = {.losses = 3}}));
  EXPECT_TRUE(replay->steps.empty());
}

TEST(SetupTest, StepsHaveNames) {
  EXPECT_EQ(StepNames({{ActionKind::kStart, 3},
                       {ActionKind::kDeliver, 6},
                       {ActionKind::kLose, 2},
                       {ActionKind::kDuplicate, 1},
                       {ActionKind::kSwap, 0},
                       {ActionKind::kTime, 0},
                       {ActionKind::kCrash, 0},
                       {ActionKind::kFail, 4},
                       {ActionKind::kRegroup, 0},
                       {ActionKind::kTimeout, 5},
                       {ActionKind::kLate, 1},
                       {ActionKind::kRun, 1},
                       {ActionKind::kEvict, 0, 1},
                       {ActionKind::kDeliver, 6, 2}}),
            "S3,D6,L2,R1,X0,T,C0,M4,G,E5,W1,A1,V0:1,D6:2");
}

TEST(SetupTest, ABadReplayLineSaysWhichWord) {
  for (const char* word : {"colour=3", "messages", "losses=x", "losses=", "losses=-1", "psn=0xg", "reuse=2",
                           "=", "windows=99999999999", "losses=+1", "losses=1=1", "losses=0x", "=1"})
    EXPECT_EQ(LineError(std::string("mode=2 ") + word),
              std::string("'") + word + "' is not part of a replay line");
  for (const char* step : {"Q1", "D", "D256", "Dx", "3", "d1", "C", "T1", "D1:", "D1:256", "S3:1", "D:1"})
    EXPECT_THAT(LineError(std::string("steps=S3,") + step),
                StartsWith("'" + std::string(step) + "' is not a step"));
  EXPECT_THAT(LineError("steps=S3,,D1"), HasSubstr("'' is not a step"));
}

}  // namespace
}  // namespace epic::check
