// Links without a carrier, in virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "incmanager/groups/health_trial_testing.h"
#include "incmanager/groups/health_watch.h"

namespace epic::manager {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kTick;
using testing::Trial;

TEST(HealthLinks, AGroupMadeAfterALinkCameBackGoesOn) {
  for (const bool far_end : {false, true}) {
    for (int phase = 0; phase < 10; ++phase) {
      Trial t(testing::Tree32(), 2);  // h0 and h1, both at leaf1
      t.Pass(3 * kSecond + phase * kTick);
      far_end ? t.Cut("root", "swp1") : t.Cut("leaf1", "swp3");
      t.Pass(10 * kSecond);
      const bool told_once_more = phase % 2 != 0;
      if (!told_once_more) t.cut.clear();
      t.w.JoinAll(4, "late");
      t.w.AnswerInstalls();
      if (told_once_more) t.Pass(kSecond);
      t.cut.clear();
      EXPECT_TRUE(t.Outcome().first.ok()) << phase;
      EXPECT_EQ(t.w.Phase("late"), "running");
    }
  }
}

// Its agent repeats then what the engine said when the link was down.
TEST(HealthLinks, AnEngineThatIsSlowToAnswerSaysNothingNewOfItsLinks) {
  Trial t(testing::Tree32(), 2);
  t.Pass(3 * kSecond);
  t.Cut("leaf1", "swp3");
  t.Pass(10 * kSecond);
  t.cut.clear();
  t.slow_engines.insert("leaf1");
  t.w.JoinAll(4, "late");
  t.w.AnswerInstalls();
  t.Pass(5 * kSecond);
  EXPECT_EQ(t.w.Phase("late"), "running");
  t.slow_engines.clear();
  EXPECT_TRUE(t.Outcome().first.ok());
}

TEST(HealthLinks, ACutLinkIsLostWithBothEndsNamed) {
  for (const bool far_end : {false, true}) {
    Trial t(testing::Tree32());
    t.Pass(3 * kSecond);
    far_end ? t.Cut("root", "swp1") : t.Cut("leaf1", "swp3");
    const auto [failure, seconds] = t.Outcome();
    EXPECT_EQ(failure.code, ErrorCode::kLinkLost);
    EXPECT_THAT(failure.message, AllOf(HasSubstr("root:swp1"), HasSubstr("leaf1:swp3")));
    EXPECT_LE(seconds, 3.5);
  }
}

TEST(HealthLinks, AHostsCutLinkNamesHostAndPort) {
  Trial t(testing::Tree32());
  t.Pass(3 * kSecond);
  t.Cut("leaf2", "swp1");
  const auto [failure, seconds] = t.Outcome();
  EXPECT_EQ(failure.code, ErrorCode::kLinkLost);
  EXPECT_EQ(failure.switch_name, "leaf2");
  EXPECT_THAT(failure.message, AllOf(HasSubstr("h2"), HasSubstr("leaf2:swp1")));
  EXPECT_LE(seconds, 3.5);
}

TEST(HealthLinks, ALinkThatComesBackSoonIsNotLost) {
  Trial t(testing::Tree32());
  t.Pass(3 * kSecond);
  t.Cut("leaf1", "swp3");
  t.Pass(2 * kSecond);
  t.cut.clear();
  EXPECT_TRUE(t.Outcome().first.ok());
}

TEST(HealthLinks, ALinkThatComesBackWhileItsAgentFallsSilentIsNotLost) {
  for (const char* port : {"swp3", "swp1"}) {  // to root, to h0
    Trial t(testing::Tree32());
    t.Pass(3 * kSecond);
    t.Cut("leaf1", port);
    if (port == std::string("swp3")) t.Cut("root", "swp1");
    t.Pass(kSecond);
    t.silent_agents.insert("leaf1");
    t.cut.clear();
    EXPECT_TRUE(t.Outcome().first.ok()) << port;
  }
}

TEST(HealthLinks, ACutLinkIsLostAlsoIfItsAgentFallsSilent) {
  for (const char* port : {"swp3", "swp1"}) {
    Trial t(testing::Tree32());
    t.Pass(3 * kSecond);
    t.Cut("leaf1", port);
    if (port == std::string("swp3")) t.Cut("root", "swp1");
    t.Pass(kSecond);
    t.silent_agents.insert("leaf1");
    t.stopped_ranks = {100};  // or no echo reaches it
    const auto [failure, seconds] = t.Outcome();
    EXPECT_EQ(failure.code, ErrorCode::kLinkLost) << port;
    EXPECT_LE(seconds, 8.1) << port;
  }
}

TEST(HealthLinks, LinksThatAGroupDoesNotCrossDoNotMatter) {
  Trial t(testing::Tree32(), 2);  // h0 and h1, both at leaf1
  t.Pass(3 * kSecond);
  t.Cut("root", "swp1");
  t.Cut("leaf2", "swp1");
  EXPECT_TRUE(t.Outcome(2).first.ok());
  // A group that comes to cross one learns of it.
  t.w.JoinAll(4, "late");
  t.w.AnswerInstalls();
  t.Pass(kLinkLostAfter);
  EXPECT_EQ(t.w.Last<Failure>(100)->code, ErrorCode::kLinkLost);
}

TEST(HealthLinks, AMachineThatDiesWithItsCarriersIsALostSwitch) {
  Trial t(testing::Tree32());
  t.Pass(3 * kSecond);
  t.silent_agents.insert("leaf1");
  t.dead_engines.insert("leaf1");
  t.Cut("root", "swp1");
  const auto [failure, seconds] = t.Outcome();
  EXPECT_EQ(failure.code, ErrorCode::kSwitchLost);
  EXPECT_EQ(failure.switch_name, "leaf1");
  EXPECT_LE(seconds, 7.3);
}

// Its engine has told of each carrier that went before it, with words later than the first.
TEST(HealthLinks, AMachineWhoseCarriersGoOneByOneBeforeItDiesIsALostSwitch) {
  for (int phase = 0; phase < 10; ++phase) {
    Trial t(testing::Tree32());
    t.Pass(3 * kSecond + phase * kTick);
    for (const char* port : {"swp1", "swp2", "swp3"}) {
      t.Cut("leaf1", port);
      t.Heartbeats();
      t.Pass(kTick);
    }
    t.silent_agents.insert("leaf1");
    t.dead_engines.insert("leaf1");
    t.Cut("root", "swp1");
    t.Heartbeats();
    const auto [failure, seconds] = t.Outcome();
    EXPECT_EQ(failure.code, ErrorCode::kSwitchLost) << phase << ": " << failure.message;
    EXPECT_LE(seconds, 7.3) << phase;
  }
}

}  // namespace
}  // namespace epic::manager
