// Calls by multicast between the hosts: what is explored, and what is no setup.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "check/explored_testing.h"

namespace epic::check {
namespace {

using testing::HasSubstr;

struct Setup ByMulticast(uint32_t ranks, const char* collective) {
  return {.path = "hosts", .ranks = ranks, .algorithm = "multicast", .collective = collective};
}

TEST(MulticastTest, KnownCounts) {
  struct Setup lossy = ByMulticast(2, "broadcast*2");
  lossy.faults = {.losses = 1, .duplicates = 1};
  struct Setup by_token = ByMulticast(2, "allgather");
  by_token.messages = 2;
  by_token.tokens = 1;
  const Known known[] = {{ByMulticast(2, "broadcast"), 211, 15, 3},
                         {ByMulticast(2, "allgather"), 2176, 20, 9},
                         {lossy, 3041, 30, 5},
                         {by_token, 4261, 32, 10}};
  ExpectKnown(known);
}

TEST(MulticastTest, ReductionsLeaveVerdictAndFinalStatesAsTheyAre) {
  struct Setup lossy = ByMulticast(2, "allgather");
  lossy.messages = 2;
  lossy.faults = {.losses = 1, .duplicates = 1};
  struct Setup apart = ByMulticast(2, "broadcast@1,barrier,allgather");
  apart.calls = "apart";
  apart.faults = {.losses = 1};
  const struct Setup setups[] = {ByMulticast(3, "broadcast@1"), lossy, apart};
  ExpectReductionsChangeNothing(setups);
}

// Both copies of a Broadcast's datagram are lost, or all of what two ranks send each other.
TEST(MulticastTest, AllDatagramsMayBeLost) {
  struct Setup setup = ByMulticast(3, "broadcast");
  setup.faults = {.losses = 2};
  EXPECT_EQ(Explored(setup).verdict, Verdict::kRight);
  setup = ByMulticast(2, "allgather");
  setup.messages = 2;
  setup.faults = {.losses = 4};
  EXPECT_EQ(Explored(setup).verdict, Verdict::kRight);
}

// Nothing happens to what connections carry.
TEST(MulticastTest, FaultsAreOfDatagramsAlone) {
  struct Setup setup = ByMulticast(2, "broadcast");
  setup.faults = {.losses = 1, .duplicates = 1, .reorderings = 1};
  Model model = ModelOf(setup);
  std::vector<Word> state = model.Initial();
  std::vector<Action> actions;
  int faults = 0;
  for (int step = 0; step < 100; ++step) {
    model.Enabled(state, /*reduced=*/false, &actions);
    if (actions.empty()) break;
    Action next = actions.front();
    for (const Action action : actions) {
      if (!IsFault(action.kind)) {
        next = action;
        continue;
      }
      ++faults;
      EXPECT_EQ(model.system().edges()[action.object / 2].kind, Edge::Kind::kDatagrams);
      EXPECT_THAT(model.Describe(state, action), HasSubstr("datagram of call 0, chunk 0"));
    }
    ASSERT_EQ(model.Apply(state, next), nullptr);
  }
  EXPECT_GT(faults, 0);
  EXPECT_TRUE(model.Done(state));
}

std::string RefusalByMulticast(const struct Setup& setup) {
  const auto config = Build(setup);
  return config.ok() ? "none" : std::string(config.status().message());
}

TEST(MulticastTest, AnErrorNamesWhatCallsByMulticastDoNotHave) {
  const auto error = [](const auto& change, const char* collective = "allgather") {
    struct Setup setup = ByMulticast(3, collective);
    change(setup);
    return RefusalByMulticast(setup);
  };
  using S = struct Setup;
  EXPECT_EQ(error([](S&) {}), "none");
  EXPECT_THAT(error([](S& s) { s.ranks = 5; }), HasSubstr("ranks: by multicast 2 to 4"));
  EXPECT_THAT(error([](S& s) { s.tokens = 5; }), HasSubstr("tokens: at most 4"));
  EXPECT_THAT(error([](S& s) { s.tokens = 2; }), HasSubstr("messages: so few need no token"));
  EXPECT_THAT(error([](S& s) { s.algorithm = "ring", s.tokens = 1; }),
              HasSubstr("tokens: by multicast only"));
  EXPECT_THAT(error([](S& s) { s.path = "network", s.ranks = 3, s.algorithm = "ring", s.tokens = 1; }),
              HasSubstr("tokens: with path hosts only"));
  EXPECT_THAT(error([](S& s) { s.reorder = "any"; }), HasSubstr("reorder: not by multicast"));
  EXPECT_THAT(error([](S& s) { s.faults.timeouts = 1; }), HasSubstr("timeouts: not by multicast"));
  EXPECT_THAT(error([](S& s) { s.faults.late_timers = 1; }), HasSubstr("late-timers: not by multicast"));
  EXPECT_THAT(error([](S& s) { s.late_calls = "any"; }), HasSubstr("late-calls: not by multicast"));
  EXPECT_THAT(error([](S& s) { s.different = "count@1"; }), HasSubstr("different: not by multicast"));
  EXPECT_THAT(error([](S&) {}, "allreduce"), HasSubstr("broadcast, allgather and barrier are explored"));
}

TEST(MulticastTest, ALineThatReplaysHasAllOfIt) {
  struct Setup setup = ByMulticast(2, "allgather");
  setup.messages = 3;
  setup.tokens = 2;
  const auto replay = ParseReplay(Line(setup));
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_EQ(Line(replay->setup), Line(setup));
  EXPECT_EQ(Line(setup),
            "path=hosts ranks=2 collective=allgather algorithm=multicast messages=3 psn=0xfffffe tokens=2");
}

}  // namespace
}  // namespace epic::check
