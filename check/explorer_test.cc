// The search: it sees everything, whichever way it goes, and says what is wrong where something is.
#include "check/explorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "check/explored_testing.h"
#include "check/replay.h"
#include "check/seen.h"

namespace epic::check {
namespace {

TEST(ExplorerTest, KnownCounts) {
  const Known known[] = {
      {{.mode = "2", .topology = "star-2"}, 163, 18, 1},
      {{.mode = "3", .topology = "star-2"}, 222, 18, 1},
      {{.mode = "1", .topology = "star-2"}, 222, 18, 1},
      {{.mode = "3", .collective = "barrier", .topology = "star-3"}, 120, 15, 1},
      {{.mode = "2", .collective = "reduce", .topology = "star-2", .faults = {.losses = 1}}, 411, 24, 8},
      {{.mode = "3", .collective = "broadcast", .topology = "star-2", .faults = {.duplicates = 1}},
       439,
       17,
       3},
      {{.mode = "2", .collective = "barrier", .topology = "star-2", .late_calls = "3"}, 267, 16, 2},
      {{.mode = "2", .collective = "barrier*2", .calls = "after-results", .topology = "star-2"}, 110, 20, 1},
      {{.mode = "2", .collective = "barrier*2", .calls = "apart", .topology = "star-2"}, 420, 20, 1},
      {{.mode = "2", .collective = "reduce", .topology = "star-2", .reorder = "any"}, 141, 16, 2},
  };
  ExpectKnown(known);
}

TEST(ExplorerTest, OtherElementsChangeNothingButBytes) {
  for (const Mode each : ModesOfOwnMemory()) {
    for (const char* collective : {"allreduce", "reduce+", "broadcast"}) {
      struct Setup setup {
        .mode = std::to_string(NumberOf(each)), .collective = collective, .topology = "star-3",
        .message_packets = 2
      };
      const Report sums = Explored(setup);
      ASSERT_EQ(sums.verdict, Verdict::kRight) << Text(sums.breach);
      for (const char* type : {"int64", "uint8", "int16"}) {
        for (const char* op : {"sum", "product", "bxor"}) {
          setup.type = type;
          setup.op = op;
          SCOPED_TRACE(Line(setup));
          const Report report = Explored(setup);
          EXPECT_EQ(report.verdict, Verdict::kRight) << Text(report.breach);
          EXPECT_EQ(report.progress.states, sums.progress.states);
        }
      }
    }
  }
}

// By mode, collective, topology and faults.
std::vector<Setup> Various() {
  const FaultBounds loss{.losses = 1};
  const FaultBounds duplicate{.duplicates = 1};
  const FaultBounds reordering{.reorderings = 1};
  const FaultBounds timeout{.timeouts = 1};
  const FaultBounds crash{.crashes = 1};
  return {
      {.mode = "1", .topology = "star-3", .faults = loss},
      {.mode = "1", .collective = "broadcast", .topology = "star-3", .faults = duplicate},
      {.mode = "1", .collective = "reducescatter", .topology = "star-2", .faults = timeout},
      {.mode = "2", .topology = "star-3", .faults = loss},
      {.mode = "2", .topology = "tree-3-2"},
      {.mode = "2", .collective = "reduce@1", .topology = "star-3", .faults = duplicate},
      {.mode = "2", .collective = "broadcast", .topology = "star-2", .faults = reordering},
      {.mode = "2", .collective = "barrier", .topology = "star-3", .faults = loss},
      {.mode = "2", .collective = "allreduce", .topology = "star-2", .faults = timeout},
      {.mode = "2", .collective = "broadcast,reduce@1", .topology = "star-2", .faults = loss},
      {.mode = "3", .topology = "star-3", .faults = loss},
      {.mode = "3", .collective = "reduce", .topology = "tree-3-2"},
      {.mode = "3", .collective = "barrier", .topology = "star-3", .faults = loss},
      {.mode = "3", .collective = "allgather", .topology = "star-2", .faults = duplicate},
      {.mode = "3", .topology = "star-2", .faults = crash},
      {.mode = "2", .collective = "barrier", .topology = "star-2", .faults = {.losses = 1, .regroups = 1}},
      {.mode = "3", .collective = "reduce", .topology = "star-2", .faults = reordering},
      {.mode = "133", .collective = "barrier", .topology = "tree-3-2"},
      {.mode = "1", .collective = "barrier,reduce", .calls = "apart", .topology = "star-2", .faults = loss},
      {.mode = "2", .collective = "reduce,allreduce", .calls = "after-results", .topology = "star-2"},
      {.mode = "3",
       .collective = "broadcast*2",
       .calls = "after-results",
       .topology = "star-2",
       .faults = loss},
      {.mode = "2", .topology = "star-2", .late_calls = "any"},
      {.mode = "2", .collective = "broadcast@1", .topology = "star-3", .faults = loss, .late_calls = "2"},
      {.mode = "3", .topology = "star-2", .faults = loss, .late_calls = "any"},
      {.mode = "2",
       .collective = "barrier,reduce",
       .calls = "apart",
       .topology = "star-2",
       .late_calls = "2"},
      {.mode = "3",
       .collective = "barrier*2",
       .calls = "after-results",
       .topology = "star-2",
       .faults = timeout,
       .late_calls = "2"},
      {.mode = "2", .collective = "broadcast", .topology = "star-2", .reorder = "any"},
      {.mode = "3", .collective = "barrier", .topology = "star-2", .faults = loss, .reorder = "any"},
      {.mode = "2", .topology = "star-2", .buffers = "bounce", .faults = {.losses = 1, .timeouts = 1}},
      {.mode = "3", .topology = "star-3", .buffers = "bounce", .faults = loss},
      {.mode = "2", .topology = "star-2", .messages = 2, .send_windows = "changing", .faults = loss},
      {.mode = "1", .topology = "star-2", .faults = {.losses = 1, .late_timers = 1}},
      {.mode = "2", .topology = "star-2", .faults = {.losses = 1, .late_timers = 2}},
      {.mode = "3",
       .collective = "broadcast",
       .topology = "star-3",
       .faults = {.losses = 1, .late_timers = 1}},
      {.mode = "2",
       .collective = "barrier*2",
       .calls = "after-results",
       .topology = "star-2",
       .faults = {.timeouts = 1, .late_timers = 1},
       .late_calls = "1"},
  };
}

TEST(ExplorerTest, ReductionsLeaveVerdictAndFinalStatesAsTheyAre) {
  uint64_t all = 0;
  uint64_t reduced = 0;
  for (const auto& setup : Various()) {
    SCOPED_TRACE(Line(setup));
    Model model = ModelOf(setup);
    const Report whole = Explore(model, {.reduced = false, .symmetric = false});
    EXPECT_EQ(whole.verdict, Verdict::kRight) << Text(whole.breach);
    EXPECT_FALSE(whole.final_states.empty());
    for (const auto& [fewer, symmetric] : {std::pair{true, false}, {false, true}, {true, true}}) {
      const Report report = Explore(model, {.reduced = fewer, .symmetric = symmetric});
      EXPECT_EQ(report.verdict, whole.verdict);
      EXPECT_EQ(report.final_states, whole.final_states);
      EXPECT_LE(report.progress.states, whole.progress.states);
      if (fewer && symmetric) reduced += report.progress.states;
    }
    all += whole.progress.states;
  }
  EXPECT_LT(4 * reduced, all);
}

TEST(ExplorerTest, DepthFirstSeesWhatBreadthFirstSees) {
  for (const auto& setup : Various()) {
    SCOPED_TRACE(Line(setup));
    Model model = ModelOf(setup);
    // With both reductions the numbers may differ: which host goes first depends on which of the states that
    // are alike came first.
    for (const auto& [reduced, symmetric] : {std::pair{true, true}, {true, false}, {false, true}}) {
      const Report breadth = Explore(model, {.reduced = reduced, .symmetric = symmetric});
      const Report depth = Explore(model, {.reduced = reduced, .symmetric = symmetric, .depth_first = true});
      EXPECT_EQ(depth.verdict, Verdict::kRight) << Text(depth.breach);
      EXPECT_EQ(depth.final_states, breadth.final_states);
      if (reduced && symmetric) continue;
      EXPECT_EQ(depth.progress.states, breadth.progress.states);
      EXPECT_EQ(depth.progress.transitions, breadth.progress.transitions);
    }
  }
}

// Groups that follow each other at once under the same QPNs take each other's packets.
Setup Reused() {
  return {.topology = "star-2", .faults = {.duplicates = 1, .regroups = 1, .reuse_qpns = true}};
}

TEST(ExplorerTest, ReuseOfQpnsIsFoundAndItsPathReplays) {
  for (const bool reduced : {true, false}) {
    for (const bool depth_first : {true, false}) {
      Model model = ModelOf(Reused());
      const Report report = Explore(model, {.reduced = reduced, .depth_first = depth_first});
      ASSERT_EQ(report.verdict, Verdict::kViolated);
      EXPECT_TRUE(report.breach);
      // In other tables as well.
      Model other = ModelOf(Reused());
      const Told told = check::Run(other, report.path);
      EXPECT_EQ(told.breach, report.breach);
      EXPECT_EQ(told.possible, report.path.size());
    }
  }
  auto apart = Reused();
  apart.faults.reuse_qpns = false;
  EXPECT_EQ(Explored(apart).verdict, Verdict::kRight);
}

// One after the other is left out, until nothing is found.
TEST(ExplorerTest, NothingIsFoundByAnInvariantThatIsLeftOut) {
  auto setup = Reused();
  std::set<Invariant> found;
  for (;;) {
    SCOPED_TRACE(Line(setup));
    const Report report = Explored(setup);
    if (report.verdict == Verdict::kRight) break;
    ASSERT_TRUE(report.breach);
    const Invariant broken = report.breach->invariant;
    ASSERT_TRUE(found.insert(broken).second) << Name(broken);
    Model model = ModelOf(setup);
    if (report.verdict == Verdict::kViolated) {
      EXPECT_EQ(check::Run(model, report.path).breach, report.breach);
    }
    setup.without += (found.size() > 1 ? "," : "") + std::string(Name(broken));
  }
  EXPECT_THAT(found, testing::ElementsAre(Invariant::kEndToEnd, Invariant::kCore));
}

// What is right is explored the same.
TEST(ExplorerTest, LeavingInvariantsOutLeavesNoStateOut) {
  std::string all;
  for (const InvariantInfo& info : kInvariants) all += (all.empty() ? "" : ",") + std::string(info.name);
  for (auto setup : Various()) {
    SCOPED_TRACE(Line(setup));
    const Report judged = Explored(setup);
    setup.without = all;
    const Report report = Explored(setup);
    EXPECT_EQ(report.verdict, Verdict::kRight);
    EXPECT_EQ(report.final_states, judged.final_states);
    EXPECT_EQ(report.progress.transitions, judged.progress.transitions);
  }
}

// By chance, so not straight there.
std::vector<Action> WalkToViolation(Model& model) {
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    sim::Choices choices(seed);
    std::vector<Word> state = model.Initial();
    std::vector<Action> path;
    std::vector<Action> actions;
    for (model.Enabled(state, false, &actions); !actions.empty(); model.Enabled(state, false, &actions)) {
      Action action = actions[choices.Below(actions.size())];
      // Faults seldom, or there are none left when they would matter.
      while (IsFault(action.kind) && choices.Below(16) != 0) action = actions[choices.Below(actions.size())];
      path.push_back(action);
      if (model.Apply(state, path.back()) != nullptr) return path;
    }
  }
  return {};
}

TEST(ExplorerTest, AMinimisedPathIsShorterAndStillBreaksTheInvariant) {
  Model model = ModelOf(Reused());
  const std::vector<Action> path = WalkToViolation(model);
  ASSERT_FALSE(path.empty());
  const std::vector<Action> least = Minimise(model, path);
  EXPECT_LT(least.size(), path.size());
  const Told told = check::Run(model, least);
  EXPECT_TRUE(told.breach);
  EXPECT_EQ(told.possible, least.size());
  EXPECT_EQ(told.steps.size(), least.size());
  // Without any of its steps nothing is wrong; but there may be one without which another invariant breaks.
  int others = 0;
  for (size_t i = 0; i < least.size(); ++i) {
    std::vector<Action> without = least;
    without.erase(without.begin() + static_cast<ptrdiff_t>(i));
    const auto breach = check::Run(model, without).breach;
    if (!breach) continue;
    EXPECT_NE(breach->invariant, told.breach->invariant) << "step " << i << " is not needed";
    ++others;
  }
  EXPECT_LE(others, 1);
}

// No path is shorter than that of the search by breadth, without reductions.
TEST(ExplorerTest, BreadthFirstFindsAShortestPath) {
  Model model = ModelOf(Reused());
  const Report breadth = Explore(model, {.reduced = false, .symmetric = false});
  const Report depth = Explore(model, {.reduced = false, .symmetric = false, .depth_first = true});
  ASSERT_EQ(breadth.verdict, Verdict::kViolated);
  EXPECT_LE(breadth.path.size(), Minimise(model, depth.path).size());
  EXPECT_EQ(breadth.path.size(), Minimise(model, breadth.path).size());
}

// Of some 100,000 states.
Setup Large() { return {.topology = "tree-3-2", .faults = {.losses = 2}}; }

TEST(ExplorerTest, LimitsEndIt) {
  const Report states = Explored(Large(), {.symmetric = false, .limits = {.states = 1000}});
  EXPECT_EQ(states.verdict, Verdict::kUnbounded);
  EXPECT_GE(states.progress.states, 1000u);
  const Report bytes = Explored(Large(), {.symmetric = false, .limits = {.bytes = 1000}});
  EXPECT_EQ(bytes.verdict, Verdict::kUnbounded);
  EXPECT_TRUE(states.path.empty());
}

TEST(ExplorerTest, TheCallerStopsIt) {
  int asked = 0;
  const auto stop = [&asked](const Progress& progress) {
    ++asked;
    EXPECT_GT(progress.states, 0u);
    EXPECT_GT(progress.bytes, progress.states * 12);
    return false;
  };
  EXPECT_EQ(Explored(Large(), {.symmetric = false, .on_progress = stop}).verdict, Verdict::kStopped);
  EXPECT_EQ(asked, 1);
}

TEST(ExplorerTest, AReplayStopsWhereAStepCannotBe) {
  Model model = ModelOf({.topology = "star-2"});
  const Told told =
      check::Run(model, {{ActionKind::kStart, 1}, {ActionKind::kDeliver, 0}, {ActionKind::kDeliver, 1}});
  EXPECT_EQ(told.possible, 2u);
  EXPECT_EQ(told.steps.size(), 2u);
  EXPECT_FALSE(told.breach);
  EXPECT_FALSE(told.done);
}

// With symmetries a fingerprint is the least of several hashes, which are the same more often.
TEST(ExplorerTest, TheOmissionBoundIsThatOfPairsOfLeastHashes) {
  const check::Setup setup{.topology = "tree-3-2"};
  const size_t symmetries = ModelOf(setup).symmetries();
  ASSERT_EQ(symmetries, 8u);
  for (const bool symmetric : {true, false}) {
    const Report report = Explored(setup, {.symmetric = symmetric});
    const double pairs = OmissionBound(report.progress.states, symmetric ? symmetries : 1);
    EXPECT_GE(report.omission_bound, pairs);
    // The fair runs' states are few beside those.
    EXPECT_LT(report.omission_bound, 1.1 * pairs);
  }
}

}  // namespace
}  // namespace epic::check
