// The transition system: what is possible in which state, and what each step does.
#include "check/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "check/replay.h"
#include "check/setups_testing.h"

namespace epic::check {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using State = std::vector<Word>;

std::vector<Action> EnabledIn(const Model& model, const State& state) {
  std::vector<Action> actions;
  model.Enabled(state, /*reduced=*/false, &actions);
  return actions;
}

bool Possible(const Model& model, const State& state, Action action) {
  return std::ranges::count(EnabledIn(model, state), action) != 0;
}

State After(Model& model, State state, const std::vector<Action>& steps) {
  for (const Action step : steps) {
    EXPECT_TRUE(Possible(model, state, step)) << StepNames({step});
    EXPECT_EQ(model.Apply(state, step), nullptr);
  }
  return state;
}

// Without faults, by chance, until no step is left but those of a kind that is not wanted.
State Played(Model& model, State state, uint64_t seed, ActionKind without = ActionKind::kRegroup) {
  sim::Choices choices(seed);
  for (int steps = 0; steps < 10'000; ++steps) {
    std::vector<Action> actions = EnabledIn(model, state);
    std::erase_if(actions, [&](Action a) { return IsFault(a.kind) || a.kind == without; });
    if (actions.empty()) return state;
    EXPECT_EQ(model.Apply(state, actions[choices.Below(actions.size())]), nullptr);
  }
  ADD_FAILURE() << "no end";
  return state;
}

constexpr Action Start(uint8_t node) { return {ActionKind::kStart, node}; }
constexpr Action Deliver(uint8_t channel) { return {ActionKind::kDeliver, channel}; }
constexpr Action kTimePasses{ActionKind::kTime, 0};

// star-2: node 0 is the switch, 1 and 2 are the hosts; channels 0 and 2 go up, 1 and 3 down.
TEST(ModelTest, AtFirstHostsMayCallAndNothingElseHappens) {
  Model model = ModelOf({.topology = "star-2"});
  const State& initial = model.Initial();
  EXPECT_THAT(EnabledIn(model, initial), ElementsAre(Start(1), Start(2)));
  EXPECT_TRUE(model.Quiet(initial));
  EXPECT_FALSE(model.Ended(initial));
  EXPECT_FALSE(model.Done(initial));
  EXPECT_FALSE(model.Broken(initial));
}

TEST(ModelTest, WhatAHostSendsIsUnderWayUpItsEdge) {
  Model model = ModelOf({.topology = "star-2"});
  const State called = After(model, model.Initial(), {Start(1)});
  EXPECT_FALSE(model.Quiet(called));
  // Until the other has called as well, no time passes.
  EXPECT_THAT(EnabledIn(model, called), ElementsAre(Deliver(0), Start(2)));
  EXPECT_EQ(model.Describe(called, Deliver(0)),
            "deliver host0 -> root: packet 0, index 0, control, asks for an ack");
  EXPECT_EQ(model.Describe(called, Start(2)), "host1 makes its calls");
}

TEST(ModelTest, AChannelIsAQueue) {
  Model model = ModelOf({.topology = "star-2", .messages = 2});
  State state = After(model, model.Initial(), {Start(1)});
  EXPECT_THAT(model.Describe(state, Deliver(0)), HasSubstr(": packet 0,"));
  state = After(model, state, {Deliver(0)});
  EXPECT_THAT(model.Describe(state, Deliver(0)), HasSubstr(": packet 1,"));
}

TEST(ModelTest, ALostPacketIsGone) {
  Model model = ModelOf({.topology = "star-2", .faults = {.losses = 1}});
  State state = After(model, model.Initial(), {Start(1)});
  const State before = state;
  state = After(model, state, {{ActionKind::kLose, 0}});
  EXPECT_THAT(model.Describe(before, {ActionKind::kLose, 0}), HasSubstr("lose host0 -> root: packet 0"));
  EXPECT_THAT(model.Describe(state, Deliver(0)), HasSubstr(": packet 1,"));
  EXPECT_TRUE(std::equal(state.begin(), state.begin() + 3, before.begin())) << "no node has taken it";
  EXPECT_FALSE(Possible(model, state, {ActionKind::kLose, 0})) << "one was the bound";
}

TEST(ModelTest, ARepeatedPacketComesTwice) {
  Model model = ModelOf({.topology = "star-2", .faults = {.duplicates = 1}});
  State state = After(model, model.Initial(), {Start(1), {ActionKind::kDuplicate, 0}});
  EXPECT_FALSE(Possible(model, state, {ActionKind::kDuplicate, 0}));
  for (const char* packet : {": packet 0,", ": packet 0,", ": packet 1,"}) {
    EXPECT_THAT(model.Describe(state, Deliver(0)), HasSubstr(packet));
    state = After(model, state, {Deliver(0)});
  }
}

TEST(ModelTest, SwappedPacketsOvertake) {
  Model model = ModelOf({.topology = "star-2", .faults = {.reorderings = 1}});
  State state = After(model, model.Initial(), {Start(1), {ActionKind::kSwap, 0}});
  EXPECT_FALSE(Possible(model, state, {ActionKind::kSwap, 0}));
  for (const char* packet : {": packet 1,", ": packet 0,"}) {
    EXPECT_THAT(model.Describe(state, Deliver(0)), HasSubstr(packet));
    state = After(model, state, {Deliver(0)});
  }
}

// With one packet there is nothing to swap.
TEST(ModelTest, ASwapTakesTwo) {
  Model model = ModelOf({.collective = "barrier", .topology = "star-2", .faults = {.reorderings = 1}});
  const State state = After(model, model.Initial(), {Start(1)});
  EXPECT_TRUE(Possible(model, state, Deliver(0)));
  EXPECT_FALSE(Possible(model, state, {ActionKind::kSwap, 0}));
}

// Three packets of a message are under way: the last may come first, and any may be lost.
TEST(ModelTest, WithoutOrderAnyPacketMayComeNext) {
  Model model =
      ModelOf({.topology = "star-2", .message_packets = 2, .faults = {.losses = 1}, .reorder = "any"});
  const State called = After(model, model.Initial(), {Start(1)});
  constexpr Action kThird{ActionKind::kDeliver, 0, 2};
  EXPECT_THAT(
      EnabledIn(model, called),
      ElementsAre(Deliver(0), Action{ActionKind::kLose, 0}, Action{ActionKind::kDeliver, 0, 1},
                  Action{ActionKind::kLose, 0, 1}, kThird, Action{ActionKind::kLose, 0, 2}, Start(2)));
  EXPECT_THAT(model.Describe(called, kThird), HasSubstr("deliver host0 -> root: packet 2,"));
  const State state = After(model, called, {kThird, Action{ActionKind::kLose, 0}});
  EXPECT_THAT(model.Describe(state, Deliver(0)), HasSubstr(": packet 1,"));
  EXPECT_FALSE(Possible(model, state, {ActionKind::kDeliver, 0, 1}));
}

// What was sent first is not told: the same packets are the same content.
TEST(ModelTest, WithoutOrderAChannelIsASet) {
  Model model = ModelOf({.topology = "star-2", .faults = {.duplicates = 1}, .reorder = "any"});
  const State state = After(model, model.Initial(), {Start(1), {ActionKind::kDuplicate, 0, 1}});
  for (const char* packet : {": packet 0,", ": packet 1,"}) {
    const auto place = static_cast<uint8_t>(packet[9] - '0');
    EXPECT_THAT(model.Describe(state, {ActionKind::kDeliver, 0, place}), HasSubstr(packet));
  }
  EXPECT_FALSE(Possible(model, state, {ActionKind::kDeliver, 0, 2})) << "the copy is as good as the packet";
}

TEST(ModelTest, CallsAreMadeTogetherApartOrAfterResults) {
  const check::Setup three{.collective = "barrier*2", .topology = "star-2"};
  for (const auto& [calls, again] :
       {std::pair{"together", false}, {"apart", true}, {"after-results", false}}) {
    check::Setup setup = three;
    setup.calls = calls;
    Model model = ModelOf(setup);
    const State state = After(model, model.Initial(), {Start(1)});
    EXPECT_EQ(Possible(model, state, Start(1)), again) << calls;
  }
  check::Setup setup = three;
  setup.calls = "after-results";
  Model model = ModelOf(setup);
  // The first calls end; then, and not before, the second can be made.
  const State ended =
      Played(model, After(model, model.Initial(), {Start(1), Start(2)}), 1, ActionKind::kStart);
  EXPECT_FALSE(model.Ended(ended));
  EXPECT_EQ(model.Describe(ended, Start(1)), "host0 makes call 1");
  EXPECT_EQ(model.Standing(ended),
            "host0 before call 1, 1 acknowledged and 1 received; host1 before call 1, 1 acknowledged and 1 "
            "received");
  EXPECT_THAT(EnabledIn(model, ended), ElementsAre(Start(1), Start(2)));
  EXPECT_TRUE(model.Done(Played(model, ended, 1)));
}

// The other host has called and waits: its timer and the switch's run out before the call, so often and no
// more.
TEST(ModelTest, TimePassesBeforeALateCallAsOftenAsItMay) {
  Model model = ModelOf({.topology = "star-2", .late_calls = "2"});
  State state = Played(model, After(model, model.Initial(), {Start(1)}), 1, ActionKind::kStart);
  int passes = 0;
  for (; Possible(model, state, kTimePasses); ++passes) {
    state = After(model, state, {kTimePasses});
    while (Possible(model, state, Deliver(0)) || Possible(model, state, Deliver(1)))
      state = After(model, state, {Possible(model, state, Deliver(0)) ? Deliver(0) : Deliver(1)});
  }
  EXPECT_LE(passes, 2);
  EXPECT_TRUE(Possible(model, state, Start(2)));
  const State end = Played(model, state, 1);
  EXPECT_TRUE(model.Done(end));
}

TEST(ModelTest, EarlyTimeoutsAreCounted) {
  Model model = ModelOf({.topology = "star-2", .faults = {.timeouts = 2}});
  constexpr Action kTimeout{ActionKind::kTimeout, 1};
  State state = After(model, model.Initial(), {Start(1), kTimeout, kTimeout});
  EXPECT_FALSE(Possible(model, state, kTimeout));
  EXPECT_EQ(model.Describe(state, kTimeout), "host0: timer, early");
}

// Both hosts' first packets are lost, so that their timers are due at one time.
TEST(ModelTest, ALateTimerRunsAfterOthersAndAfterPackets) {
  Model model = ModelOf({.topology = "star-2", .faults = {.losses = 4, .late_timers = 2}});
  constexpr Action kLose0{ActionKind::kLose, 0};
  constexpr Action kLose2{ActionKind::kLose, 2};
  constexpr Action kLate{ActionKind::kLate, 2};
  constexpr Action kRuns{ActionKind::kRun, 2};
  const State quiet = After(model, model.Initial(), {Start(1), Start(2), kLose0, kLose0, kLose2, kLose2});
  EXPECT_THAT(EnabledIn(model, quiet), ElementsAre(kTimePasses, Action{ActionKind::kLate, 1}, kLate));
  EXPECT_EQ(model.Describe(quiet, kLate), "time passes until the next timer, and that of host1 is late");
  // The other's has run: its packets are under way, and either they or the late timer may be next.
  const State late = After(model, quiet, {kLate});
  EXPECT_THAT(EnabledIn(model, late), ElementsAre(Deliver(0), kRuns));
  EXPECT_EQ(model.Describe(late, kRuns), "host1: timer, late");
  const State ran = After(model, late, {kRuns});
  EXPECT_FALSE(Possible(model, ran, kRuns));
  EXPECT_TRUE(Possible(model, ran, Deliver(2))) << "it sends again";
  const State together = After(model, quiet, {kTimePasses});
  EXPECT_TRUE(std::equal(ran.begin(), ran.begin() + 7, together.begin())) << "nothing has come between";
}

// The switch waits for what a host has lost, and its timer is late, also when the hosts' are due.
TEST(ModelTest, TimePassesWhileATimerIsLateAsOftenAsItMay) {
  Model model = ModelOf({.topology = "star-2", .faults = {.losses = 4, .late_timers = 3}});
  constexpr Action kLose2{ActionKind::kLose, 2};
  constexpr Action kSwitchLate{ActionKind::kLate, 0};
  State state = After(model, model.Initial(), {Start(1), Start(2), kLose2, kLose2});
  while (!model.Quiet(state))
    state = After(model, state, {Possible(model, state, Deliver(0)) ? Deliver(0) : Deliver(1)});
  EXPECT_THAT(EnabledIn(model, state), ElementsAre(kTimePasses, kSwitchLate));
  state = After(model, state, {kSwitchLate});
  // Time passes on, to the timer of host1; or the switch's runs.
  EXPECT_THAT(EnabledIn(model, state), IsSupersetOf({kTimePasses, kSwitchLate, Action{ActionKind::kRun, 0}}));
  const State others = After(model, state, {kSwitchLate});
  EXPECT_TRUE(Possible(model, others, {ActionKind::kRun, 0})) << "it is late still";
  const State ran = After(model, state, {{ActionKind::kRun, 0}});
  EXPECT_FALSE(Possible(model, ran, {ActionKind::kRun, 0}));
  EXPECT_TRUE(Possible(model, ran, Deliver(3))) << "the prompt";
  EXPECT_TRUE(model.Done(Played(model, others, 1)));
}

TEST(ModelTest, WithoutLateTimersNoneIs) {
  for (const Mode each : ModesOfOwnMemory()) {
    const std::string mode = std::to_string(NumberOf(each));
    Model model = ModelOf({.mode = mode, .topology = "star-2", .faults = {.losses = 1, .timeouts = 1}});
    for (const uint64_t seed : Seeds(20)) {
      sim::Choices choices(seed);
      State state = model.Initial();
      for (auto actions = EnabledIn(model, state); !actions.empty(); actions = EnabledIn(model, state)) {
        for (const Action action : actions) {
          ASSERT_NE(action.kind, ActionKind::kLate);
          ASSERT_NE(action.kind, ActionKind::kRun);
        }
        ASSERT_EQ(model.Apply(state, actions[choices.Below(actions.size())]), nullptr);
      }
    }
  }
}

// Bounds of several kinds do not mix.
TEST(ModelTest, NoWalkHasMoreFaultsThanItsBounds) {
  int most = 0;
  for (const uint64_t seed : Seeds(100)) {
    sim::Choices choices(seed);
    auto setup = RandomSetup(choices);
    SCOPED_TRACE(ReplayOf(seed, setup));
    Model model = ModelOf(setup);
    const FaultBounds& f = setup.faults;
    const std::map<ActionKind, uint32_t> bounds = {
        {ActionKind::kLose, f.losses},      {ActionKind::kDuplicate, f.duplicates},
        {ActionKind::kSwap, f.reorderings}, {ActionKind::kTimeout, f.timeouts},
        {ActionKind::kCrash, f.crashes},    {ActionKind::kRegroup, f.regroups},
        {ActionKind::kLate, f.late_timers}};
    std::map<ActionKind, uint32_t> count;
    State state = model.Initial();
    for (int steps = 0; steps < 300; ++steps) {
      const auto actions = EnabledIn(model, state);
      if (actions.empty()) break;
      const Action action = actions[choices.Below(actions.size())];
      ++count[action.kind];
      ASSERT_EQ(model.Apply(state, action), nullptr);
    }
    int at_bound = 0;
    for (const auto& [kind, bound] : bounds) {
      EXPECT_LE(count[kind], bound) << StepNames({{kind, 0}});
      at_bound += bound > 0 && count[kind] == bound ? 1 : 0;
    }
    most = std::max(most, at_bound);
  }
  EXPECT_GE(most, 3) << "walks that reach several of their bounds";
}

TEST(ModelTest, WithoutFaultsCallsEnd) {
  for (const uint64_t seed : Seeds(60)) {
    sim::Choices choices(seed);
    auto setup = RandomSetup(choices);
    setup.faults = {};
    SCOPED_TRACE(ReplayOf(seed, setup));
    Model model = ModelOf(setup);
    const State end = Played(model, model.Initial(), seed);
    EXPECT_TRUE(model.Ended(end));
    EXPECT_TRUE(model.Done(end));
    EXPECT_TRUE(model.Quiet(end));
  }
}

// All clocks go alike: what one has to wait for longer comes later by as much.
TEST(ModelTest, TimePassesWhenAllIsQuietUntilTheFirstTimer) {
  Model model = ModelOf({.topology = "star-2", .faults = {.losses = 4}});
  const State called = After(model, model.Initial(), {Start(1), Start(2)});
  EXPECT_FALSE(Possible(model, called, kTimePasses));
  // A call is a control packet and a data packet.
  constexpr Action kLose0{ActionKind::kLose, 0};
  constexpr Action kLose2{ActionKind::kLose, 2};
  const State quiet = After(model, called, {kLose0, kLose0, kLose2, kLose2});
  EXPECT_TRUE(model.Quiet(quiet));
  EXPECT_THAT(EnabledIn(model, quiet), ElementsAre(kTimePasses));
  EXPECT_EQ(model.Describe(quiet, kTimePasses), "time passes until the next timer");
  // Both hosts have called at one time, so both send again.
  const State again = After(model, quiet, {kTimePasses});
  EXPECT_THAT(EnabledIn(model, again), ElementsAre(Deliver(0), Deliver(2)));
  EXPECT_TRUE(model.Done(Played(model, quiet, 1)));
}

TEST(ModelTest, ACrashIsFollowedByTheControlPlanesEndOfTheGroup) {
  Model model = ModelOf({.topology = "star-2", .faults = {.crashes = 1}});
  constexpr Action kCrash{ActionKind::kCrash, 0};
  State state = After(model, model.Initial(), {Start(1), Start(2), kCrash});
  EXPECT_TRUE(model.Broken(state));
  EXPECT_FALSE(Possible(model, state, kCrash));
  EXPECT_FALSE(Possible(model, state, {ActionKind::kFail, 0})) << "it has nothing to end";
  EXPECT_THAT(EnabledIn(model, state),
              IsSupersetOf({Action{ActionKind::kFail, 1}, Action{ActionKind::kFail, 2}}));
  EXPECT_EQ(model.Describe(state, kCrash), "root crashes");
  EXPECT_EQ(model.Describe(state, {ActionKind::kFail, 2}), "the control plane ends the group at host1");
  state = After(model, state, {{ActionKind::kFail, 1}, {ActionKind::kFail, 2}});
  EXPECT_TRUE(model.Done(state)) << "the calls have ended in an error";
}

// Until the calls have ended, faults included.
State Ended(Model& model, uint64_t seed) {
  State state = model.Initial();
  sim::Choices choices(seed);
  while (!model.Ended(state)) {
    const auto actions = EnabledIn(model, state);
    EXPECT_EQ(model.Apply(state, actions[choices.Below(actions.size())]), nullptr);
  }
  return state;
}

TEST(ModelTest, ANewGroupBeginsAnewWithOldPacketsUnderWay) {
  Model model = ModelOf({.topology = "star-2", .faults = {.duplicates = 1, .timeouts = 3, .regroups = 1}});
  constexpr Action kRegroup{ActionKind::kRegroup, 0};
  int old = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    State state = Ended(model, seed);
    EXPECT_FALSE(model.Done(state)) << "a new group follows";
    const State under_way(state.begin() + 3, state.begin() + 7);
    state = After(model, state, {kRegroup});
    EXPECT_THAT(State(state.begin() + 3, state.begin() + 7), testing::ElementsAreArray(under_way));
    EXPECT_THAT(State(state.begin(), state.begin() + 3), testing::Each(0u));
    EXPECT_FALSE(model.Ended(state));
    EXPECT_TRUE(Possible(model, state, Start(1)));
    for (const Action action : EnabledIn(model, state)) {
      if (action.kind != ActionKind::kDeliver) continue;
      EXPECT_THAT(model.Describe(state, action), HasSubstr("of an earlier group"));
      ++old;
    }
    const State end = Played(model, state, seed);
    EXPECT_TRUE(model.Done(end));
    EXPECT_FALSE(Possible(model, end, kRegroup));
  }
  EXPECT_GT(old, 0);
}

// The number of the state of every node and channel is the same if it is reached in another order.
TEST(ModelTest, IndependentStepsCommute) {
  Model model = ModelOf({.topology = "tree-3-2"});
  const State left = After(model, model.Initial(), {Start(3), Deliver(4), Start(5), Deliver(8)});
  const State right = After(model, model.Initial(), {Start(5), Start(3), Deliver(8), Deliver(4)});
  EXPECT_EQ(left, right);
  EXPECT_EQ(model.Fingerprint(left, false), model.Fingerprint(right, false));
}

TEST(ModelTest, SizesCountWhatIsKept) {
  Model model = ModelOf({.topology = "star-2"});
  EXPECT_EQ(model.sizes().node_states, 3u) << "the initial states";
  EXPECT_EQ(model.sizes().steps, 0u);
  After(model, model.Initial(), {Start(1)});
  EXPECT_EQ(model.sizes().steps, 1u);
  EXPECT_EQ(model.sizes().node_states, 4u);
  // Once more the same: looked up.
  After(model, model.Initial(), {Start(1)});
  EXPECT_EQ(model.sizes().steps, 1u);
}

}  // namespace
}  // namespace epic::check
