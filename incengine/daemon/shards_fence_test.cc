// Whose a switch is whose groups are divided among shards.
#include <gmock/gmock.h>

#include <future>

#include "incengine/daemon/shards_testing.h"

namespace epic::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ShardsFence : public ShardsTest {};

proto::Fence Manager(const std::string& cluster, uint64_t epoch) {
  proto::Fence manager;
  manager.set_cluster(cluster);
  manager.set_epoch(epoch);
  manager.set_keeps(true);
  return manager;
}

// On whichever shard its contexts are.
TEST_F(ShardsFence, WhatAnotherManagerAsksOfASwitchWithContextsIsRefused) {
  proto::InstallRequest install;
  *install.mutable_group() = Group(7, 2);
  *install.mutable_fence() = Manager("first", 3);
  ASSERT_TRUE(control_.Install(install).ok());
  proto::EngineInfo info = *control_.Describe();
  EXPECT_EQ(info.fence().SerializeAsString(), Manager("first", 3).SerializeAsString());
  EXPECT_TRUE(info.fenced());
  const auto refuses = [this](const proto::Fence& manager) {
    proto::InstallRequest another;
    *another.mutable_group() = Group(8, 1);
    another.set_takes_refusal(true);
    *another.mutable_fence() = manager;
    proto::RemoveRequest remove;
    remove.set_group_id(7);
    remove.set_generation(1);
    *remove.mutable_fence() = manager;
    proto::FailRequest fail;
    fail.set_group_id(7);
    fail.set_generation(1);
    *fail.mutable_fence() = manager;
    proto::SetForwardingRequest forwarding;
    *forwarding.mutable_fence() = manager;
    proto::HoldRequest hold;
    *hold.mutable_fence() = manager;
    for (const Status& status :
         {control_.Install(another).status(), control_.Remove(remove).status(), control_.Fail(fail).status(),
          control_.SetForwarding(forwarding).status(), control_.Hold(hold).status()}) {
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("fenced: "));
    }
    EXPECT_THAT(GroupsOn(2), ElementsAre(7));
  };
  refuses(Manager("second", 9));
  refuses(Manager("first", 2));
  proto::HoldRequest takes_over;
  *takes_over.mutable_fence() = Manager("second", 1);
  takes_over.set_takes_over(true);
  EXPECT_TRUE(control_.Hold(takes_over).ok());
  refuses(Manager("first", 3));
  proto::RemoveRequest remove;
  remove.set_group_id(7);
  remove.set_generation(1);
  *remove.mutable_fence() = Manager("second", 1);
  EXPECT_TRUE(control_.Remove(remove).ok());
  info = *control_.Describe();
  EXPECT_FALSE(info.fenced()) << "there is nothing left to be taken from";
  install.mutable_fence()->set_epoch(4);
  EXPECT_TRUE(control_.Install(install).ok());
}

// Whoever has a context there when both have ended has the switch.
TEST_F(ShardsFence, TwoManagersAtTheSameMomentDoNotBothGetTheSwitch) {
  for (int round = 0; round < 200; ++round) {
    std::promise<void> begin;
    const std::shared_future<void> begun = begin.get_future().share();
    auto installed = std::async(std::launch::async, [&] {
      proto::InstallRequest install;
      *install.mutable_group() = Group(7, 2);
      *install.mutable_fence() = Manager("first", 3);
      begun.wait();
      return control_.Install(install).ok();
    });
    auto held = std::async(std::launch::async, [&] {
      proto::HoldRequest hold;
      *hold.mutable_fence() = Manager("second", 3);
      begun.wait();
      return control_.Hold(hold).ok();
    });
    begin.set_value();
    EXPECT_TRUE(installed.get());
    const bool both = held.get();
    ASSERT_EQ(control_.Describe()->fence().cluster(), "first") << "round " << round << ", both: " << both;
    proto::RemoveRequest remove;
    remove.set_group_id(7);
    remove.set_generation(1);
    *remove.mutable_fence() = Manager("first", 3);
    ASSERT_TRUE(control_.Remove(remove).ok());
  }
}

}  // namespace
}  // namespace epic::daemon
