// What the manager does about hosts in another port than the file says, and about what engines refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/rpc/switch_model_testing.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class RefusedWorld : public testing::IdleWorld {
 public:
  void Send(SessionId session, const proto::ServerMessage& message, bool) override {
    told[session] = message;
  }
  void SetForwarding(NodeId node, const proto::ForwardingTable&) override { asked.push_back(node); }
  void Install(NodeId node, const proto::GroupConfig& group) override { installs.emplace_back(node, group); }
  void Locate(NodeId node, const proto::LocateRequest& request) override {
    located.emplace_back(node, request.ip());
  }

  std::vector<NodeId> asked;
  std::vector<std::pair<NodeId, proto::GroupConfig>> installs;
  std::vector<std::pair<NodeId, uint32_t>> located;
  std::map<SessionId, proto::ServerMessage> told;  // last
};

// The tree of two leaves with h0 and h1 at leaf1, h2 and h3 at leaf2. Hosts answer ARP at the ports at which
// they are.
class ManagerRefused : public ::testing::Test {
 protected:
  ManagerRefused() {
    for (const NodeId node : topology_.switches) {
      models_.emplace_back(topology_.nodes[node]);
      engines_[node] = models_.back().Describe();
    }
    for (const char* host : {"h0", "h1", "h2", "h3"}) {
      const LinkEnd home = topology_.Across(topology_.AttachedEnd(Id(host)));
      at_[Id(host)] = {home.node, topology_.nodes[home.node].hops[home.hop].port};
    }
  }
  void RegisterAll() {
    for (const NodeId node : topology_.switches) {
      proto::RegisterRequest request;
      request.set_name(topology_.nodes[node].name);
      request.set_agent_address("10.0.0.1:7401");
      *request.mutable_engine() = engines_[node];
      ASSERT_TRUE(state_.Register(now_, request).ok());
    }
    Pass(kSecond);
  }
  NodeId Id(const std::string& name) const { return *topology_.FindNode(name); }
  void Swap(const std::string& a, const std::string& b) { std::swap(at_[Id(a)], at_[Id(b)]); }
  void Pass(Nanos time) {
    for (const Nanos end = now_ + time; now_ < end;) {
      for (const NodeId node : std::exchange(world_.asked, {}))
        state_.OnForwardingSet(now_, node, absl::OkStatus());
      for (const auto& [node, group] : std::exchange(world_.installs, {})) {
        installed_.emplace_back(node, group);
        if (runs_engines_) {
          EXPECT_EQ(Model(node).Install(group).status, absl::OkStatus());
        }
        state_.OnInstalled(now_, node, group.group_id(), {.arena_bytes = 1000});
      }
      for (const auto& [node, ip] : std::exchange(world_.located, {})) {
        proto::LocateReply reply;
        reply.set_asked(true);
        state_.OnLocated(now_, node, ip, reply);
        Answer(node, ip);
      }
      now_ += 100 * kMillisecond;
      state_.Tick(now_);
      if (runs_engines_) Repeat();
      for (const NodeId node : topology_.switches) Beat(node);
    }
  }
  testing::SwitchModel& Model(NodeId node) {
    return models_[static_cast<size_t>(std::ranges::find(topology_.switches, node) - topology_.switches.begin())];
  }
  // The packet that leaf1 refuses comes once a second; its engine's description is taken as often.
  void Repeat() {
    const NodeId leaf1 = Id("leaf1");
    if (repeated_ && now_ >= repeats_at_) {
      Model(leaf1).engine().OnPacket(now_, repeated_by_, *repeated_, effects_);
      repeats_at_ = now_ + kSecond;
    }
    if (now_ % kSecond == described_at_) Model(leaf1).SetRefused(now_, &engines_[leaf1]);
  }
  void Answer(NodeId node, uint32_t ip) {
    const auto host = topology_.FindHostByAddress(Ipv4{ip});
    if (!host || mute_ == *host || at_[*host].first != node) return;
    for (proto::PortInfo& port : *engines_[node].mutable_ports()) {
      if (port.name() != at_[*host].second || port.neighbours_size() > 0) continue;
      proto::Neighbour& heard = *port.add_neighbours();
      heard.set_kind(proto::NEIGHBOUR_HOST);
      heard.set_ip(ip);
      heard.set_mac(daemon::MacBytes(topology_.nodes[*host].mac));
      heard.set_heard_by(proto::HEARD_BY_ARP);
    }
  }
  void Beat(NodeId node) {
    proto::HeartbeatRequest request;
    request.set_name(topology_.nodes[node].name);
    request.set_epoch(1);
    request.set_engine_up(true);
    *request.mutable_engine() = engines_[node];
    ASSERT_TRUE(state_.Heartbeat(now_, request).ok());
  }
  void JoinAll(uint32_t size = 4) {
    for (uint32_t rank = 0; rank < size; ++rank) {
      proto::ClientMessage message;
      proto::Join& join = *message.mutable_join();
      join.set_group("g");
      join.set_rank(rank);
      join.set_world_size(size);
      join.set_ip(Raw(topology_.nodes[Id("h" + std::to_string(rank))].address));
      join.set_qpn(0x11 + rank);
      join.set_max_path_mtu(runs_engines_ ? 512 : 1024);  // so that it fits into an engine
      join.set_max_outstanding(129);
      state_.OnMessage(now_, rank + 1, message);
    }
    Pass(kSecond);
  }
  // As an engine says it of the endpoint of h0's rank at leaf1.
  proto::RefusedEndpoint* Refuse(const std::string& reason, const std::string& port, uint32_t source) {
    proto::EngineInfo& engine = engines_[Id("leaf1")];
    engine.clear_refused();
    proto::RefusedEndpoint& refused = *engine.add_refused();
    for (const auto& [node, group] : installed_) {
      if (node != Id("leaf1")) continue;
      refused.set_group_id(group.group_id());
      refused.set_generation(group.generation());
      refused.set_local_qpn(group.children(0).local_qpn());
    }
    refused.set_reason(reason);
    refused.set_port(port);
    refused.set_source(source);
    refused.set_packets(3);
    refused.set_ms(2100);
    return &refused;
  }
  std::string State() const {
    const auto group = state_.ShowGroup("g");
    return group.ok() ? group->state() : "none";
  }
  std::vector<std::string> Events(const std::string& about = {}) const {
    proto::EventsRequest request;
    request.set_about(about);
    std::vector<std::string> texts;
    const proto::EventsReply reply = state_.Events(now_, request);
    for (const proto::Event& event : reply.events()) texts.push_back(event.text());
    return texts;
  }
  // All ranks have been told the same.
  void ExpectTold(proto::ErrorCode code, const ::testing::Matcher<std::string>& message, uint32_t size = 4) {
    for (uint32_t rank = 0; rank < size; ++rank) {
      ASSERT_TRUE(world_.told[rank + 1].has_failure()) << rank;
      EXPECT_EQ(world_.told[rank + 1].failure().code(), code);
      EXPECT_THAT(world_.told[rank + 1].failure().message(), message);
    }
  }

  const Topology topology_ = testing::Tree32().Build();
  RefusedWorld world_;
  ManagerState state_{topology_, {}, 1, 1, &world_};
  Nanos now_ = kSecond;
  std::vector<testing::SwitchModel> models_;
  std::map<NodeId, proto::EngineInfo> engines_;
  std::map<NodeId, std::pair<NodeId, std::string>> at_;
  NodeId mute_ = kNoNode;
  std::vector<std::pair<NodeId, proto::GroupConfig>> installed_;
  // With engines whose tables these are.
  class NoEffects : public engine::Effects {
   public:
    void Send(PortId, const engine::OutPacket&) override {}
    void SetTimer(engine::TimerId, Nanos) override {}
    void Drop(PortId, engine::DropReason) override {}
  };
  NoEffects effects_;
  bool runs_engines_ = false;
  std::optional<roce::Packet> repeated_;
  PortId repeated_by_ = 0;
  Nanos repeats_at_ = 0;
  Nanos described_at_ = 0;  // in each second
};

TEST_F(ManagerRefused, SwappedCablesAreToldWhenTheSwitchHasRegistered) {
  Swap("h1", "h2");
  RegisterAll();
  Pass(5 * kSecond);
  const std::string h1 = "links h1 to leaf1:swp2, but it is heard at leaf2:swp1, where test:";
  EXPECT_THAT(Events(), Contains(HasSubstr(h1)));
  EXPECT_THAT(state_.DescribeTopology().yaml(), HasSubstr(h1));
  EXPECT_TRUE(ParseTopology(state_.DescribeTopology().yaml(), "again").ok());
  ASSERT_EQ(state_.ListSwitches(now_).warnings_size(), 2);
  EXPECT_THAT(state_.ListSwitches(now_).warnings(0), HasSubstr(h1));
  proto::ExplainRequest explain;
  for (const char* host : {"h0", "h1"}) explain.mutable_group()->add_hosts(host);
  EXPECT_THAT(state_.Explain(explain)->failure().message(), AllOf(HasSubstr(h1), HasSubstr("has h2")));
  JoinAll();
  ExpectTold(proto::ERROR_NO_TREE, AllOf(HasSubstr(h1), HasSubstr("has h2")));
}

TEST_F(ManagerRefused, NothingIsToldOfHostsThatAreWhereTheyAreToBe) {
  RegisterAll();
  Pass(10 * kSecond);
  EXPECT_THAT(Events(), Not(Contains(HasSubstr("heard"))));
  EXPECT_EQ(state_.ListSwitches(now_).warnings_size(), 0);
  EXPECT_EQ(state_.DescribeTopology().yaml(), topology_.text);
  const size_t before = world_.located.size();
  JoinAll();
  EXPECT_EQ(State(), "running");
  EXPECT_EQ(world_.located.size(), before) << "they are known";
}

TEST_F(ManagerRefused, AGroupEndsWhenItsHostsAreHeardElsewhere) {
  mute_ = Id("h1");
  RegisterAll();
  Pass(10 * kSecond);
  JoinAll();
  EXPECT_EQ(State(), "running") << "nobody has heard h1 yet";
  mute_ = kNoNode;
  // Its port goes and comes, with another cable.
  Swap("h0", "h1");
  proto::EngineInfo& leaf1 = engines_[Id("leaf1")];
  for (const int port : {0, 1}) {
    leaf1.mutable_ports(port)->clear_neighbours();
    leaf1.mutable_ports(port)->set_up(false);
  }
  Pass(kSecond);
  for (const int port : {0, 1}) leaf1.mutable_ports(port)->set_up(true);
  Pass(5 * kSecond);
  // Whichever of the two is known first.
  ExpectTold(proto::ERROR_LINK_LOST, AllOf(HasSubstr("links h0 to leaf1:swp1, but"), HasSubstr("h1")));
}

TEST_F(ManagerRefused, PacketsByTheWrongPortEndAGroupWhoseHostIsNotHeard) {
  mute_ = Id("h0");
  RegisterAll();
  Pass(10 * kSecond);
  JoinAll();
  ASSERT_EQ(State(), "running");
  Refuse("wrong_port", "swp2", 0x0a0a0001);
  Pass(kSecond);
  EXPECT_EQ(State(), "running") << "it is asked for first";
  EXPECT_THAT(Events("group g"), Contains(HasSubstr("wrong_port, 3 packets in 2.1 s")));
  Pass(3 * kSecond);
  ExpectTold(proto::ERROR_LINK_LOST,
             AllOf(HasSubstr("leaf1 refuses all that comes from rank 0 on h0: wrong_port"),
                   HasSubstr("they come in by leaf1:swp2 (h1), not by leaf1:swp1")));
}

TEST_F(ManagerRefused, WhoForgesEndsNoGroup) {
  RegisterAll();
  JoinAll();
  Refuse("wrong_port", "swp2", 0x0a0a0001);
  Pass(20 * kSecond);
  EXPECT_EQ(State(), "running") << "h0 is where it is to be";
  EXPECT_THAT(Events("group g"), Contains(HasSubstr("wrong_port")));
  Refuse("stranger", "swp1", 0x0a0a0009)->set_local_qpn(1);
  Pass(kSecond);
  EXPECT_EQ(State(), "running") << "no endpoint of it";
  Refuse("bad_pkey", "swp1", 0x0a0a0001)->set_generation(9);
  Pass(kSecond);
  EXPECT_EQ(State(), "running") << "of another life";
}

TEST_F(ManagerRefused, WhatComesThroughAnotherSwitchIsNotForged) {
  RegisterAll();
  JoinAll();
  Refuse("wrong_port", "swp3", 0x0a0a0001);
  Pass(kSecond);
  ExpectTold(proto::ERROR_LINK_LOST, HasSubstr("they come in by leaf1:swp3 (root), not by leaf1:swp1"));
}

TEST_F(ManagerRefused, EveryOtherLastingReasonEndsTheGroupAtOnce) {
  RegisterAll();
  for (const char* reason : {"stranger", "bad_pkey", "unexpected_opcode", "bad_length", "bad_control"}) {
    JoinAll();
    ASSERT_EQ(State(), "running");
    Refuse(reason, "swp1", 0x0a0a0063);
    Pass(200 * kMillisecond);
    ExpectTold(proto::ERROR_TRANSPORT, HasSubstr(reason));
    engines_[Id("leaf1")].clear_refused();
    for (uint32_t rank = 0; rank < 4; ++rank) state_.OnClosed(now_, rank + 1);
    Pass(10 * kSecond);
    world_.told.clear();
  }
}

// docs/PROTOCOL.md, 7.4: within 10 s of the first packet, whenever in a second it comes and is described.
struct RefusedCase {
  const char* reason;
  const char* port;  // of leaf1, by which it comes
  uint32_t source = 0x0a0a0001;
  uint16_t pkey = 0xffff;
};
constexpr RefusedCase kRefusedCases[] = {
    {"wrong_port", "swp2"}, {"wrong_port", "swp3"}, {"stranger", "swp1", 0x0a0a0063}, {"bad_pkey", "swp1", 0x0a0a0001, 0x1234}};

class ManagerRefusedInTime : public ManagerRefused, public ::testing::WithParamInterface<std::tuple<size_t, int>> {};
INSTANTIATE_TEST_SUITE_P(Each, ManagerRefusedInTime,
                         ::testing::Combine(::testing::Range(size_t{0}, std::size(kRefusedCases)), ::testing::Range(0, 10)));

TEST_P(ManagerRefusedInTime, TheGroupEndsWithinTenSeconds) {
  const auto& [which, phase] = GetParam();
  const RefusedCase& refused = kRefusedCases[which];
  runs_engines_ = true;
  described_at_ = phase * 100 * kMillisecond;
  mute_ = Id("h0");
  RegisterAll();
  Pass(10 * kSecond);
  JoinAll();
  ASSERT_EQ(State(), "running");
  const NodeId leaf1 = Id("leaf1");
  const auto config = std::ranges::find(installed_, leaf1, &std::pair<NodeId, proto::GroupConfig>::first)->second;
  repeated_.emplace();
  repeated_->src_ip = Ipv4{refused.source};
  repeated_->dst_ip = topology_.nodes[leaf1].address;
  repeated_->bth.dest_qp = Qpn{config.children(0).local_qpn()};
  repeated_->bth.pkey = refused.pkey;
  const auto& hops = topology_.nodes[leaf1].hops;
  repeated_by_ = static_cast<PortId>(std::ranges::find(hops, refused.port, &Hop::port) - hops.begin());
  const Nanos begin = now_;
  while (State() == "running" && now_ < begin + 20 * kSecond) Pass(100 * kMillisecond);
  EXPECT_THAT(world_.told[1].failure().message(), HasSubstr(refused.reason));
  EXPECT_LE(now_ - begin, 10 * kSecond);
}

}  // namespace
}  // namespace epic::manager
