#include "sim/scenario.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

namespace epic::sim {
namespace {

TEST(ScenarioTest, ALineIsTheScenario) {
  const Scenario scenario{.seed = 18446744073709551615u,
                          .topology = "tree-7-2",
                          .mode = "mixed",
                          .name = "bursts",
                          .calls = 7,
                          .timers = "exact",
                          .types = "first",
                          .path = "network",
                          .slices = "whole",
                          .algorithm = "first",
                          .numbers = "plain"};
  const auto again = ParseReplayLine(ReplayLine(scenario));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, scenario);
  for (const char* links : {"none", "all", "switches", "hosts"}) {
    Scenario chosen = scenario;
    chosen.inline_bytes = 960;
    chosen.super_frames = links;
    EXPECT_EQ(*ParseReplayLine(ReplayLine(chosen)), chosen);
  }
}

TEST(ScenarioTest, ALineSaysWhetherWindowsChange) {
  for (const char* windows : {"fixed", "changing"}) {
    const Scenario scenario{.seed = 3,
                            .topology = "star-4",
                            .mode = "2",
                            .name = "loss",
                            .calls = 7,
                            .send_windows = windows,
                            .timers = "exact",
                            .types = "first",
                            .path = "network",
                            .slices = "whole",
                            .algorithm = "first",
                            .numbers = "plain"};
    const auto again = ParseReplayLine(ReplayLine(scenario));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, scenario);
  }
  for (const char* windows : {"", "2", "Fixed"}) {
    const std::string line =
        std::string("seed=1 topology=star-4 mode=1 scenario=loss send-windows=") + windows;
    EXPECT_FALSE(ParseReplayLine(line).ok()) << line;
  }
}

TEST(ScenarioTest, ALineSaysWhetherAcksAreShared) {
  const std::string line = "seed=1 topology=star-4 mode=1 scenario=loss calls=7 acks=";
  for (const char* acks : {"each", "shared"}) {
    const auto scenario = ParseReplayLine(line + acks);
    ASSERT_TRUE(scenario.ok()) << scenario.status();
    EXPECT_EQ(scenario->acks, acks);
    EXPECT_EQ(ReplayLine(*scenario), line + acks);
  }
  for (const char* acks : {"", "1", "Shared"}) EXPECT_FALSE(ParseReplayLine(line + acks).ok()) << acks;
}

// A line from before timers could be late means what it did.
TEST(ScenarioTest, ALineSaysWhetherTimersAreLate) {
  const std::string line = "seed=1 topology=star-4 mode=1 scenario=loss calls=7";
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto before = ParseReplayLine("topology=star-4 mode=1 scenario=loss seed=" + std::to_string(seed));
    ASSERT_TRUE(before.ok()) << before.status();
    EXPECT_EQ(before->timers, "exact");
  }
  EXPECT_EQ(ReplayLine(*ParseReplayLine(line + " timers=exact")), line);
  const auto late = ParseReplayLine(line + " timers=late");
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_EQ(late->timers, "late");
  EXPECT_EQ(ReplayLine(*late), line + " timers=late");
  for (const char* timers : {"", "1", "Late"}) EXPECT_FALSE(ParseReplayLine(line + " timers=" + timers).ok());
}

// A line from before there were more types means what it did.
TEST(ScenarioTest, ALineSaysWhetherCallsAreOfAllTypes) {
  const std::string line = "seed=1 topology=star-4 mode=1 scenario=loss calls=7";
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto before = ParseReplayLine("topology=star-4 mode=1 scenario=loss seed=" + std::to_string(seed));
    ASSERT_TRUE(before.ok()) << before.status();
    EXPECT_EQ(before->types, "first");
  }
  EXPECT_EQ(ReplayLine(*ParseReplayLine(line + " types=first")), line);
  const auto all = ParseReplayLine(line + " types=all");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->types, "all");
  EXPECT_EQ(ReplayLine(*all), line + " types=all");
  for (const char* types : {"", "1", "All"}) EXPECT_FALSE(ParseReplayLine(line + " types=" + types).ok());
}

// A line from before calls could go between the hosts means what it did.
TEST(ScenarioTest, ALineSaysByWhichPathCallsGo) {
  const std::string line = "seed=1 topology=star-4 mode=1 scenario=loss calls=7";
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto before = ParseReplayLine("topology=star-4 mode=1 scenario=loss seed=" + std::to_string(seed));
    ASSERT_TRUE(before.ok()) << before.status();
    EXPECT_EQ(before->path, "network");
  }
  EXPECT_EQ(ReplayLine(*ParseReplayLine(line + " path=network")), line);
  for (const char* path : {"hosts", "mixed"}) {
    const auto other = ParseReplayLine(line + " path=" + path);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(other->path, path);
    EXPECT_EQ(ReplayLine(*other), line + " path=" + path);
  }
  for (const char* path : {"", "1", "Hosts"}) EXPECT_FALSE(ParseReplayLine(line + " path=" + path).ok());
}

// A line from before calls could be made in slices means what it did.
TEST(ScenarioTest, ALineSaysWhetherLongCallsAreCut) {
  const std::string line = "seed=1 topology=star-4 mode=1 scenario=loss calls=7";
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto before = ParseReplayLine("topology=star-4 mode=1 scenario=loss seed=" + std::to_string(seed));
    ASSERT_TRUE(before.ok()) << before.status();
    EXPECT_EQ(before->slices, "whole");
    EXPECT_EQ(InvocationBytes(*before, 200), kMaxBytes);
  }
  EXPECT_EQ(ReplayLine(*ParseReplayLine(line + " slices=whole")), line);
  const auto cut = ParseReplayLine(line + " slices=cut");
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_LE(InvocationBytes(*cut, 200), 2000u);
  EXPECT_EQ(ReplayLine(*cut), line + " slices=cut");
  for (const char* slices : {"", "1", "Cut"}) EXPECT_FALSE(ParseReplayLine(line + " slices=" + slices).ok());
}

// A line from before calls went by multicast means what it did.
TEST(ScenarioTest, ALineSaysByWhichAlgorithmHostsGo) {
  const std::string line = "seed=1 topology=star-4 mode=1 scenario=loss calls=7 path=hosts";
  EXPECT_EQ(ParseReplayLine(line)->algorithm, "first");
  EXPECT_EQ(ReplayLine(*ParseReplayLine(line + " algorithm=first")), line);
  for (const char* algorithm : {"multicast", "all"}) {
    const auto other = ParseReplayLine(line + " algorithm=" + algorithm);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(other->algorithm, algorithm);
    EXPECT_EQ(ReplayLine(*other), line + " algorithm=" + algorithm);
  }
  for (const char* algorithm : {"", "1", "ring"})
    EXPECT_FALSE(ParseReplayLine(line + " algorithm=" + algorithm).ok());
}

TEST(ScenarioTest, ALineMayLeaveOutTheCalls) {
  const auto scenario = ParseReplayLine("scenario=quiet mode=2  topology=star-3 seed=4");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_EQ(scenario->calls, Scenario{}.calls);
}

TEST(ScenarioTest, OtherLinesAreRefused) {
  EXPECT_TRUE(ParseReplayLine("seed=1 topology=star-4 mode=1 scenario=loss calls=30").ok());
  for (const char* line : {"",
                           "seed=1",
                           "topology=star-4 mode=1 scenario=loss calls=30",
                           "seed=1 mode=1 scenario=loss",
                           "seed=1 topology=star-4 scenario=loss",
                           "seed=1 topology=star-4 mode=1",
                           "seed=-1 topology=star-4 mode=1 scenario=loss",
                           "seed= topology=star-4 mode=1 scenario=loss",
                           "seed=1x topology=star-4 mode=1 scenario=loss",
                           "seed=1 topology=star-4 mode=99 scenario=loss",
                           "seed=1 topology=star-4 mode=1 scenario=lossy",
                           "seed=1 topology=ring-4 mode=1 scenario=loss",
                           "seed=1 topology=star-4 mode=1 scenario=loss calls=0",
                           "seed=1 topology=star-4 mode=1 scenario=loss calls=4294967297",
                           "seed=1 topology=star-4 mode=1 scenario=loss speed=3",
                           "seed=1 topology=star-4 mode=1 scenario=loss super-frames=some",
                           "seed=1 topology=star-4 mode=1 scenario=loss super-frames=",
                           "seed=1 topology=star-4 mode=1 scenario=loss timers=",
                           "seed=+1 topology=star-4 mode=1 scenario=loss",
                           "seed=0x1 topology=star-4 mode=1 scenario=loss",
                           "seed=1=1 topology=star-4 mode=1 scenario=loss",
                           "seed=1 topology=star-4 mode=1 scenario=loss =",
                           "seed=1 topology=star-4 mode=1 scenario=loss calls",
                           "seed=1 topology=star-4 mode=1 scenario=loss timers=late=",
                           "seed=1 topology=star-4 mode=1 scenario==loss",
                           "seed topology=star-4 mode=1 scenario=loss"}) {
    EXPECT_FALSE(ParseReplayLine(line).ok()) << line;
  }
}

TEST(ScenarioTest, TopologiesByName) {
  const std::map<std::string, std::pair<size_t, size_t>> switches_and_hosts = {
      {"star-2", {1, 2}},      {"star-16", {1, 16}},    {"tree-1-5", {1, 5}}, {"tree-3-2", {3, 4}},
      {"tree-7-2", {7, 8}},    {"tree-15-2", {15, 16}}, {"tree-4-3", {4, 9}}, {"uneven", {3, 5}},
      {"interleaved", {3, 5}}, {"spine-2-3-2", {5, 6}}};
  for (const auto& [name, want] : switches_and_hosts) {
    const auto tree = TopologyNamed(name);
    ASSERT_TRUE(tree.ok()) << tree.status();
    EXPECT_EQ(tree->switch_parent.size(), want.first) << name;
    EXPECT_EQ(tree->rank_switch.size(), want.second) << name;
  }
  for (const char* name : {"",
                           "star",
                           "star-",
                           "star-1",
                           "star-17",
                           "star-4x",
                           "tree-",
                           "tree-3",
                           "tree-3-",
                           "tree-2-2",
                           "tree-31-2",
                           "tree-3-1",
                           "tree--2",
                           "tree-0-2",
                           "tree-3-2-",
                           "tree-3-+2",
                           "tree-3--2",
                           "tree-3- 2",
                           "tree-0x3-2",
                           "spine-",
                           "spine-2",
                           "spine-2-3",
                           "spine-2-3-",
                           "spine-2-3-2-",
                           "spine-0-2-2",
                           "spine-2-1-1",
                           "spine-2-9-2",
                           "spine--2-2-2",
                           "spine-17-2-2"}) {
    EXPECT_FALSE(TopologyNamed(name).ok()) << name;
  }
}

TEST(ScenarioTest, MixedModesAreTheOnesThatMix) {
  Choices choices(1);
  std::set<engine::Mode> seen;
  const ModeSpec modes = ModesNamed("mixed", FullTree(3, 2), choices);
  for (size_t s = 0; s < 7; ++s) seen.insert(modes.At(s));
  EXPECT_EQ(seen, (std::set{engine::Mode::kTerminated, engine::Mode::kAugmented}));
  EXPECT_EQ(ModesNamed("2", Star(2), choices).At(0), engine::Mode::kTranslated);
}

TEST(ScenarioTest, SeedsGoThroughAllCombinationsWithoutCanaries) {
  std::map<std::tuple<std::string, std::string, std::string>, int> times;
  for (uint64_t seed = 12345; seed < 12345 + 260; ++seed) {
    const auto scenario = Complete({.seed = seed});
    ASSERT_TRUE(scenario.ok());
    EXPECT_TRUE(PlanNamed(scenario->name).by_seed());
    ++times[{scenario->topology, scenario->mode, scenario->name}];
  }
  EXPECT_EQ(times.size(), 5u * 4u * 13u);
}

TEST(ScenarioTest, AQuarterOfTheSeedsHasLateTimers) {
  int late = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) late += Complete({.seed = seed})->timers == "late" ? 1 : 0;
  EXPECT_GT(late, 200);
  EXPECT_LT(late, 300);
  EXPECT_EQ(Complete({.seed = 1, .timers = "late"})->timers, "late");
  EXPECT_FALSE(Complete({.seed = 1, .timers = "slow"}).ok());
}

TEST(ScenarioTest, HalfOfTheSeedsHaveAllTypes) {
  int all = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) all += Complete({.seed = seed})->types == "all" ? 1 : 0;
  EXPECT_GT(all, 450);
  EXPECT_LT(all, 550);
  EXPECT_EQ(Complete({.seed = 1, .types = "first"})->types, "first");
  EXPECT_FALSE(Complete({.seed = 1, .types = "new"}).ok());
}

TEST(ScenarioTest, HalfOfTheSeedsHaveMixedPaths) {
  int mixed = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const auto scenario = Complete({.seed = seed});
    mixed += scenario->path == "mixed" ? 1 : 0;
    EXPECT_NE(scenario->path, "hosts");
  }
  EXPECT_GT(mixed, 450);
  EXPECT_LT(mixed, 550);
  EXPECT_EQ(Complete({.seed = 1, .path = "hosts"})->path, "hosts");
  EXPECT_FALSE(Complete({.seed = 1, .path = "switches"}).ok());
}

TEST(ScenarioTest, HalfOfTheSeedsCutLongCalls) {
  int cut = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) cut += Complete({.seed = seed})->slices == "cut" ? 1 : 0;
  EXPECT_GT(cut, 450);
  EXPECT_LT(cut, 550);
  EXPECT_EQ(Complete({.seed = 1, .slices = "whole"})->slices, "whole");
  EXPECT_FALSE(Complete({.seed = 1, .slices = "thin"}).ok());
}

TEST(ScenarioTest, HalfOfTheSeedsBetweenHostsHaveAllAlgorithms) {
  int all = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const auto scenario = Complete({.seed = seed});
    all += scenario->algorithm == "all" ? 1 : 0;
    if (scenario->path == "network") {
      EXPECT_EQ(scenario->algorithm, "first");
    }
  }
  EXPECT_GT(all, 200);
  EXPECT_LT(all, 300);
  EXPECT_EQ(Complete({.seed = 1, .algorithm = "multicast"})->algorithm, "multicast");
  EXPECT_FALSE(Complete({.seed = 1, .algorithm = "ring"}).ok());
}

TEST(ScenarioTest, WhatIsGivenStays) {
  const auto scenario = Complete({.seed = 3, .mode = "2"});
  ASSERT_TRUE(scenario.ok());
  EXPECT_EQ(scenario->mode, "2");
  EXPECT_FALSE(scenario->topology.empty());
  EXPECT_FALSE(Complete({.seed = 3, .mode = "IIII"}).ok());
}

TEST(ScenarioTest, NamesOfModesBecomeNumbersInTheLine) {
  for (const char* name : {"II", "ii", "translated", "2"}) {
    const auto scenario = Complete({.seed = 3, .mode = name});
    ASSERT_TRUE(scenario.ok()) << name;
    EXPECT_EQ(scenario->mode, "2") << name;
  }
  EXPECT_EQ(Complete({.seed = 3, .mode = "mixed"})->mode, "mixed");
}

}  // namespace
}  // namespace epic::sim
