// The manager without a topology file, and with a network that changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/rpc/switch_model_testing.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;

// Agents that answer when they are told to.
class World : public testing::IdleWorld {
 public:
  void Send(SessionId session, const proto::ServerMessage& message, bool) override {
    told[session] = message;
  }
  void SetForwarding(NodeId node, const proto::ForwardingTable& table) override {
    asked.push_back(node);
    tables[node] = table;
  }
  void Install(NodeId node, const proto::GroupConfig& group) override { installs.emplace_back(node, group); }
  void Probe(NodeId witness, NodeId, const proto::ProbeRequest& request) override {
    probes.emplace_back(witness, request.port());
  }
  void Locate(NodeId node, const proto::LocateRequest& request) override {
    located.emplace_back(node, request.ip());
    unanswered.emplace_back(node, request.ip());
  }

  std::vector<NodeId> asked;
  std::vector<std::pair<NodeId, proto::GroupConfig>> installs;
  std::vector<std::pair<NodeId, std::string>> probes;  // by whom and by which port
  std::map<NodeId, proto::ForwardingTable> tables;     // last
  std::vector<std::pair<NodeId, uint32_t>> located, unanswered;
  std::map<SessionId, proto::ServerMessage> told;  // last
};

// Two switches and a link, as their engines tell of them.
class Found {
 public:
  Found() {
    for (int i = 0; i < 2; ++i) {
      proto::EngineInfo& engine = engines[i];
      engine.set_name("s" + std::to_string(i + 1));
      engine.set_address(0x0a0affffu - static_cast<uint32_t>(i));
      engine.set_mac(std::string("\x02\x00\x00\x00\x00", 5) + static_cast<char>(i + 1));
      engine.set_boot_id(7);
      for (const char* port : {"p1", "p2"}) {
        engine.add_ports()->set_name(port);
        engine.mutable_ports()->rbegin()->set_up(true);
      }
      engine.mutable_capability()->set_max_path_mtu(4096);
    }
    for (int i = 0; i < 2; ++i) {
      proto::Neighbour& other = *engines[i].mutable_ports(0)->add_neighbours();
      other.set_kind(proto::NEIGHBOUR_SWITCH);
      other.set_name(engines[1 - i].name());
      other.set_port("p1");
      other.set_ip(engines[1 - i].address());
      other.set_mac(engines[1 - i].mac());
    }
  }
  void Register(int i) {
    proto::RegisterRequest request;
    request.set_name(engines[i].name());
    request.set_agent_address("10.0.0.1:7401");
    *request.mutable_engine() = engines[i];
    ASSERT_TRUE(state.Register(now, request).ok());
  }
  void Beat(int i) {
    proto::HeartbeatRequest request;
    request.set_name(engines[i].name());
    request.set_epoch(1);
    request.set_engine_up(true);
    *request.mutable_engine() = engines[i];
    ASSERT_TRUE(state.Heartbeat(now, request).ok());
  }
  void Pass(Nanos time) {
    for (const Nanos end = now + time; now < end;) {
      now += 100 * kMillisecond;
      state.Tick(now);
      for (const NodeId node : std::exchange(world.asked, {}))
        state.OnForwardingSet(now, node, absl::OkStatus());
      for (const auto& [node, ip] : std::exchange(world.unanswered, {})) {
        proto::LocateReply reply;
        reply.set_asked(true);
        state.OnLocated(now, node, ip, reply);
      }
      for (int i = 0; i < 2; ++i) Beat(i);
    }
  }
  void SeeHost(int i, uint32_t ip) {
    proto::Neighbour& host = *engines[i].mutable_ports(1)->add_neighbours();
    host.set_kind(proto::NEIGHBOUR_HOST);
    host.set_ip(ip);
    host.set_mac(std::string("\x02\x01\x00\x00\x00", 5) + static_cast<char>(ip));
    host.set_heard_by(proto::HEARD_BY_ARP);
  }
  std::vector<std::string> StatesOf() const {
    std::vector<std::string> states;
    const proto::ListSwitchesReply reply = state.ListSwitches(now);
    for (const proto::SwitchState& at : reply.switches()) states.push_back(at.state());
    return states;
  }
  std::vector<std::string> Events() const {
    std::vector<std::string> texts;
    const proto::EventsReply reply = state.Events(now, {});
    for (const proto::Event& event : reply.events()) texts.push_back(event.text());
    return texts;
  }
  proto::ClientMessage Join(uint32_t rank, uint32_t ip) const {
    proto::ClientMessage message;
    proto::Join& join = *message.mutable_join();
    join.set_group("g");
    join.set_rank(rank);
    join.set_world_size(2);
    join.set_ip(ip);
    join.set_qpn(0x11 + rank);
    join.set_max_path_mtu(1024);
    join.set_host_name("alpha" + std::to_string(rank));
    return message;
  }

  World world;
  ManagerState state{Topology{.name = "found", .path_mtu = 4096, .discovery = true}, {}, 1, 1, &world};
  Nanos now = kSecond;
  proto::EngineInfo engines[2];
};

TEST(ManagerGraph, TablesAreSentWhenTheNetworkIsGathered) {
  Found found;
  found.state.Tick(found.now);
  found.Register(0);
  found.Register(1);
  found.SeeHost(0, 0x0a0a0001);
  found.Beat(0);
  EXPECT_TRUE(found.world.tables.empty()) << "others may register yet";
  found.Pass(3 * kSecond);
  EXPECT_EQ(found.StatesOf(), (std::vector<std::string>{"up", "up"}));
  ASSERT_EQ(found.world.tables[1].entries_size(), 2) << "s1 and the host";
  EXPECT_EQ(found.world.tables[1].entries(1).ip(), 0x0a0a0001u);
  EXPECT_EQ(found.world.tables[1].entries(1).port(), "p1");
  EXPECT_THAT(found.Events(), ::testing::Contains("host 10.10.0.1 at s1:p2 is new"));
  EXPECT_THAT(found.state.DescribeTopology().yaml(), HasSubstr("{a: \"s1:p1\", b: \"s2:p1\""));
}

TEST(ManagerGraph, ARankWaitsUntilItsHostIsFound) {
  Found found;
  found.Register(0);
  found.Register(1);
  found.Pass(3 * kSecond);
  found.world.located.clear();
  found.state.OnMessage(found.now, 1, found.Join(0, 0x0a0a0001));
  EXPECT_EQ(found.world.located,
            (std::vector<std::pair<NodeId, uint32_t>>{{0, 0x0a0a0001}, {1, 0x0a0a0001}}));
  EXPECT_TRUE(found.world.told.empty());
  found.SeeHost(1, 0x0a0a0001);
  found.Pass(kSecond);
  EXPECT_THAT(found.Events(), ::testing::Contains("host 10.10.0.1 is alpha0"));
  EXPECT_EQ(found.state.ShowGroup("g")->rank_hosts(0), "alpha0");
  found.state.OnMessage(found.now, 2, found.Join(1, 0x0a0a0002));
  found.Pass(2 * kSecond);
  EXPECT_FALSE(found.world.told.contains(2));
  found.Pass(2 * kSecond);
  EXPECT_EQ(found.world.told[2].failure().code(), proto::ERROR_NOT_FOUND);
  EXPECT_THAT(found.world.told[2].failure().message(), HasSubstr("has no host with the address 10.10.0.2"));
}

// Where it was once another switch, or a host, may be now.
TEST(ManagerGraph, ASwitchIsAskedForEchoesWhereItIs) {
  Found found;
  for (const int i : {0, 1}) found.Register(i);
  found.Pass(3 * kSecond);
  for (proto::EngineInfo& engine : found.engines) {
    engine.mutable_ports()->Add()->set_name("p3");
    engine.mutable_ports(2)->set_up(true);
    *engine.mutable_ports(2)->mutable_neighbours() = engine.ports(0).neighbours();
    engine.mutable_ports(2)->mutable_neighbours(0)->set_port("p3");
    engine.mutable_ports(0)->clear_neighbours();
    engine.mutable_capability()->add_modes(proto::MODE_TRANSLATED);
    engine.mutable_capability()->set_max_children(64);
    for (proto::PortInfo& port : *engine.mutable_ports()) port.set_mtu(4200);
  }
  for (uint32_t i = 0; i < 2; ++i) found.SeeHost(static_cast<int>(i), 0x0a0a0001 + i);
  *found.engines[0].mutable_ports(0)->add_neighbours() = found.engines[0].ports(1).neighbours(0);
  found.engines[0].mutable_ports(1)->clear_neighbours();
  found.Pass(kSecond);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    proto::ClientMessage join = found.Join(rank, 0x0a0a0001 + rank);
    join.mutable_join()->set_path(proto::PATH_HOSTS);
    join.mutable_join()->set_max_outstanding(129);
    found.state.OnMessage(found.now, rank + 1, join);
  }
  ASSERT_EQ(found.state.ShowGroup("g")->state(), "running");
  found.Pass(2 * kSecond);
  ASSERT_FALSE(found.world.probes.empty());
  for (const auto& [witness, port] : found.world.probes) EXPECT_EQ(port, "p3");
}

TEST(ManagerGraph, RanksOfOneHostAskForItOnce) {
  Found found;
  found.Register(0);
  found.Register(1);
  found.Pass(3 * kSecond);
  for (uint32_t rank = 0; rank < 8; ++rank)
    found.state.OnMessage(found.now, 1 + rank, found.Join(rank, 0x0a0a0001));
  EXPECT_EQ(found.world.located.size(), 2u) << "at each switch";
}

// One that was known by ARP and was not heard for long is down, or gone if another is at its port.
TEST(ManagerGraph, ARankOfAHostThatFellSilentWaits) {
  Found found;
  found.Register(0);
  found.Register(1);
  found.SeeHost(1, 0x0a0a0001);
  found.Pass(3 * kSecond);
  const proto::EngineInfo before = found.engines[1];
  found.engines[1].mutable_ports(1)->clear_neighbours();
  found.SeeHost(1, 0x0a0a0002);
  found.Pass(kSecond);
  found.state.OnMessage(found.now, 1, found.Join(0, 0x0a0a0001));
  EXPECT_THAT(found.world.located, ::testing::Contains(std::pair<NodeId, uint32_t>{1, 0x0a0a0001}));
  EXPECT_FALSE(found.state.ShowGroup("g").ok());
  found.SeeHost(1, 0x0a0a0001);
  found.Pass(kSecond);
  ASSERT_TRUE(found.state.ShowGroup("g").ok());
  EXPECT_EQ(found.state.ShowGroup("g")->rank_hosts(0), "alpha0");
  // Whoever says nothing at all joins with what is known of him.
  found.engines[1] = before;
  found.Pass(kSecond);
  found.state.OnMessage(found.now, 2, found.Join(1, 0x0a0a0002));
  found.Pass(2 * kSecond);
  EXPECT_EQ(found.state.ShowGroup("g")->joined_ranks_size(), 1);
  found.Pass(2 * kSecond);
  EXPECT_TRUE(found.world.told.contains(2));
}

TEST(ManagerGraph, ARankMayLeaveWhileItWaits) {
  Found found;
  found.Register(0);
  found.Register(1);
  found.Pass(3 * kSecond);
  proto::ClientMessage leave, abort;
  leave.mutable_leave();
  abort.mutable_abort();
  found.state.OnMessage(found.now, 1, found.Join(0, 0x0a0a0001));
  found.state.OnMessage(found.now, 1, leave);
  EXPECT_TRUE(found.world.told[1].has_left());
  found.state.OnMessage(found.now, 2, found.Join(0, 0x0a0a0001));
  found.state.OnMessage(found.now, 2, abort);
  found.SeeHost(1, 0x0a0a0001);
  found.Pass(5 * kSecond);
  EXPECT_FALSE(found.world.told.contains(2));
  EXPECT_FALSE(found.state.ShowGroup("g").ok()) << "nobody joins any more";
}

TEST(ManagerGraph, SwitchesAreToldOfAHostsNewMac) {
  Found found;
  found.Register(0);
  found.Register(1);
  found.SeeHost(1, 0x0a0a0001);
  found.Pass(3 * kSecond);
  const std::string mac("\x02\x01\x00\x00\x00\x77", 6);
  found.engines[1].mutable_ports(1)->mutable_neighbours(0)->set_mac(mac);
  found.Pass(kSecond);
  for (NodeId node : {0, 1}) {
    ASSERT_EQ(found.world.tables[node].entries_size(), 2) << "the other switch and the host";
    EXPECT_EQ(found.world.tables[node].entries(1).ip(), 0x0a0a0001u);
    EXPECT_EQ(found.world.tables[node].entries(1).mac(), mac);
  }
}

TEST(ManagerGraph, ASecondSwitchOfTheSameNameIsRefusedWhileTheFirstIsHeard) {
  Found found;
  found.Register(0);
  proto::RegisterRequest request;
  request.set_name("s1");
  request.set_agent_address("10.0.0.9:7401");
  *request.mutable_engine() = found.engines[0];
  request.mutable_engine()->set_mac(std::string("\x02\x09\x00\x00\x00\x09", 6));
  const auto refused = found.state.Register(found.now, request);
  EXPECT_EQ(refused.status().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("s1"));
}

// With a file the network is the file's, and its links' carriers are followed.
class Stated {
 public:
  Stated() {
    for (const NodeId node : topology.switches) {
      models.emplace_back(topology.nodes[node]);
      engines.push_back(models.back().Describe());
      proto::RegisterRequest request;
      request.set_name(topology.nodes[node].name);
      request.set_agent_address("10.0.0.1:7401");
      *request.mutable_engine() = engines.back();
      EXPECT_TRUE(state.Register(now, request).ok());
    }
    Pass(kSecond);
  }
  void Pass(Nanos time) {
    for (const Nanos end = now + time; now < end;) {
      for (const NodeId node : std::exchange(world.asked, {}))
        state.OnForwardingSet(now, node, absl::OkStatus());
      for (const auto& [node, group] : std::exchange(world.installs, {}))
        state.OnInstalled(now, node, group.group_id(), {.arena_bytes = 1000});
      now += 100 * kMillisecond;
      state.Tick(now);
      for (const NodeId node : topology.switches) Beat(node);
    }
  }
  void Beat(NodeId node) {
    proto::HeartbeatRequest request;
    request.set_name(topology.nodes[node].name);
    request.set_epoch(1);
    request.set_engine_up(true);
    *request.mutable_engine() = engines[node];
    ASSERT_TRUE(state.Heartbeat(now, request).ok());
  }
  // The carrier of a switch's port comes or goes.
  void Set(const std::string& name, int port, bool up) {
    engines[*topology.FindNode(name)].mutable_ports(port)->set_up(up);
    Beat(*topology.FindNode(name));
  }
  // By switch and MAC, in order: the ports.
  std::map<std::pair<NodeId, std::string>, std::string> Ways() const {
    std::map<std::pair<NodeId, std::string>, std::string> ways;
    for (const auto& [node, table] : world.tables) {
      for (const proto::ForwardingEntry& entry : table.entries()) ways[{node, entry.mac()}] = entry.port();
    }
    return ways;
  }

  const Topology topology = testing::TwoSpines().Build();
  World world;
  ManagerState state{topology, {}, 1, 1, &world};
  Nanos now = kSecond;
  std::vector<testing::SwitchModel> models;
  std::vector<proto::EngineInfo> engines;
};

TEST(ManagerGraph, ForwardingFollowsCarriers) {
  Stated stated;
  const auto before = stated.Ways();
  const NodeId leaf1 = *stated.topology.FindNode("leaf1");
  const Mac& spine1 = stated.topology.nodes[0].mac;
  stated.Set("leaf1", 0, false);
  stated.Pass(kSecond);
  for (const proto::ForwardingEntry& entry : stated.world.tables[leaf1].entries())
    EXPECT_TRUE(entry.port() != "swp1" || entry.mac() == std::string(spine1.begin(), spine1.end()))
        << "but for spine1 itself, if there is no other way";
  stated.Set("leaf1", 0, true);
  stated.Pass(kSecond);
  EXPECT_EQ(stated.Ways(), before);
}

// With one host at leaf1 that has no part in the tree, so that it only forwards between the host and the
// root, which takes packets by the port that it was told.
TEST(ManagerGraph, ACarrierThatComesBackSoonEndsNoGroup) {
  for (const int port : {0, 1}) {
    Stated stated;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      proto::ClientMessage message;
      proto::Join& join = *message.mutable_join();
      join.set_group("g");
      join.set_rank(rank);
      join.set_world_size(3);
      join.set_ip(0x0a0a0001 + (rank == 0 ? 0 : rank + 1));
      join.set_qpn(0x11 + rank);
      join.set_max_path_mtu(1024);
      join.set_max_outstanding(129);
      join.set_path(proto::PATH_NETWORK);
      stated.state.OnMessage(stated.now, rank + 1, message);
    }
    stated.Pass(kSecond);
    ASSERT_EQ(stated.state.ShowGroup("g")->state(), "running");
    const auto before = stated.Ways();
    for (const char* leaf : {"leaf1", "leaf2"}) {
      stated.Set(leaf, port, false);
      stated.Pass(kSecond);
      EXPECT_NE(stated.Ways(), before) << "others go round it";
      stated.Set(leaf, port, true);
      stated.Pass(kSecond);
      EXPECT_EQ(stated.Ways(), before);
      EXPECT_EQ(stated.state.ShowGroup("g")->state(), "running");
    }
  }
}

}  // namespace
}  // namespace epic::manager
