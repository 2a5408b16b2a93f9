// Whole runs: each mode with each scenario ends right, and what must not end right does not.
#include "sim/trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/many_seeds.h"

namespace epic::sim {
namespace {

Outcome RunOnce(const Scenario& scenario) { return RunTrial(scenario); }

Scenario Named(const std::string& name, const std::string& mode, uint64_t seed) {
  return *Complete({.seed = seed, .mode = mode, .name = name});
}

TEST(TrialTest, EachModeWithEachScenarioEndsRight) {
  for (const FaultPlan& plan : FaultPlans()) {
    if (!plan.by_seed()) continue;
    for (const std::string& mode : ModesOfScenarios()) {
      Counts counts;
      // The next 65 seeds have the next topology (Complete): each twice, once with each kind of timers.
      for (uint64_t seed = 1; seed <= 650; seed += 65) {
        Scenario scenario = Named(plan.name, mode, seed);
        scenario.timers = seed <= 325 ? "late" : "exact";
        SCOPED_TRACE("replay: epic-sim run --replay '" + ReplayLine(scenario) + "'");
        const Outcome outcome = RunTrial(scenario);
        ASSERT_EQ(outcome.verdict, Verdict::kRight) << outcome.detail;
        counts += outcome.counts;
      }
      // What the scenario is for has happened, and nothing else.
      SCOPED_TRACE(plan.name);
      EXPECT_EQ(counts.lost > 0, plan.rates.loss_ppm + plan.rates.burst_ppm > 0);
      EXPECT_GT(counts.super_frames, 0);
      EXPECT_EQ(counts.cut > 0, plan.rates.cut_ppm > 0);
      EXPECT_EQ(counts.corrupted > 0, plan.rates.corrupt_ppm > 0);
      EXPECT_EQ(counts.repeated > 0, plan.rates.duplicate_ppm > 0);
      EXPECT_EQ(counts.delayed > 0, plan.rates.delay_ppm + plan.rates.linger_ppm > 0);
      const bool crashes = plan.crashes_engines || plan.kills_hosts;
      EXPECT_EQ(counts.unheard > 0, plan.stops_hosts || crashes);
      EXPECT_EQ(counts.crashes > 0, crashes);
      EXPECT_EQ(counts.failed > 0, crashes);
      EXPECT_EQ(counts.aborted > 0, crashes);
      EXPECT_EQ(counts.old > 0, crashes);
    }
  }
}

// The same where calls go between the hosts, all of them or what the switches lack.
TEST(TrialTest, EachPathWithEachScenarioEndsRight) {
  for (const FaultPlan& plan : FaultPlans()) {
    if (plan.reuses || plan.aborts || plan.shares) continue;
    Counts counts;
    for (uint64_t seed = 1; seed <= 650; seed += 65) {
      Scenario scenario = Named(plan.name, seed % 3 == 0 ? "2" : "mixed", seed);
      scenario.path = seed <= 325 || plan.canary() ? "hosts" : "mixed";
      SCOPED_TRACE("replay: epic-sim run --replay '" + ReplayLine(scenario) + "'");
      const Outcome outcome = RunTrial(scenario);
      const Verdict must = plan.flips ? Verdict::kWrong : plan.swallows ? Verdict::kHung : Verdict::kRight;
      ASSERT_EQ(outcome.verdict, must) << outcome.detail;
      counts += outcome.counts;
    }
    EXPECT_GT(counts.by_hosts, counts.calls / 2);
    EXPECT_EQ(counts.by_hosts == counts.calls, plan.canary());
    EXPECT_EQ(counts.failed > 0, plan.crashes_engines || plan.kills_hosts);
  }
}

// Lines that fail as long as the mistake is there (of the first four: canary want-withdrawn).
TEST(TrialTest, WhatWasFoundStaysRepaired) {
  for (const char* line : {
           // Mode II: a switch forgot what a child wanted when a later result, asked for by another, came by
           // first; without another loss the same went on for ever.
           "seed=83 topology=tree-3-2 mode=2 scenario=heavy calls=20 inline=0 send-windows=fixed "
           "acks=each super-frames=none",
           "seed=10 topology=tree-7-2 mode=2 scenario=loss calls=20 inline=0 send-windows=fixed "
           "acks=each super-frames=none",
           "seed=54 topology=uneven mode=2 scenario=reorder calls=20 inline=0 send-windows=fixed "
           "acks=each super-frames=none",
           "seed=4 topology=interleaved mode=2 scenario=corrupt calls=20 inline=0 send-windows=fixed "
           "acks=each super-frames=none",
           // The simulation waited for what a rank had posted whose group had failed, and then its host.
           "seed=93988 topology=tree-7-2 mode=2 scenario=killed calls=20 timers=late path=mixed slices=cut "
           "algorithm=multicast",
       }) {
    SCOPED_TRACE(std::string("replay: epic-sim run --replay '") + line + "'");
    const Outcome outcome = RunTrial(*ParseReplayLine(line));
    EXPECT_EQ(outcome.verdict, Verdict::kRight) << outcome.detail;
  }
}

// Where no link takes super-frames there are none, and which do is the seed's choice or the line's.
TEST(TrialTest, SuperFramesAreWhereTheLineSaysSo) {
  const auto super_frames = [](const char* links, const char* topology) {
    return RunTrial(*Complete({.seed = 2,
                               .topology = topology,
                               .mode = "2",
                               .name = "quiet",
                               .calls = 20,
                               .super_frames = links}))
        .counts.super_frames;
  };
  for (const char* topology : {"star-4", "tree-3-2"}) {
    EXPECT_EQ(super_frames("none", topology), 0);
    EXPECT_GT(super_frames("all", topology), 0);
    EXPECT_GT(super_frames("hosts", topology), 0);
    EXPECT_EQ(super_frames("switches", topology) > 0, topology == std::string("tree-3-2"));
  }
  int with = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Scenario scenario{.seed = seed, .topology = "tree-3-2", .mode = "1", .name = "quiet", .calls = 4};
    with += RunTrial(scenario).counts.super_frames > 0 ? 1 : 0;
  }
  EXPECT_GT(with, 20) << "three quarters of the seeds have them";
  EXPECT_LT(with, 38);
}

TEST(TrialTest, CanariesDoNotEndRight) {
  for (const std::string& mode : ModesOfScenarios()) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(testing::Message() << "mode " << mode << " seed " << seed);
      EXPECT_EQ(RunTrial(Named("canary-wrong", mode, seed)).verdict, Verdict::kWrong);
      const Outcome hung = RunTrial(Named("canary-hung", mode, seed));
      EXPECT_EQ(hung.verdict, Verdict::kHung);
      EXPECT_NE(hung.detail.find("switch 0: "), std::string::npos) << hung.detail;
    }
  }
}

// Two ways to run the same seeds. Both end the same calls; the second must end right. `judge` says whether a
// pair counts; of 80, how many do.
template <typename Judge>
int CountOfPairs(const Scenario& base, std::string Scenario::*field, const char* one, const char* other,
                 const Judge& judge) {
  int count = 0;
  for (const std::string& mode : ModesOfScenarios()) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      Scenario scenario = Named("all", mode, seed);
      scenario.inline_bytes = base.inline_bytes;
      scenario.path = "network";
      scenario.numbers = "plain";  // blocks travel in slices ever
      scenario.*field = one;
      const Outcome first = RunTrial(scenario);
      scenario.*field = other;
      SCOPED_TRACE("replay: epic-sim run --replay '" + ReplayLine(scenario) + "'");
      const Outcome second = RunTrial(scenario);
      EXPECT_EQ(second.verdict, Verdict::kRight) << second.detail;
      EXPECT_EQ(second.counts.calls, first.counts.calls);
      count += judge(first.counts, second.counts);
      if (testing::Test::HasFailure()) return count;
    }
  }
  return count;
}

// Ranks whose send windows change end the same calls, by other packets.
TEST(TrialTest, SendWindowsMayChangeAtAnyMoment) {
  EXPECT_GT(CountOfPairs({}, &Scenario::send_windows, "fixed", "changing",
                         [](const Counts& fixed, const Counts& changing) {
                           return changing.packets != fixed.packets;
                         }),
            40)
      << "of 80; in some a window is one message in any case";
}

// Hosts that share acknowledgements end the same calls, by other packets.
TEST(TrialTest, SmallCallsMayShareAcknowledgements) {
  EXPECT_GT(
      CountOfPairs({.inline_bytes = 4032}, &Scenario::acks, "each", "shared",
                   [](const Counts& each, const Counts& shared) { return shared.packets < each.packets; }),
      20)
      << "of 80; where a window is short, or calls are far apart, each has its own";
}

// Timers that are late end the same calls, by other packets.
TEST(TrialTest, TimersMayBeLate) {
  EXPECT_GT(CountOfPairs({}, &Scenario::timers, "exact", "late",
                         [](const Counts& exact, const Counts& late) {
                           EXPECT_EQ(exact.late_timers, 0);
                           EXPECT_GT(late.late_timers, 0);
                           return late.packets != exact.packets;
                         }),
            60)
      << "of 80";
}

// Long calls that are cut end right as well, by more packets.
TEST(TrialTest, LongCallsMayBeMadeInSlices) {
  EXPECT_GT(CountOfPairs({}, &Scenario::slices, "whole", "cut",
                         [](const Counts& whole, const Counts& cut) { return cut.packets > whole.packets; }),
            60)
      << "of 80";
}

// An old packet acts on the new group, or none would need a quarantine. It has to come at the right moment:
// not every seed ends wrong.
TEST(ManySeedsTest, PacketsOfTheGroupBeforeAreFatalWhereQpnsAreUsedAtOnce) {
  for (const std::string& mode : ModesOfScenarios()) {
    const Scenario scenario{.mode = mode, .name = "canary-reuse"};
    EXPECT_TRUE(
        RunSeeds(scenario, {.from = 1, .to = 200, .jobs = 2}, RunOnce, [](const Counts&) {}).violation)
        << mode;
  }
}

std::string TraceOf(const Scenario& scenario) {
  std::string trace;
  RunTrial(scenario, [&trace](std::string_view line) { (trace += line) += '\n'; });
  return trace;
}

TEST(TrialTest, TheSameLineHasTheSameTrace) {
  for (const std::string& mode : ModesOfScenarios()) {
    const Scenario scenario = Named("worst", mode, 42);
    const std::string trace = TraceOf(scenario);
    EXPECT_EQ(trace, TraceOf(*ParseReplayLine(ReplayLine(scenario)))) << ReplayLine(scenario);
    EXPECT_NE(trace, TraceOf(Named("worst", mode, 43)));
  }
}

// Every line is JSON, time does not go back, and what was sent adds up with what the run counted.
TEST(TrialTest, TheTraceIsWhatHappened) {
  const Scenario scenario{
      .seed = 9, .topology = "tree-3-2", .mode = "2", .name = "all", .calls = 20, .super_frames = "all"};
  std::map<std::string, int64_t> events;
  std::map<std::string, int64_t> fates;
  std::map<int64_t, int> frames;  // packets sent in each
  std::string replay;
  std::string last;
  Nanos time = 0;
  const Outcome outcome = RunTrial(scenario, [&](std::string_view text) {
    const auto line = nlohmann::json::parse(text);
    ++events[line["event"]];
    if (line.contains("fate")) ++fates[line["fate"]];
    if (line["event"] == "sent") ++frames[line["frame"].get<int64_t>()];
    if (line["event"] == "run") replay = line["replay"];
    EXPECT_GE(line["time"].get<Nanos>(), time);
    time = line["time"];
    last = text;
  });
  EXPECT_EQ(replay, ReplayLine(scenario));
  EXPECT_EQ(last,
            R"({"time":)" + std::to_string(outcome.counts.time) + R"(,"event":"verdict","verdict":"right"})");
  EXPECT_EQ(events["sent"], outcome.counts.packets);
  EXPECT_EQ(std::ranges::count_if(frames, [](const auto& frame) { return frame.second > 1; }),
            outcome.counts.super_frames);
  EXPECT_GT(outcome.counts.super_frames, 0);
  EXPECT_EQ(fates["lose"], outcome.counts.lost);
  EXPECT_EQ(fates["cut"], outcome.counts.cut);
  EXPECT_EQ(fates["corrupt"], outcome.counts.corrupted);
  EXPECT_EQ(fates["repeat"], outcome.counts.repeated);
  EXPECT_EQ(fates["delay"], outcome.counts.delayed);
  EXPECT_EQ(fates["unheard"], outcome.counts.unheard);
  EXPECT_EQ(events["started"], events["ended"]);
  EXPECT_GE(events["started"], 2 * outcome.counts.calls) << "every rank of a group makes every call";
  EXPECT_EQ(events["faults_off"], 1);
}

// Groups fail after a crash and within its lease, each is made anew, and only their ranks have errors.
TEST(TrialTest, TheTraceOfCrashes) {
  const Scenario scenario{.seed = 3, .topology = "tree-7-2", .mode = "3", .name = "worst", .calls = 20};
  std::map<std::string, int64_t> events;
  std::map<int, int> failed;  // group: ranks told
  const Outcome outcome = RunTrial(scenario, [&](std::string_view text) {
    const auto line = nlohmann::json::parse(text);
    ++events[line["event"]];
    if (line["event"] == "group_failed") {
      EXPECT_GT(events["crashed"], 0);
      EXPECT_TRUE(failed.emplace(line["group"], 0).second) << text;
    } else if (line["event"] == "aborted") {
      ++failed.at(line["group"]);
    } else if (line["event"] == "ended" && line["how"] != "done") {
      EXPECT_EQ(line["how"], "aborted");
      EXPECT_GT(failed.at(line["group"]), 0) << text;
    } else if (line["event"] == "group_made") {
      EXPECT_TRUE(failed.contains(line["instead_of"])) << text;
      EXPECT_FALSE(failed.contains(line["group"])) << text;
    }
  });
  EXPECT_EQ(outcome.verdict, Verdict::kRight) << outcome.detail;
  EXPECT_GT(outcome.counts.aborted, 0);
  EXPECT_EQ(events["crashed"], outcome.counts.crashes);
  EXPECT_GT(events["restarted"], 0);
  EXPECT_EQ(events["group_failed"], outcome.counts.failed);
  EXPECT_EQ(events["group_made"], outcome.counts.failed);
}

TEST(ManySeedsTest, TheCountsAreThoseOfTheRuns) {
  const Scenario scenario{.calls = 4};
  Counts want;
  for (uint64_t seed = 3; seed <= 9; ++seed) want += RunTrial(*Complete({.seed = seed, .calls = 4})).counts;
  for (const int jobs : {1, 3, 20}) {
    int64_t told = 0;
    const RangeResult result = RunSeeds(scenario, {.from = 3, .to = 9, .jobs = jobs}, RunOnce,
                                        [&](const Counts& counts) { told = counts.runs; });
    EXPECT_FALSE(result.violation);
    EXPECT_EQ(Describe(result.counts), Describe(want));
    EXPECT_EQ(told, 7);
  }
}

TEST(ManySeedsTest, TheFirstThatIsNotRightIsNamed) {
  for (const char* name : {"canary-wrong", "canary-hung", "canary-crash"}) {
    const RangeResult result = RunSeeds({.name = name, .calls = 4}, {.from = 5, .to = 1000, .jobs = 2},
                                        RunOnce, [](const Counts&) {});
    ASSERT_TRUE(result.violation) << name;
    EXPECT_LE(*result.violation, 6u) << name;
    EXPECT_EQ(result.counts.runs, 0) << name;
  }
}

}  // namespace
}  // namespace epic::sim
