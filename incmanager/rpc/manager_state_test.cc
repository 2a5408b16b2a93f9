#include "incmanager/rpc/manager_state.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

// Keeps what ranks are told.
class World : public ManagerWorld {
 public:
  void Send(SessionId session, const proto::ServerMessage& message, bool) override {
    told[session] = message;
  }
  void SetAgent(NodeId, const std::string&) override {}
  void SetForwarding(NodeId, const proto::ForwardingTable&) override {}
  void Install(NodeId, const proto::GroupConfig&) override {}
  void Fail(NodeId, uint64_t, uint32_t) override {}
  void Remove(NodeId, uint64_t, uint32_t) override {}

  std::map<SessionId, proto::ServerMessage> told;  // last
};

proto::ClientMessage Join(const Topology& topology, uint32_t rank, const std::string& host_name) {
  proto::ClientMessage message;
  proto::Join& join = *message.mutable_join();
  join.set_group("g");
  join.set_rank(rank);
  join.set_world_size(3);
  join.set_ip(Raw(topology.nodes[topology.switch_count + rank].address));
  join.set_qpn(0x11);
  join.set_max_path_mtu(1024);
  join.set_host_name(host_name);
  return message;
}

// What one rank says is told to all others.
TEST(ManagerState, PassesOnALineOfAHostsText) {
  const Topology topology = testing::Star(3).Build();
  World world;
  ManagerState state(topology, {}, 1, 1, &world);
  std::string text = "x";
  for (int i = 0; i < 100'000; ++i) text += "\u00e4";
  state.OnMessage(kSecond, 1, Join(topology, 0, text));
  state.OnMessage(kSecond, 2, Join(topology, 1, "h1"));
  proto::ClientMessage abort;
  abort.mutable_abort()->set_reason(text);
  state.OnMessage(kSecond, 1, abort);
  const proto::ServerMessage& told = world.told[2];
  EXPECT_EQ(told.failure().code(), proto::ERROR_ABORTED);
  EXPECT_EQ(told.failure().rank(), 0);
  EXPECT_LT(told.ByteSizeLong(), 1000u);
  proto::ServerMessage parsed;
  EXPECT_TRUE(parsed.ParseFromString(told.SerializeAsString())) << "not UTF-8";
}

}  // namespace
}  // namespace epic::manager
