// Relabelled states are the states of relabelled runs.
#include "check/symmetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "check/replay.h"
#include "check/setups_testing.h"
#include "check/tree_modes.h"

namespace epic::check {
namespace {

std::vector<Relabelling> Of(const Setup& setup) { return Symmetries(System(Built(setup))); }

TEST(SymmetryTest, AsManyAsTheTreeHas) {
  EXPECT_EQ(Of({.topology = "star-2"}).size(), 2u);
  EXPECT_EQ(Of({.topology = "star-3"}).size(), 6u);
  EXPECT_EQ(Of({.topology = "star-5"}).size(), 120u);
  EXPECT_EQ(Of({.topology = "tree-3-2"}).size(), 8u);
  EXPECT_EQ(Of({.mode = "3", .topology = "tree-3-2"}).size(), 8u);
  EXPECT_EQ(Of({.topology = "tree-7-2"}).size(), 128u);
  EXPECT_EQ(Of({.topology = "star-6"}).size(), 1u) << "720 are too many";
}

TEST(SymmetryTest, RootsStayWhereTheyAre) {
  EXPECT_EQ(Of({.collective = "reduce", .topology = "tree-3-2"}).size(), 2u);
  EXPECT_EQ(Of({.collective = "broadcast@3", .topology = "tree-3-2"}).size(), 2u);
  EXPECT_EQ(Of({.collective = "broadcast@3,reduce@2", .topology = "tree-3-2"}).size(), 2u);
  EXPECT_EQ(Of({.collective = "broadcast@3,reduce@1", .topology = "tree-3-2"}).size(), 1u);
  EXPECT_EQ(Of({.collective = "reduce@1,allreduce", .topology = "star-3"}).size(), 2u);
  EXPECT_EQ(Of({.collective = "barrier,allreduce", .topology = "star-3"}).size(), 6u);
}

TEST(SymmetryTest, NoneWhereSomethingTellsNodesApart) {
  const Relabelling same = {0, 1, 2, 3};
  EXPECT_THAT(Of({.mode = "1", .topology = "star-3"}), testing::ElementsAre(same));
  for (const char* mode : {"133", "311", "131"}) EXPECT_EQ(Of({.mode = mode}).size(), 1u) << mode;
  EXPECT_THAT(Of({.collective = "allgather", .topology = "star-3"}), testing::ElementsAre(same));
  EXPECT_THAT(Of({.collective = "reducescatter", .topology = "star-3"}), testing::ElementsAre(same));
}

TEST(SymmetryTest, OnlyModesWhoseChildrenAreAlikeHaveAny) {
  for (const ModeInfo& row : kModesOfOwnMemory) {
    const std::string mode = std::to_string(NumberOf(row.mode));
    EXPECT_EQ(Of({.mode = mode, .topology = "star-3"}).size(), row.children_alike ? 6u : 1u) << row.numeral;
  }
}

// A mode that says nothing of its children, or whose results leave by their order: mode II but for its row.
TEST(SymmetryTest, ARelativeOfAModeHasNoneUnlessItsRowSaysSo) {
  ModeInfo relative = *FindMode(Mode::kTranslated);
  EXPECT_TRUE(ChildrenAreAlike(std::array{relative, relative}));
  relative.children_alike = false;
  EXPECT_FALSE(ChildrenAreAlike(std::array{*FindMode(Mode::kTranslated), relative}));
  EXPECT_FALSE(ChildrenAreAlike(std::array{ModeInfo{.mode = static_cast<Mode>(99)}}));
}

TEST(SymmetryTest, ARelativeOfModeTwoIsJudgedByItsAcknowledgements) {
  const ModeInfo relative = {.mode = static_cast<Mode>(99), .reliability = Reliability::kEndToEnd};
  EXPECT_TRUE(AcknowledgesEndToEnd(std::array{relative, *FindMode(Mode::kTranslated)}));
  EXPECT_FALSE(AcknowledgesEndToEnd(std::array{relative, *FindMode(Mode::kAugmented)}));
  EXPECT_FALSE(AcknowledgesEndToEnd(std::array{ModeInfo{.mode = static_cast<Mode>(99)}}));
}

// Closed, with the identity first, and every one keeps the edges.
TEST(SymmetryTest, TheyAreAGroupThatKeepsTheTree) {
  for (const char* topology : {"star-4", "tree-3-2", "uneven"}) {
    const System system(Built({.topology = topology}));
    const auto all = Symmetries(system);
    const std::set<Relabelling> set(all.begin(), all.end());
    EXPECT_EQ(set.size(), all.size());
    EXPECT_TRUE(std::ranges::is_sorted(all.front()));
    for (const Relabelling& a : all) {
      for (const Edge& edge : system.edges()) {
        const int image = a[static_cast<size_t>(edge.child)];
        EXPECT_EQ(system.edges()[static_cast<size_t>(image - 1)].parent, a[static_cast<size_t>(edge.parent)]);
      }
      for (const Relabelling& b : all) {
        Relabelling both(a.size());
        for (size_t n = 0; n < a.size(); ++n) both[n] = b[static_cast<size_t>(a[n])];
        EXPECT_TRUE(set.contains(both));
      }
    }
  }
}

Action ImageOf(const Relabelling& to, Action action) {
  const size_t object = action.object;
  switch (Info(action.kind).happens_to) {
    case HappensTo::kAll:
      return action;
    case HappensTo::kNode:
      return {action.kind, static_cast<uint8_t>(to[object])};
    case HappensTo::kChannel:
      break;
  }
  const int channel = 2 * (to[object / 2 + 1] - 1) + static_cast<int>(object % 2);
  return {action.kind, static_cast<uint8_t>(channel), action.place};
}

std::set<std::string> Names(const std::vector<Action>& actions) {
  std::set<std::string> names;
  for (const Action action : actions) names.insert(StepNames({action}));
  return names;
}

// A run, and the run in which every node's part is played by its image: at every point the second's state is
// the image of the first's, so that both have one fingerprint, and the same can happen next.
void WalkTogether(Model& model, const Relabelling& to, sim::Choices& choices, int* apart) {
  std::vector<Word> state = model.Initial();
  std::vector<Word> image = state;
  std::vector<Action> actions;
  std::vector<Action> of_image;
  for (int steps = 0; steps < 250; ++steps) {
    model.Enabled(state, /*reduced=*/false, &actions);
    model.Enabled(image, /*reduced=*/false, &of_image);
    std::vector<Action> expected;
    for (const Action action : actions) expected.push_back(ImageOf(to, action));
    ASSERT_EQ(Names(of_image), Names(expected));
    if (actions.empty()) return;
    const Action action = actions[choices.Below(actions.size())];
    ASSERT_EQ(model.Apply(state, action), nullptr);
    ASSERT_EQ(model.Apply(image, ImageOf(to, action)), nullptr);
    ASSERT_EQ(model.Fingerprint(state, true), model.Fingerprint(image, true)) << StepNames({action});
    *apart += model.Fingerprint(state, false) != model.Fingerprint(image, false) ? 1 : 0;
  }
}

TEST(SymmetryTest, TheImageOfARunIsARunOfImages) {
  int apart = 0;
  int pairs = 0;
  for (const uint64_t seed : Seeds(150)) {
    sim::Choices choices(seed);
    auto setup = RandomSetup(choices);
    SCOPED_TRACE(ReplayOf(seed, setup));
    const auto symmetries = Of(setup);
    if (symmetries.size() == 1) continue;
    Model model = ModelOf(setup);
    ASSERT_EQ(model.symmetries(), symmetries.size());
    for (int walk = 0; walk < 3 && !HasFatalFailure(); ++walk, ++pairs)
      WalkTogether(model, symmetries[1 + choices.Below(symmetries.size() - 1)], choices, &apart);
    if (HasFatalFailure()) return;
  }
  // One seed by itself need not show any.
  if (pairs > 50) {
    EXPECT_GT(apart, 1000) << "states that only the symmetry makes one";
  }
}

// Who has called first is the same; how many have called is not.
TEST(SymmetryTest, OtherStatesHaveOtherFingerprints) {
  Model model = ModelOf({.topology = "star-3"});
  const auto called = [&](std::vector<uint8_t> hosts) {
    std::vector<Word> state = model.Initial();
    for (const uint8_t host : hosts) EXPECT_EQ(model.Apply(state, {ActionKind::kStart, host}), nullptr);
    return state;
  };
  EXPECT_EQ(model.Fingerprint(called({1}), true), model.Fingerprint(called({3}), true));
  EXPECT_NE(model.Fingerprint(called({1}), false), model.Fingerprint(called({3}), false));
  EXPECT_NE(model.Fingerprint(called({1}), true), model.Fingerprint(called({1, 2}), true));
}

// Steps that the explorer made one of are not: a packet that came from one host is not one of another.
TEST(SymmetryTest, AFixedRootIsNotMixedUpWithOthers) {
  Model model = ModelOf({.collective = "reduce", .topology = "star-3"});
  const auto called = [&](uint8_t host) {
    std::vector<Word> state = model.Initial();
    EXPECT_EQ(model.Apply(state, {ActionKind::kStart, host}), nullptr);
    return model.Fingerprint(state, true);
  };
  EXPECT_EQ(called(2), called(3));
  EXPECT_NE(called(1), called(2));
}

}  // namespace
}  // namespace epic::check
