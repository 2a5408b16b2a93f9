// The program as its user meets it: what it prints, and its exit codes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/program_testing.h"

namespace {

using epic::Ran;
using testing::HasSubstr;

Ran EpicSim(const std::string& arguments) {
  return epic::Shell(fmt::format("{} {}", EPIC_SIM_PROGRAM, arguments));
}

TEST(EpicSimTest, RightIsZero) {
  const Ran one = EpicSim(
      "run --seed 7 --topology tree-3-2 --mode 2 --scenario loss --timers exact --types first --slices "
      "whole");
  EXPECT_EQ(one.code, 0) << one.out;
  EXPECT_THAT(one.out, HasSubstr("right: seed=7 topology=tree-3-2 mode=2 scenario=loss calls=20\n"));
  const Ran many = EpicSim("run --seeds 1:20 --jobs 2");
  EXPECT_EQ(many.code, 0) << many.out;
  EXPECT_THAT(many.out, HasSubstr("\n20 of 20 seeds right\nright: 20 seeds, "));
}

TEST(EpicSimTest, SharedSaysWhatBecameOfItsGroups) {
  const Ran one = EpicSim(
      "run --seed 7 --topology spine-2-3-2 --mode 2 --scenario shared --timers exact --types first "
      "--slices whole");
  EXPECT_EQ(one.code, 0) << one.out;
  EXPECT_THAT(one.out, HasSubstr("right: seed=7 topology=spine-2-3-2 mode=2 scenario=shared calls=20\n"));
  EXPECT_THAT(one.out, HasSubstr(" groups by the network, "));
  const Ran many = EpicSim("run --seeds 1:20 --scenario shared --jobs 2");
  EXPECT_EQ(many.code, 0) << many.out;
  EXPECT_THAT(many.out, HasSubstr(" calls granted, "));
}

TEST(EpicSimTest, AViolationIsOneAndItsLineReplaysIt) {
  for (const char* verdict : {"wrong", "hung", "crash"}) {
    for (const char* seeds : {"--seed 5", "--seeds 5:5"}) {
      const Ran ran = EpicSim(fmt::format("run {} --scenario canary-{}", seeds, verdict));
      EXPECT_EQ(ran.code, 1) << ran.out;
      EXPECT_THAT(ran.out, HasSubstr(fmt::format("{}", verdict)));
      const size_t at = ran.out.find("replay: epic-sim ");
      ASSERT_NE(at, std::string::npos) << ran.out;
      const size_t begin = at + std::string("replay: epic-sim ").size();
      const Ran again = EpicSim(ran.out.substr(begin, ran.out.find('\n', begin) - begin));
      EXPECT_EQ(again.code, 1);
      // Many seeds have said more before.
      EXPECT_THAT(ran.out, testing::EndsWith(again.out));
    }
  }
}

TEST(EpicSimTest, OneTraceForOneLine) {
  const std::string line = "'seed=11 topology=uneven mode=mixed scenario=all calls=8'";
  const Ran first = EpicSim("run --trace - --replay " + line);
  EXPECT_EQ(first.code, 0);
  EXPECT_THAT(first.out, testing::StartsWith(R"({"time":0,"event":"run","replay":"seed=11 )"));
  EXPECT_EQ(first.out, EpicSim("run --trace - --replay " + line).out);
}

TEST(EpicSimTest, LateTimersAllTypesThePathAndSlicesAreInTheLine) {
  const Ran ran = EpicSim(
      "run --seed 7 --topology star-4 --mode 3 --scenario loss --timers late --types all --path hosts "
      "--slices cut --algorithm multicast");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("right: seed=7 topology=star-4 mode=3 scenario=loss calls=20 timers=late "
                                 "types=all path=hosts slices=cut algorithm=multicast\n"));
  EXPECT_THAT(ran.out, testing::ContainsRegex("; [1-9][0-9]* late timers; [1-9][0-9]* by the hosts; "
                                              "[1-9][0-9]* chunks by datagrams, [0-9]+ read, 0 datagrams "
                                              "without a receive\n"));
}

TEST(EpicSimTest, AnythingElseIsTwo) {
  for (const char* arguments : {"",
                                "walk",
                                "run --seed x",
                                "run --seeds 3",
                                "run --seeds 5:4",
                                "run --seeds 1:x",
                                "run --seeds +1:2",
                                "run --seeds :2",
                                "run --seeds 1:",
                                "run --seeds 1:2:3",
                                "run --mode 99",
                                "run --topology ring",
                                "run --scenario storm",
                                "run --calls 0",
                                "run --super-frames some",
                                "run --timers slow",
                                "run --types new",
                                "run --seed 1 --seeds 1:2",
                                "run --seeds 1:2 --trace -",
                                "run --seeds 1:2 --jobs 0",
                                "run --replay seed=1",
                                "run --replay 'seed=1 topology=star-4 mode=1 scenario=loss calls=3' --mode 2",
                                "run --trace /nowhere/to/be/found"}) {
    const Ran ran = EpicSim(arguments);
    EXPECT_EQ(ran.code, 2) << arguments << "\n" << ran.out;
    EXPECT_FALSE(ran.out.empty()) << arguments;
  }
  EXPECT_EQ(EpicSim("--help").code, 0);
  EXPECT_THAT(EpicSim("run --help").out, HasSubstr("canary-hung"));
}

}  // namespace
