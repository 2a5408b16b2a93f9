// Groups whose switches read and write their hosts' memory (docs/PROTOCOL-MODE-VI.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "check/explored_testing.h"

namespace epic::check {
namespace {

Setup InitiatedSetup(const char* collective, const char* topology = "star-2") {
  return {.mode = "6", .collective = collective, .topology = topology};
}

void ExpectExploredRight(const Setup& setup) {
  const Report report = Explored(setup);
  EXPECT_EQ(report.verdict, Verdict::kRight) << Line(setup) << ": " << Text(report.breach);
  EXPECT_GT(report.progress.states, 10u);
}

TEST(CheckInitiatedTest, HostsSendControlMessagesAlone) {
  const System system(Built(InitiatedSetup("allreduce,barrier")));
  const Edge& edge = system.EdgeAt(1, 0);
  EXPECT_TRUE(system.IsPulled(edge));
  EXPECT_EQ(edge.up.size(), 2u);
  EXPECT_EQ(edge.down.size(), 3u) << "and the result";
  EXPECT_FALSE(System(Built({.mode = "1", .topology = "star-2"})).IsPulled(edge));
}

TEST(CheckInitiatedTest, EachCollectiveWithALossAnywhere) {
  for (const char* collective :
       {"allreduce", "reduce@1", "broadcast@1", "reducescatter", "allgather", "barrier", "allreduce+"}) {
    check::Setup setup = InitiatedSetup(collective);
    setup.faults.losses = 1;
    ExpectExploredRight(setup);
  }
}

TEST(CheckInitiatedTest, InPlace) {
  check::Setup setup = InitiatedSetup("allreduce");
  setup.buffers = "bounce";
  setup.messages = 2;
  setup.window = 1;
  setup.faults.losses = 1;
  setup.faults.duplicates = 1;
  ExpectExploredRight(setup);
}

TEST(CheckInitiatedTest, LateCalls) {
  for (const char* collective : {"allreduce*2", "reduce@1,allreduce", "broadcast,barrier"}) {
    check::Setup setup = InitiatedSetup(collective);
    setup.calls = "apart";
    setup.late_calls = "1";
    setup.faults.losses = 1;
    ExpectExploredRight(setup);
  }
}

TEST(CheckInitiatedTest, InTreesAndBesideModesIAndIII) {
  for (const char* modes : {"66", "16", "61", "36", "63"}) {
    for (const char* collective : {"allreduce", "reduce@1"}) {
      check::Setup setup = InitiatedSetup(collective, "chain");
      setup.mode = modes;
      ExpectExploredRight(setup);
    }
  }
}

TEST(CheckInitiatedTest, ReductionsOfStatesChangeNothing) {
  check::Setup setup = InitiatedSetup("allreduce");
  setup.faults.losses = 1;
  const check::Setup all[] = {setup, InitiatedSetup("allgather")};
  ExpectReductionsChangeNothing(all);
}

}  // namespace
}  // namespace epic::check
