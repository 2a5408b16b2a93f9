// Two managers and one switch: what a manager answers to a switch that is another one's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/rpc/switch_model_testing.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;

class ManagerFence : public ::testing::Test {
 protected:
  ManagerFence() {
    state_.NameItself("\x0b", 3, true);
    request_.set_name("root");
    request_.set_agent_address("10.0.0.1:7401");
    *request_.mutable_engine() = model_.Describe();
    request_.mutable_engine()->mutable_fence()->set_cluster("\x0a");
    request_.mutable_engine()->mutable_fence()->set_epoch(7);
    request_.mutable_engine()->mutable_fence()->set_keeps(true);
    request_.mutable_engine()->set_fenced(true);
  }
  StatusOr<proto::RegisterReply> Register() { return state_.Register(kSecond, request_); }
  proto::Fence& held() { return *request_.mutable_engine()->mutable_fence(); }

  const Topology topology_ = testing::Tree32().Build();
  testing::SwitchModel model_{topology_.nodes[topology_.FindSwitch("root").value()]};
  testing::IdleWorld world_;
  ManagerState state_{topology_, {}, 1, 1, &world_};
  proto::RegisterRequest request_;
};

TEST_F(ManagerFence, ASwitchWithContextsOfAnotherManagerIsRefusedUntilItIsAdopted) {
  const Status refused = Register().status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(refused.message()),
      HasSubstr("fenced: it has contexts of cluster 0a, epoch 7, and this manager is of cluster 0b, epoch 3; "
                "`incmanager adopt root` makes it"));
  request_.set_follows("\x0a");
  EXPECT_FALSE(Register().ok()) << "whose groups outlive it may come back";
  EXPECT_EQ(state_.Adopt(kSecond, "none").code(), StatusCode::kNotFound);
  ASSERT_TRUE(state_.Adopt(kSecond, "root").ok());
  for (int time = 0; time < 2; ++time) {
    const auto reply = Register();
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_TRUE(reply->takes_over()) << "until the switch has heard of it";
    EXPECT_EQ(reply->fence().cluster(), "\x0b");
    EXPECT_EQ(reply->fence().epoch(), 3u);
  }
  proto::Fence other = held();
  held() = state_.fence();
  EXPECT_FALSE(Register()->takes_over());
  held() = other;
  EXPECT_FALSE(Register().ok()) << "once";
}

// Else it would stand until some day another one has the switch.
TEST_F(ManagerFence, AWishForASwitchThatIsThisManagersGoesWithItsNextHeartbeat) {
  const proto::Fence other = held();
  held() = state_.fence();
  const auto first = Register();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(state_.Adopt(kSecond, "root").ok());
  proto::HeartbeatRequest beat;
  beat.set_name("root");
  beat.set_epoch(first->epoch());
  beat.set_engine_up(true);
  *beat.mutable_engine() = request_.engine();
  EXPECT_FALSE(state_.Heartbeat(kSecond, beat)->register_again());
  held() = other;
  EXPECT_FALSE(Register().ok()) << "that was wished before it was another's";
}

TEST_F(ManagerFence, AWishForASwitchThatAnotherOneHasTakenIsCarriedOutByItsNextHeartbeat) {
  const proto::Fence other = held();
  held() = state_.fence();
  const auto first = Register();
  ASSERT_TRUE(first.ok()) << first.status();
  held() = other;
  proto::HeartbeatRequest beat;
  beat.set_name("root");
  beat.set_epoch(first->epoch());
  beat.set_engine_up(true);
  *beat.mutable_engine() = request_.engine();
  EXPECT_FALSE(state_.Heartbeat(kSecond, beat)->register_again());
  ASSERT_TRUE(state_.Adopt(kSecond, "root").ok());
  EXPECT_TRUE(state_.Heartbeat(kSecond, beat)->register_again());
  EXPECT_TRUE(Register()->takes_over());
}

TEST_F(ManagerFence, ASwitchWithoutContextsIsTaken) {
  request_.mutable_engine()->set_fenced(false);
  EXPECT_FALSE(Register()->takes_over());
}

TEST_F(ManagerFence, WhoServesAtTheAddressOfOneWithoutAStoreComesAfterIt) {
  held().set_keeps(false);
  EXPECT_FALSE(Register().ok());
  request_.set_follows("\x0a");
  EXPECT_TRUE(Register()->takes_over());
}

TEST_F(ManagerFence, AnEarlierManagerOfTheSameStoreIsRefused) {
  held() = state_.fence();
  EXPECT_TRUE(Register().ok());
  held().set_epoch(4);
  const Status refused = Register().status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has heard epoch 4 of cluster 0b"));
}

}  // namespace
}  // namespace epic::manager
