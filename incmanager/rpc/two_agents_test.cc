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
  StatusOr<proto::RegisterReply> Register(const std::string& address, uint64_t instance = 0) {
    proto::RegisterRequest request;
    request.set_instance(instance);
    request.set_name(kName);
    request.set_agent_address(address);
    *request.mutable_engine() = model_.Describe();
    return state_.Register(now_, request);
  }
  // Whether it is to register again.
  bool Heartbeat(uint64_t epoch, uint64_t instance = 0) {
    proto::HeartbeatRequest request;
    request.set_instance(instance);
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

TEST_F(TwoAgents, OneThatStartsAnewAtItsAddressIsTakenAtOnce) {
  const uint64_t first = Register("10.0.0.1:7401", 7)->epoch();
  EXPECT_FALSE(Heartbeat(first, 7));
  const uint64_t anew = Register("10.0.0.1:7401", 8)->epoch();
  EXPECT_FALSE(Heartbeat(anew, 8));
}

// Both are behind one address, at which the manager reaches one of them.
TEST_F(TwoAgents, ThoseThatSayTheSameAddressDoNotTakeTurns) {
  const uint64_t first = Register("10.0.0.1:7401", 7)->epoch();
  const uint64_t second = Register("10.0.0.1:7401", 8)->epoch();
  EXPECT_TRUE(Heartbeat(first, 7)) << "what it says is not from where the manager calls";
  EXPECT_EQ(std::string(Register("10.0.0.1:7401", 7).status().message()),
            "leaf2 has two agents that say they are at 10.0.0.1:7401; the one that has registered later is heard");
  EXPECT_FALSE(Heartbeat(second, 8));
  now_ += kSilentAfter;  // the second has ended
  EXPECT_TRUE(Register("10.0.0.1:7401", 7).ok());
  EXPECT_FALSE(Heartbeat(first, 7));
}

TEST_F(TwoAgents, AnAgentThatNobodyCanCallIsRefused) {
  for (const char* address : {"", "0.0.0.0:7401", "[::]:7401", "10.0.0.1:0", "10.0.0.1", "10.0.0.1:99999", "a\nb:1"}) {
    const auto reply = Register(address);
    EXPECT_EQ(reply.status().code(), StatusCode::kInvalidArgument) << address;
    const std::string message(reply.status().message());
    EXPECT_EQ(message.find("agent_address: "), 0U) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

// It has stood still twice in a row: what its agents have said meanwhile is heard when it has run for a
// moment.
TEST_F(TwoAgents, AManagerThatHasStoodStillJudgesNobodyWhileItIsLate) {
  const uint64_t epoch = Register("10.0.0.1:7401")->epoch();
  const auto state = [this] {
    const proto::ListSwitchesReply switches = state_.ListSwitches(now_);
    for (const auto& each : switches.switches())
      if (each.name() == kName) return each.state();
    return std::string();
  };
  const auto runs_for = [this](Nanos time) {
    for (const Nanos end = now_ + time; now_ < end; state_.Tick(now_ += 100 * kMillisecond)) {
    }
  };
  runs_for(kSecond);
  const std::string before = state();
  for (int still = 0; still < 2; ++still) state_.Tick(now_ += 5 * kSecond);
  EXPECT_EQ(state(), before) << "10 s without a word";
  EXPECT_FALSE(Heartbeat(epoch));
  runs_for(kSecond);
  EXPECT_EQ(state(), before);
  runs_for(10 * kSecond);
  EXPECT_EQ(state(), "agent lost") << "it has run, and nothing has come";
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
