#include "incmanager/cli/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace epic::manager {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RenderGroup, ShowsAHostWithoutRanks) {
  proto::GroupState group;
  proto::TreeNode& root = *group.add_tree();
  root.set_switch_name("leaf1");
  root.mutable_config()->add_children()->set_is_host(true);
  EXPECT_THAT(RenderGroup(group), HasSubstr("rank 0"));
}

TEST(RenderGroup, SaysWhetherAGroupIsWatched) {
  proto::GroupState group;
  EXPECT_THAT(RenderGroup(group), Not(HasSubstr("watched")));
  group.add_tree();
  EXPECT_THAT(RenderGroup(group), HasSubstr("watched     no"));
  group.set_watched(true);
  EXPECT_THAT(RenderGroup(group), HasSubstr("watched     yes"));
  group.mutable_failure();
  EXPECT_THAT(RenderGroup(group), Not(HasSubstr("watched")));
}

TEST(RenderGroup, SumsWhatSwitchesHadToSendAgain) {
  proto::GroupState group;
  for (const uint64_t repeats : {2, 3}) {
    proto::Counter& counter = *group.add_tree()->add_trouble();
    counter.set_name("repeats");
    counter.set_value(repeats);
  }
  EXPECT_THAT(RenderGroup(group), HasSubstr("trouble     repeats 5\n"));
}

// A switch without a name is its own parent.
TEST(RenderGroup, EndsWhereTheTreeIsNone) {
  proto::GroupState group;
  proto::TreeNode& loop = *group.add_tree();
  loop.mutable_config()->set_name("loop");
  loop.mutable_config()->add_children();
  loop.mutable_config()->mutable_parent();
  const std::string text = RenderGroup(group);
  EXPECT_LT(text.size(), 1000u) << text;
}

}  // namespace
}  // namespace epic::manager
