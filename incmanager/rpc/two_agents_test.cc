// Which agent a switch has, where another one says that it is the switch's as well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/rpc/switch_model_testing.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

class TwoAgents : public ::testing::Test {
 protected:
  StatusOr<proto::RegisterReply> Register(const std::string& address) {
    proto::RegisterRequest request;
    request.set_name(kName);
    request.set_agent_address(address);
    *request.mutable_engine() = model_.Describe();
    return state_.Register(now_, request);
  }
  // Whether it is to register again.
  bool Heartbeat(uint64_t epoch) {
    proto::HeartbeatRequest request;
    request.set_name(kName);
    request.set_epoch(epoch);
    request.set_engine_up(true);
    *request.mutable_engine() = model_.Describe();
    return state_.Heartbeat(now_, request)->register_again();
  }
  std::string CalledAt() { return world_.agents.at(*topology_.FindSwitch(kName)); }

  static constexpr const char* kName = "leaf2";
  struct AgentWorld : testing::IdleWorld {
    void SetAgent(NodeId node, const std::string& address) override { agents[node] = address; }
    std::map<NodeId, std::string> agents;
  };
  const Topology topology_ = testing::RoutedTree32().Build();
  AgentWorld world_;
  ManagerState state_{topology_, {}, 1, 1, &world_};
  testing::SwitchModel model_{topology_.nodes[*topology_.FindSwitch(kName)]};
  Nanos now_ = kSecond;
};

TEST_F(TwoAgents, TheSecondIsRefusedAndNamedWhileTheFirstIsHeard) {
  const uint64_t first = Register("10.0.0.1:7401")->epoch();
  for (int i = 0; i < 3; ++i) {
    now_ += kSecond;
    EXPECT_FALSE(Heartbeat(first));
    const auto second = Register("10.0.0.2:7401");
    EXPECT_EQ(second.status().code(), StatusCode::kAlreadyExists);
    EXPECT_EQ(std::string(second.status().message()),
              "leaf2 has an agent at 10.0.0.1:7401 that is heard; 10.0.0.2:7401 would be a second one");
    EXPECT_EQ(CalledAt(), "10.0.0.1:7401");
  }
  proto::EventsRequest warned;
  warned.set_about("switch leaf2");
  int told = 0;
  const proto::EventsReply reply = state_.Events(now_, warned);
  for (const proto::Event& event : reply.events())
    told += event.text().find("would be a second one") != std::string::npos ? 1 : 0;
  EXPECT_EQ(told, 1) << "however often it tries";
  EXPECT_TRUE(Register("10.0.0.1:7401").ok()) << "which was started anew";
  EXPECT_FALSE(Heartbeat(first));
}

TEST_F(TwoAgents, TheSwitchIsCalledWhereItsAgentIsWhoeverEnds) {
  const uint64_t first = Register("10.0.0.1:7401")->epoch();
  now_ += kSilentAfter;  // the first has stopped
  const uint64_t second = Register("10.0.0.2:7401")->epoch();
  EXPECT_EQ(CalledAt(), "10.0.0.2:7401");
  EXPECT_TRUE(Heartbeat(first)) << "and goes on";
  EXPECT_FALSE(Heartbeat(second));
  EXPECT_FALSE(Register("10.0.0.1:7401").ok());
  now_ += kSilentAfter;  // the second has ended
  EXPECT_TRUE(Heartbeat(first));
  const uint64_t again = Register("10.0.0.1:7401")->epoch();
  EXPECT_EQ(CalledAt(), "10.0.0.1:7401");
  EXPECT_FALSE(Heartbeat(again));
}

TEST(ManagerStateAgents, WithDiscoveryAnAgentAndItsEngineHaveOneName) {
  testing::IdleWorld world;
  ManagerState state({.name = "discovered", .path_mtu = 4096, .discovery = true}, {}, 1, 1, &world);
  proto::RegisterRequest request;
  request.set_name("leaf7");
  request.set_agent_address("10.0.0.1:7401");
  request.mutable_engine()->set_name("leaf1");
  EXPECT_THAT(
      std::string(state.Register(kSecond, request).status().message()),
      ::testing::HasSubstr(
          "the agent calls its switch leaf7, and the engine calls itself leaf1: with discovery both"));
}

}  // namespace
}  // namespace epic::manager
