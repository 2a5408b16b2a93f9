// The program as its user meets it: what it prints, and its exit codes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/program_testing.h"

namespace {

using epic::Ran;
using epic::Shell;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Ran EpicCheck(const std::string& arguments) {
  return Shell(fmt::format("{} {}", EPIC_CHECK_PROGRAM, arguments));
}

// The line that a counterexample printed, quotes included.
std::string ReplayIn(const std::string& out) {
  const std::string_view before = "replay: epic-check ";
  const size_t at = out.find(before);
  if (at == std::string::npos) return {};
  return out.substr(at + before.size(), out.find('\n', at) - at - before.size());
}

constexpr const char* kWrong = "--topology star-2 --duplicates 1 --regroups 1 --reuse-qpns";

TEST(EpicCheckTest, HelpSaysWhatItIsAndItsExitCodes) {
  const Ran ran = EpicCheck("--help");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("Exit status: 0 right, 1 not, 2 usage, 3 not finished"),
                             HasSubstr("--collective"), HasSubstr("--losses"), HasSubstr("--late-calls"),
                             HasSubstr("--late-timers"), HasSubstr("--max-memory"), HasSubstr("--reorder"),
                             HasSubstr("--without"), HasSubstr("--replay")));
}

TEST(EpicCheckTest, InvariantsAreListedByName) {
  const Ran ran = EpicCheck("--invariants");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, AllOf(StartsWith("result: a call that ends"), HasSubstr("\nfair-end: ")));
}

TEST(EpicCheckTest, LateCallsCallsAfterResultsAndNoOrder) {
  const Ran ran = EpicCheck(
      "--mode 3 --collective barrier*2 --calls after-results --late-calls any --reorder any --topology "
      "star-2");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr(" calls=after-results late-calls=any reorder=any\nverdict: right\n"));
}

TEST(EpicCheckTest, RightIsZero) {
  const Ran ran = EpicCheck("--topology star-2 --losses 1");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, StartsWith("mode=2 collective=allreduce topology=star-2 messages=1 "));
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("\nverdict: right\n"), HasSubstr(" 2 symmetries"), Not(HasSubstr("replay"))));
}

TEST(EpicCheckTest, WrongIsOneAndItsLineReplaysIt) {
  for (const char* how : {"", "--no-reduction", "--no-symmetry", "--search depth"}) {
    const Ran ran = EpicCheck(fmt::format("{} {}", kWrong, how));
    EXPECT_EQ(ran.code, 1) << ran.out;
    EXPECT_THAT(ran.out, testing::ContainsRegex("\nverdict: violated: [a-z-]+: "));
    const std::string replay = ReplayIn(ran.out);
    ASSERT_THAT(replay, StartsWith("--replay 'mode=2 ")) << ran.out;
    const Ran again = EpicCheck(replay);
    EXPECT_EQ(again.code, 1) << again.out;
    // The same steps, and at their end a violation.
    const size_t first = ran.out.find("   1  ");
    ASSERT_NE(first, std::string::npos) << ran.out;
    const std::string steps = ran.out.substr(first, ran.out.find("replay:") - first);
    EXPECT_THAT(again.out, StartsWith(steps + "violated: "));
  }
}

TEST(EpicCheckTest, AReplayThatBreaksNothingSaysHowFarItCame) {
  const Ran part = EpicCheck("--replay 'topology=star-2 steps=S1,D0'");
  EXPECT_EQ(part.code, 3);
  EXPECT_THAT(part.out, HasSubstr("no violation; the calls have not ended\n"));
  const Ran impossible = EpicCheck("--replay 'topology=star-2 steps=S1,D1'");
  EXPECT_EQ(impossible.code, 3);
  EXPECT_THAT(impossible.out, HasSubstr("step 2 cannot happen there\n"));
}

TEST(EpicCheckTest, UsageIsTwo) {
  for (const char* arguments :
       {"--mode 99", "--topology ring-3", "--losses 201", "--losses x", "--unknown", "--search sideways",
        "--collective sum", "--replay colour=red", "--replay 'mode=99'", "--compare --window 0"}) {
    const Ran ran = EpicCheck(arguments);
    EXPECT_EQ(ran.code, 2) << arguments << "\n" << ran.out;
    EXPECT_THAT(ran.out, AllOf(StartsWith("epic-check: "), HasSubstr("Try epic-check --help.\n")));
  }
}

// The verdict's invariant.
std::string BrokenIn(const std::string& out) {
  const std::string_view before = "\nverdict: violated: ";
  const size_t at = out.find(before);
  if (at == std::string::npos) return {};
  return out.substr(at + before.size(), out.find(':', at + before.size()) - at - before.size());
}

TEST(EpicCheckTest, NothingIsJudgedByAnInvariantThatIsLeftOut) {
  const std::string first = BrokenIn(EpicCheck(kWrong).out);
  ASSERT_FALSE(first.empty());
  const Ran ran = EpicCheck(fmt::format("{} --without {}", kWrong, first));
  EXPECT_EQ(ran.code, 1) << ran.out;
  const std::string second = BrokenIn(ran.out);
  ASSERT_FALSE(second.empty()) << ran.out;
  EXPECT_NE(second, first);
  // Its line says so, too: with the first, the steps would stop there.
  EXPECT_THAT(ran.out, HasSubstr(fmt::format(" without={} ", first)));
  EXPECT_THAT(EpicCheck(ReplayIn(ran.out)).out, HasSubstr(fmt::format("\nviolated: {}: ", second)));
  const Ran both = EpicCheck(fmt::format("{} --without {} --without {}", kWrong, first, second));
  EXPECT_THAT(both.out, HasSubstr(fmt::format(" without={},{} ", first, second)));
  EXPECT_NE(BrokenIn(both.out), first);
  EXPECT_NE(BrokenIn(both.out), second);
}

TEST(EpicCheckTest, AnInvariantThatIsNoneIsAUsageErrorWithThoseThatAre) {
  const Ran ran = EpicCheck("--topology star-2 --without core --without slot");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.out, StartsWith("epic-check: without: 'slot' is none of result, outcome, payload, opcode, "
                                  "place, acknowledged, end-to-end, slots, invocations, holder, core, "
                                  "given-back, can-end, fair-end\n"));
}

TEST(EpicCheckTest, CompareTellsWhetherReductionsMatter) {
  const Ran ran = EpicCheck("--compare --topology star-2 --losses 1");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("\nreduced:\n"), HasSubstr("\nwithout reductions:\n"),
                             HasSubstr("the same verdict and the same final states\n")));
}

TEST(EpicCheckTest, ThePapersSixCases) {
  const Ran ran = EpicCheck("--paper --topology star-2 --messages 1");
  EXPECT_EQ(ran.code, 0) << ran.out;
  for (const char* mode : {"2", "3"}) {
    for (const char* collective : {"allreduce", "reduce", "broadcast"}) {
      EXPECT_THAT(ran.out, HasSubstr(fmt::format("mode={} collective={} topology=star-2 messages=1 packets=1 "
                                                 "window=2 psn=0xfffffe losses=1\nverdict: right\n",
                                                 mode, collective)));
    }
  }
}

// What it will take is said when it has begun, and where that is more than it may take.
TEST(EpicCheckTest, WhatTakesLongBeginsWithAnEstimate) {
  const Ran large = EpicCheck("--mode 2 --collective allgather --messages 2 --losses 1 --max-memory 0.02");
  EXPECT_EQ(large.code, 3) << large.out;
  EXPECT_THAT(large.out,
              testing::ContainsRegex("\nestimate: [0-9.]+ million states, [0-9.]+ GiB, [0-9.]+ minutes, "
                                     "from the first [0-9]+ states; "));
  EXPECT_THAT(large.out, HasSubstr("\nestimate: more than --max-memory 0.02 GiB; "));
  const Ran small = EpicCheck("--topology star-2 --losses 1");
  EXPECT_THAT(small.out, Not(HasSubstr("estimate")));
  const Ran deep = EpicCheck("--losses 3 --duplicates 3 --messages 4 --search depth --max-states 1000");
  EXPECT_THAT(deep.out, HasSubstr("estimate: none of a search by depth\n"));
}

TEST(EpicCheckTest, TimersMayBeLate) {
  const Ran ran = EpicCheck("--mode 3 --topology star-2 --losses 1 --late-timers 2");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr(" losses=1 late-timers=2\nverdict: right\n"));
}

TEST(EpicCheckTest, CallsMayGoBetweenTheHosts) {
  const Ran ran = EpicCheck("--path hosts --ranks 3 --collective allreduce --algorithm ring --losses 1");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, StartsWith("path=hosts ranks=3 collective=allreduce algorithm=ring messages=1 "
                                  "psn=0xfffffe losses=1\nverdict: right\n"));
  const Ran replay = EpicCheck(
      "--replay 'path=hosts ranks=2 collective=barrier algorithm=ring different=collective@1 "
      "steps=S0,S1,D0,D1,D0,D1'");
  EXPECT_EQ(replay.code, 0) << replay.out;
  EXPECT_THAT(replay.out,
              HasSubstr("   3  deliver host1 -> host0: packet 0, index 0, control, asks for an ack\n"));
  const Ran wrong = EpicCheck("--path hosts --ranks 1");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.out, StartsWith("epic-check: ranks: 2 to 8\n"));
}

TEST(EpicCheckTest, NotFinishedIsThree) {
  const std::string large = "--losses 3 --duplicates 3 --messages 4";
  for (const char* limit : {"--max-states 1000", "--max-memory 0.01"}) {
    const Ran ran = EpicCheck(fmt::format("{} {}", large, limit));
    EXPECT_EQ(ran.code, 3) << ran.out;
    EXPECT_THAT(ran.out, AllOf(HasSubstr("\nverdict: not finished: limit reached\n"),
                               HasSubstr(" reached: nothing is wrong in what was seen")));
    EXPECT_THAT(ran.out, HasSubstr(limit));
  }
  const Ran late = EpicCheck(large + " --max-minutes 0.001");
  EXPECT_EQ(late.code, 3) << late.out;
  EXPECT_THAT(late.out, HasSubstr("\nverdict: not finished: stopped\n"));
}

// As Ctrl-C does. A background job of a shell without job control would ignore SIGINT.
TEST(EpicCheckTest, AnInterruptEndsItWithAReport) {
  const Ran ran =
      Shell(fmt::format("exec timeout --preserve-status --signal INT 2 {} "
                        "--losses 3 --duplicates 3 --messages 4 --max-minutes 1",
                        EPIC_CHECK_PROGRAM));
  EXPECT_EQ(ran.code, 3) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("\nverdict: not finished: stopped\ndiameter "));
}

}  // namespace
