#include "incmanager/cli/why.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "incmanager/cli/render.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

proto::GroupState GroupIn(const std::string& state, uint64_t id = 7) {
  proto::GroupState group;
  group.set_name("g");
  group.set_group_id(id);
  group.set_state(state);
  group.set_world_size(4);
  for (const char* host : {"h0", "h1", "h2", ""}) group.add_rank_hosts(host);
  return group;
}

proto::GroupState EndedIn(const std::string& state, uint64_t id, int64_t ms_ago) {
  proto::GroupState group = GroupIn(state, id);
  proto::GroupEnd& end = *group.mutable_last_end();
  end.set_group_id(7);
  end.set_ms_ago(ms_ago);
  end.set_how("failed: rank 1 on h1 (pid 9) is gone");
  end.mutable_failure()->set_code(proto::ERROR_RANK_LOST);
  end.mutable_failure()->set_message("rank 1 on h1 (pid 9) is gone");
  return group;
}

std::string Why(const proto::GroupState& group) { return RenderWhy(WhyOf(group)); }

TEST(Why, NamesWhoHasNotJoined) {
  proto::GroupState group = GroupIn("joining");
  group.add_joined_ranks(0);
  group.add_joined_ranks(2);
  EXPECT_EQ(Why(group), "group g: waits for ranks 1 (h1), 3 to join; 2 of 4 have\n");
  group.add_joined_ranks(3);
  EXPECT_EQ(Why(group), "group g: waits for rank 1 (h1) to join; 3 of 4 have\n");
  EXPECT_EQ(Why(GroupIn("reserved")), "group g: reserved for 4 ranks: none has joined\n");
}

TEST(Why, SaysWhomARunningGroupWaitsFor) {
  proto::GroupState group = GroupIn("running");
  EXPECT_EQ(Why(group), "group g: running with 4 ranks\n");
  group.set_tells_waits(true);
  EXPECT_EQ(Why(group), "group g: running with 4 ranks, and waits for nobody\n");
  group.mutable_wait()->set_words("allreduce 17: waits for rank 1 (h1)");
  group.mutable_wait()->add_for_ranks(1);
  EXPECT_EQ(Why(group), "group g: allreduce 17: waits for rank 1 (h1)\n");
  EXPECT_EQ(WhyOf(group).wait().for_ranks_size(), 1);
  EXPECT_THAT(RenderGroup(group), HasSubstr("waits       allreduce 17: waits for rank 1 (h1)\n"));
}

TEST(Why, SaysHowAGroupEnded) {
  EXPECT_EQ(Why(EndedIn("ended", 7, 4200)),
            "group g ended 4.2 s ago: failed: rank 1 on h1 (pid 9) is gone\n");
  EXPECT_EQ(WhyOf(EndedIn("ended", 7, 4200)).failure().code(), proto::ERROR_RANK_LOST);
  EXPECT_EQ(Why(EndedIn("failed", 7, 13 * 60'000)),
            "group g ended 13 min ago: failed: rank 1 on h1 (pid 9) is gone\n");
}

TEST(Why, SaysHowTheGroupBeforeEnded) {
  EXPECT_EQ(Why(EndedIn("running", 8, 5 * 3'600'000)),
            "group g: running with 4 ranks\n"
            "the last group of this name ended 5 h ago: failed: rank 1 on h1 (pid 9) is gone\n");
  EXPECT_FALSE(WhyOf(EndedIn("running", 8, 1000)).has_failure()) << "that was the other's";
  EXPECT_THAT(Why(EndedIn("reserved", 0, 1000)), HasSubstr("reserved for 4 ranks"));
}

TEST(RenderGroup, OfOneThatHasEndedSaysHowAndNoMore) {
  const std::string text = RenderGroup(EndedIn("ended", 7, 4200));
  EXPECT_THAT(text, HasSubstr("ended       4.2 s ago: failed: rank 1 on h1 (pid 9) is gone\n"));
  EXPECT_THAT(text, HasSubstr("failure     rank lost: rank 1"));
  EXPECT_THAT(text, Not(HasSubstr("path MTU")));
  EXPECT_THAT(RenderGroup(EndedIn("running", 8, 4200)), HasSubstr("before      4.2 s ago: failed: rank 1"));
}

}  // namespace
}  // namespace epic::manager
