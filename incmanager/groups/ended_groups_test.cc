#include "incmanager/groups/ended_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;
using ::testing::HasSubstr;

TEST(EndedGroups, KeepsTheNewestOfEachName) {
  EndedGroups ends;
  EXPECT_EQ(ends.Find("a"), nullptr);
  ends.Add({.name = "a", .at = 1, .how = "all 2 ranks have left"});
  ends.Add({.name = "b", .at = 2, .how = "destroyed"});
  ends.Add({.name = "a", .at = 3, .how = "failed: x"});
  EXPECT_EQ(ends.size(), 2u);
  ends.CheckInvariants();
  EXPECT_EQ(ends.Find("a")->how, "failed: x");
  EXPECT_EQ(ends.Find("a")->at, 3);
  EXPECT_EQ(ends.Find("b")->how, "destroyed");
}

// One that is made and fails again and again pushes out nothing.
TEST(EndedGroups, IsBounded) {
  EndedGroups ends;
  ends.Add({.name = "first"});
  ends.Add({.name = "second"});
  for (int i = 0; i < 30'000; ++i) ends.Add({.name = "again"});
  EXPECT_NE(ends.Find("first"), nullptr);
  for (size_t i = 0; i < EndedGroups::kKept - 2; ++i) ends.Add({.name = "g" + std::to_string(i)});
  EXPECT_EQ(ends.size(), EndedGroups::kKept);
  ends.CheckInvariants();
  EXPECT_EQ(ends.Find("first"), nullptr);
  EXPECT_NE(ends.Find("second"), nullptr);
  ends.Add(
      {.name = "long", .how = std::string(100'000, 'x'), .failure = {.message = std::string(100'000, 'y')}});
  EXPECT_LE(ends.Find("long")->how.size(), EndedGroups::kMaxTextBytes + 3);
  EXPECT_LE(ends.Find("long")->failure.message.size(), EndedGroups::kMaxTextBytes + 3);
}

// Each rank leaves in order when a switch has refused a call. The one that differs knows what it called
// itself.
TEST(GroupLife, SaysWhatASwitchRefusedWhenAllHaveLeft) {
  GroupWorldFixture w(testing::Star(2));
  w.JoinAll(2);
  w.AnswerInstalls();
  const std::string words = "rank 1 called with another count than rank 0 (rank 0: 100";
  w.groups()->OnLeave(w.now, 101, {ErrorCode::kMismatch, words + ", rank 1: 101)", -1, ""});
  w.groups()->OnLeave(w.now, 100, {ErrorCode::kMismatch, words + ")", -1, ""});
  w.AnswerRemovals();
  ASSERT_NE(w.groups()->EndOf("g"), nullptr);
  EXPECT_EQ(w.groups()->EndOf("g")->how, "failed: " + words + ", rank 1: 101)");
}

TEST(GroupLife, SaysHowAGroupEnded) {
  GroupWorldFixture w(testing::Star(2));
  EXPECT_EQ(w.groups()->EndOf("g"), nullptr);
  w.JoinAll(2);
  w.AnswerInstalls();
  for (const SessionId session : {100, 101}) w.groups()->OnLeave(w.now, session);
  w.AnswerRemovals();
  EXPECT_EQ(w.Phase(), "none");
  ASSERT_NE(w.groups()->EndOf("g"), nullptr);
  EXPECT_EQ(w.groups()->EndOf("g")->how, "all 2 ranks have left");
  EXPECT_TRUE(w.groups()->EndOf("g")->failure.ok());
  EXPECT_EQ(w.groups()->EndOf("g")->at, w.now);
  EXPECT_EQ(w.groups()->EndOf("g")->world_size, 2u);

  // Another life of the name, and its end is that of the name then.
  w.now += kSecond;
  w.JoinAll(2);
  w.AnswerInstalls();
  EXPECT_EQ(w.groups()->EndOf("g")->how, "all 2 ranks have left") << "this one has not ended";
  w.groups()->OnSessionClosed(w.now, 101);
  EXPECT_THAT(w.groups()->EndOf("g")->how, HasSubstr("failed: rank 1 on h1 (pid 1001) is gone"));
  EXPECT_EQ(w.groups()->EndOf("g")->failure.code, ErrorCode::kRankLost);
  EXPECT_EQ(w.groups()->EndOf("g")->id, w.groups()->Find("g")->id);
  w.groups()->OnSessionClosed(w.now, 100);
  w.AnswerRemovals();
  EXPECT_EQ(w.Phase(), "none");
  EXPECT_EQ(w.groups()->EndOf("g")->failure.code, ErrorCode::kRankLost);
}

TEST(GroupLife, SaysHowAGroupEndedThatNeverRan) {
  GroupWorldFixture w(testing::Star(2));
  w.Join(0, 2);
  w.groups()->OnSessionClosed(w.now, 100);
  EXPECT_EQ(w.groups()->EndOf("g")->how, "rank 0 went away, the last of those that waited for the others");
  GroupSpec spec;
  spec.name = "reserved";
  spec.world_size = 2;
  ASSERT_TRUE(w.groups()->Create(spec).ok());
  ASSERT_TRUE(w.groups()->Destroy(w.now, "reserved", false).ok());
  EXPECT_EQ(w.groups()->EndOf("reserved")->how, "destroyed");
  EXPECT_EQ(w.groups()->EndOf("reserved")->id, 0u);
}

// That its operator takes back the reservation afterwards says less.
TEST(GroupLife, DestroyingWhatHasEndedKeepsHowItEnded) {
  GroupWorldFixture w(testing::Star(2));
  GroupSpec spec;
  spec.name = "g";
  spec.world_size = 2;
  ASSERT_TRUE(w.groups()->Create(spec).ok());
  w.JoinAll(2);
  w.AnswerInstalls();
  w.groups()->OnAbort(w.now, 100, "it will not go on");
  for (const SessionId session : {100, 101}) w.groups()->OnSessionClosed(w.now, session);
  w.AnswerRemovals();
  EXPECT_EQ(w.Phase(), "reserved");
  ASSERT_TRUE(w.groups()->Destroy(w.now, "g", false).ok());
  EXPECT_THAT(w.groups()->EndOf("g")->how, HasSubstr("it will not go on"));
}

// While the contexts of two failed lives are still there, the last one is shown.
TEST(GroupLife, FindsTheLastOfSeveralFailedLives) {
  GroupWorldFixture w(testing::Star(2));
  for (int life = 0; life < 2; ++life) {
    w.JoinAll(2);
    w.AnswerInstalls();
    w.groups()->OnAbort(w.now, 100, life == 0 ? "first" : "last");
    for (const SessionId session : {100, 101}) w.groups()->OnSessionClosed(w.now, session);
  }
  ASSERT_EQ(w.Phase(), "failed");
  EXPECT_THAT(w.groups()->Find("g")->failure.message, HasSubstr("last"));
}

}  // namespace
}  // namespace epic::manager
