#include "mpi/core/onset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace epic::mpi {
namespace {

using OnsetStep = Onset::Step;

// One rank, of which the others are as it is.
class Alone {
 public:
  Alone(uint64_t from_call, uint64_t from_bytes) : onset(0, 2, from_call, from_bytes) {}

  // A call, and the steps before it; what has come of the join so far: nothing, or this.
  void Call(uint64_t bytes, const JoinResult* join = nullptr) {
    for (OnsetStep step = onset.OnCall(bytes); step != OnsetStep::kCall; step = onset.step()) {
      steps.push_back(step);
      if (step == OnsetStep::kLook) onset.OnLook(join, may_begin);
      if (step == OnsetStep::kMin) onset.OnMin(onset.value());
      if (step == OnsetStep::kBroadcast) onset.OnBroadcast();
      if (step == OnsetStep::kPlace) onset.OnPlaced(hosts, "", "group", "");
      if (step == OnsetStep::kJoin) onset.OnJoin({});
      if (step == OnsetStep::kBegin) onset.OnBegun();
    }
  }

  Onset onset;
  std::vector<OnsetStep> steps;
  bool may_begin = true;
  int hosts = 2;
};

const JoinResult kGood;
const std::vector<OnsetStep> kAsking = {OnsetStep::kLook, OnsetStep::kMin,       OnsetStep::kPlace,
                                        OnsetStep::kMin,  OnsetStep::kBroadcast, OnsetStep::kBegin};

TEST(OnsetTest, FromTheFirstCallOnEveryoneWaits) {
  Alone alone(1, UINT64_MAX);
  EXPECT_TRUE(alone.onset.waits());
  alone.Call(8);
  EXPECT_EQ(alone.steps, (std::vector<OnsetStep>{OnsetStep::kPlace, OnsetStep::kMin, OnsetStep::kBroadcast,
                                                 OnsetStep::kJoin, OnsetStep::kMin}));
  EXPECT_TRUE(alone.onset.uses_epic());
}

TEST(OnsetTest, TheCallOfThatNumberAsksAndALaterOneIsEpics) {
  Alone alone(3, UINT64_MAX);
  alone.Call(8);
  alone.onset.OnRequest(8);
  EXPECT_EQ(alone.steps, std::vector<OnsetStep>{});
  EXPECT_EQ(alone.onset.why_mpi(), Reason::kTooFew);
  alone.Call(8);
  EXPECT_EQ(alone.steps, kAsking);
  EXPECT_EQ(alone.onset.why_mpi(), Reason::kBeingMade);
  EXPECT_FALSE(alone.onset.has_ended());
  alone.steps.clear();
  alone.Call(8, &kGood);
  EXPECT_EQ(alone.steps, (std::vector<OnsetStep>{OnsetStep::kLook, OnsetStep::kMin, OnsetStep::kMin}));
  EXPECT_TRUE(alone.onset.uses_epic());
}

TEST(OnsetTest, SoDoesTheCallWithWhichThereAreSoManyBytes) {
  Alone alone(1000, 100);
  alone.Call(99);
  EXPECT_EQ(alone.steps, std::vector<OnsetStep>{});
  alone.Call(1);
  EXPECT_EQ(alone.steps, kAsking);
}

TEST(OnsetTest, ACallThatMustNotWaitAsksNothing) {
  Alone alone(2, UINT64_MAX);
  for (int i = 0; i < 10; ++i) alone.onset.OnRequest(8);
  EXPECT_EQ(alone.onset.step(), OnsetStep::kCall);
  alone.Call(8);
  EXPECT_EQ(alone.steps, kAsking);
}

TEST(OnsetTest, WhereThereIsOneHostTheMpiMakesAllCalls) {
  Alone alone(2, UINT64_MAX);
  alone.hosts = 1;
  for (int i = 0; i < 10; ++i) alone.Call(8);
  EXPECT_EQ(alone.steps, (std::vector<OnsetStep>{OnsetStep::kLook, OnsetStep::kMin, OnsetStep::kPlace}));
  EXPECT_TRUE(alone.onset.has_ended());
  EXPECT_FALSE(alone.onset.uses_epic());
}

TEST(OnsetTest, AJoinThatIsRefusedLeavesAllCallsToTheMpi) {
  Alone alone(2, UINT64_MAX);
  alone.Call(8);
  alone.Call(8);
  const JoinResult refused = {.refusal = "no room"};
  alone.Call(8, &refused);
  EXPECT_TRUE(alone.onset.has_ended());
  EXPECT_FALSE(alone.onset.uses_epic());
  EXPECT_EQ(alone.onset.agreement()->reason(), "rank 0: no room");
}

// What waiting for a join costs those that make calls meanwhile.
TEST(OnsetTest, OfManyCallsAnEighthHasALookBeforeIt) {
  for (const bool may_begin : {true, false}) {
    Alone alone(1000, UINT64_MAX);
    alone.may_begin = may_begin;
    for (int i = 0; i < 100'000; ++i) alone.Call(8);
    EXPECT_LE(std::count(alone.steps.begin(), alone.steps.end(), OnsetStep::kLook), 41) << may_begin;
    EXPECT_GE(std::count(alone.steps.begin(), alone.steps.end(), OnsetStep::kLook), 30) << may_begin;
  }
}

}  // namespace
}  // namespace epic::mpi
