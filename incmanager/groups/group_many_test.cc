// So many groups at once as the manager is made for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;

constexpr uint32_t kGroups = 10'000;
constexpr uint32_t kRanks = 2;

class GroupMany : public ::testing::Test {
 protected:
  static std::string Named(uint32_t group) { return fmt::format("g{:05}", group); }
  SessionId SessionOf(uint32_t group, uint32_t rank) const {
    return SessionId{1} + (life_ * kGroups + group) * kRanks + rank;
  }
  // Whether none of the tables has anything of a group.
  void ExpectEmpty() {
    w_.checks = true;
    EXPECT_TRUE(w_.groups()->load() == Load{});
    for (const NodeId node : w_.topology.switches) {
      EXPECT_EQ(w_.groups()->qpns().InUse(node), 0u) << w_.topology.nodes[node].name;
      EXPECT_TRUE(w_.groups()->GroupsOn(node).empty());
    }
    EXPECT_TRUE(w_.groups()->Names().empty());
    EXPECT_FALSE(w_.groups()->HasSession(SessionOf(0, 0)));
  }
  void CreateAndJoin() {
    w_.checks = false;
    for (uint32_t group = 0; group < kGroups; ++group) {
      GroupSpec spec;
      spec.name = Named(group);
      spec.world_size = kRanks;
      spec.path = Path::kNetwork;
      ASSERT_TRUE(w_.groups()->Create(spec).ok());
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        const auto host = "h" + std::to_string((group + 2 * rank) % 4);
        w_.groups()->OnJoin(w_.now, SessionOf(group, rank), w_.Request(host, rank, kRanks, spec.name));
      }
    }
    w_.AnswerInstalls();
  }
  void LeaveAndDestroy() {
    for (uint32_t group = 0; group < kGroups; ++group) {
      for (uint32_t rank = 0; rank < kRanks; ++rank) w_.groups()->OnLeave(w_.now, SessionOf(group, rank));
    }
    w_.AnswerRemovals();
    for (uint32_t group = 0; group < kGroups; ++group)
      ASSERT_TRUE(w_.groups()->Destroy(w_.now, Named(group), false).ok());
  }

  GroupWorldFixture w_{testing::Tree32()};
  uint32_t life_ = 0;
};

TEST_F(GroupMany, LeaveNothingBehind) {
  ExpectEmpty();
  // QPNs of the life before are in quarantine, and then there again.
  for (; life_ < 3; ++life_, w_.now += QpnPool::kQuarantine) {
    CreateAndJoin();
    EXPECT_EQ(w_.groups()->Names().size(), kGroups);
    EXPECT_EQ(w_.groups()->GroupsOn(w_.Id("root")).size(), kGroups);
    for (uint32_t group = 0; group < kGroups; group += 99)
      EXPECT_NE(w_.Last<JoinedReply>(SessionOf(group, 0)), nullptr) << group;
    LeaveAndDestroy();
    EXPECT_NE(w_.Last<LeftNote>(SessionOf(kGroups - 1, 1)), nullptr);
    ExpectEmpty();
  }
}

}  // namespace
}  // namespace epic::manager
