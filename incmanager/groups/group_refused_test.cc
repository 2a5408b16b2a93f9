// Groups of hosts that are not where the file has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;

class Misplaced : public ::testing::Test {
 protected:
  void Misplace(const std::string& host) { w.topology.nodes[w.Id(host)].misplaced = "it is elsewhere"; }
  void ExpectTold(uint32_t size, ErrorCode code, int32_t rank) {
    for (uint32_t to = 0; to < size; ++to) {
      const auto* failure = w.Last<Failure>(100 + to);
      ASSERT_NE(failure, nullptr) << to;
      EXPECT_EQ(failure->code, code);
      EXPECT_EQ(failure->rank, rank);
      EXPECT_EQ(failure->message, "it is elsewhere");
    }
  }

  GroupWorldFixture w{testing::Tree32()};
};

TEST_F(Misplaced, AGroupOfItIsRefusedOnAllRanks) {
  for (const Path path : {Path::kUnspecified, Path::kNetwork, Path::kHosts}) {
    w.path = path;
    Misplace("h2");
    w.JoinAll(4);
    ExpectTold(4, ErrorCode::kNoTree, 2);
    EXPECT_TRUE(w.world.installs.empty());
    for (uint32_t rank = 0; rank < 4; ++rank) w.groups()->OnSessionClosed(w.now, 100 + rank);
    w.AnswerRemovals();
  }
}

TEST_F(Misplaced, AGroupThatRunsFailsOnAllRanks) {
  w.JoinAll(4);
  w.AnswerInstalls();
  ASSERT_EQ(w.Phase(), "running");
  Misplace("h3");
  w.groups()->FailMoved(w.now);
  ExpectTold(4, ErrorCode::kLinkLost, 3);
}

TEST_F(Misplaced, OthersGoOn) {
  w.JoinAll(2);
  w.AnswerInstalls();
  Misplace("h3");
  w.groups()->FailMoved(w.now);
  EXPECT_EQ(w.Phase(), "running");
}

TEST_F(Misplaced, IsWhatExplainSays) {
  GroupSpec spec;
  spec.hosts = {"h0", "h1", "h2"};
  ASSERT_TRUE(w.groups()->Explain(spec)->failure.ok());
  Misplace("h1");
  const auto placement = w.groups()->Explain(spec);
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->failure.code, ErrorCode::kNoTree);
  EXPECT_EQ(placement->failure.message, "it is elsewhere");
  EXPECT_EQ(placement->path, Path::kUnspecified);
  for (const RootChoice& choice : placement->roots) EXPECT_FALSE(choice.chosen);
}

}  // namespace
}  // namespace epic::manager
