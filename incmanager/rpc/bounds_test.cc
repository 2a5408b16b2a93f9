// What the manager takes of those whom it cannot trust: bounds, and text that is not theirs to choose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/grpc/peer_address.h"
#include "base/grpc/questions.h"
#include "base/printable.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/rpc/switch_model_testing.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;

class Bounds : public ::testing::Test {
 protected:
  struct KeepingWorld : testing::IdleWorld {
    void Send(SessionId session, const proto::ServerMessage& message, bool) override { told[session] = message; }
    void SendToHost(HostId host, const proto::ToHost& message) override {
      if (message.has_told()) told_by_host[{host, message.told().session()}] = message.told().message();
    }
    std::map<SessionId, proto::ServerMessage> told;
    std::map<std::pair<HostId, uint64_t>, proto::ServerMessage> told_by_host;
  };

  proto::ClientMessage Join(const std::string& group, uint32_t rank, uint32_t world_size = 3, uint32_t host = 0) const {
    proto::ClientMessage message;
    proto::Join& join = *message.mutable_join();
    join.set_group(group);
    join.set_rank(rank);
    join.set_world_size(world_size);
    join.set_ip(Raw(topology_.nodes[topology_.switches.size() + host].address));
    join.set_qpn(0x11 + rank);
    join.set_max_path_mtu(1024);
    join.set_join_timeout_ms(60'000);
    return message;
  }
  // What it is refused with; empty if it waits.
  proto::Failure Joins(const proto::ClientMessage& join, const std::string& peer = "10.9.9.9") {
    const SessionId session = state_.NewSession(peer);
    state_.OnMessage(now_, session, join);
    return world_.told[session].failure();
  }
  std::vector<proto::Event> Events() {
    std::vector<proto::Event> events;
    proto::EventsRequest request;
    for (bool more = true; more; request.set_after(events.empty() ? 0 : events.back().number())) {
      const proto::EventsReply reply = state_.Events(now_, request);
      events.insert(events.end(), reply.events().begin(), reply.events().end());
      more = reply.more();
      if (more) request.set_after(events.back().number());
    }
    return events;
  }

  const Topology topology_ = testing::RoutedTree32().Build();
  KeepingWorld world_;
  GroupOptions options_{.max_reserved = 3, .max_tenants = 2, .max_waiting = 4};
  ManagerState state_{topology_, options_, 1, 1, &world_};
  Nanos now_ = kSecond;
};

TEST_F(Bounds, TenThousandRefusalsDisplaceNoOtherEvent) {
  EXPECT_TRUE(Joins(Join("before", 0)).message().empty());
  const size_t before = Events().size();
  for (uint32_t i = 0; i < 10'100; ++i) {
    EXPECT_FALSE(Joins(Join("g" + std::to_string(i), 7)).message().empty());
    now_ += kSecond / 10'000;
  }
  EXPECT_FALSE(Joins(Join("other", 7), "10.8.8.8").message().empty());
  std::vector<proto::Event> events = Events();
  EXPECT_EQ(events.front().about(), "group before");
  EXPECT_LE(events.size(), before + EventLog::kRefusalsOfOne + 2);
  EXPECT_EQ(events.back().about(), "group other") << "of another peer each is told";
  uint64_t counted = 0;
  for (const proto::Event& event : events) {
    if (event.about() != "10.9.9.9") continue;
    EXPECT_EQ(event.text(), "more joins refused than are told one by one: invalid argument");
    counted += event.times();
  }
  EXPECT_GE(counted, 9'800U);
}

TEST_F(Bounds, RanksOfOneAddressThatWaitHaveABound) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Joins(Join("g" + std::to_string(i), 0)).message().empty());
  const proto::Failure refused = Joins(Join("g4", 0));
  EXPECT_EQ(refused.code(), proto::ERROR_NO_RESOURCE);
  EXPECT_THAT(refused.message(), HasSubstr("4 ranks at 10.10."));
  EXPECT_THAT(refused.message(), HasSubstr("--max-waiting"));
  EXPECT_TRUE(Joins(Join("g4", 0, 3, 1)).message().empty()) << "another address has its own";
  EXPECT_TRUE(Joins(Join("g0", 1, 3, 1)).message().empty());
  const proto::Failure last = Joins(Join("g0", 2));
  EXPECT_THAT(last.message(), ::testing::Not(HasSubstr("--max-waiting"))) << "the last one waits for nobody";
  EXPECT_EQ(Joins(Join("g5", 0)).message(), "") << "a group that has begun, or failed, waits no longer";
}

TEST_F(Bounds, ReservationsAndTenantsHaveBounds) {
  for (int i = 0; i < 4; ++i) {
    proto::CreateGroupRequest create;
    create.set_name("g" + std::to_string(i));
    create.set_world_size(2);
    const auto reply = state_.CreateGroup(create);
    ASSERT_EQ(reply.ok(), i < 3) << reply.status();
    if (i < 3) continue;
    EXPECT_EQ(reply.status().code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(reply.status().message()), HasSubstr("group g3: 3 groups are reserved"));
  }
  for (int i = 0; i < 3; ++i) {
    proto::SetTenantRequest set;
    set.mutable_tenant()->set_name("t" + std::to_string(i));
    const auto reply = state_.SetTenant(now_, set);
    ASSERT_EQ(reply.ok(), i < 2) << reply.status();
    if (i < 2) continue;
    EXPECT_EQ(reply.status().code(), StatusCode::kResourceExhausted);
    set.mutable_tenant()->set_name("t0");
    EXPECT_TRUE(state_.SetTenant(now_, set).ok()) << "one that is there may be changed";
  }
}

TEST_F(Bounds, WhatARankSaysIsOneLineForOthers) {
  const std::string evil = "x\nswitch s1: up\x1b[2J";
  for (const std::string& name : {evil, std::string(3'500'000, 'n')}) {
    const proto::Failure refused = Joins(Join(name, 0));
    EXPECT_EQ(refused.code(), proto::ERROR_INVALID_ARGUMENT);
    EXPECT_LE(refused.message().size(), kMaxLineBytes + 3);
  }
  // A rank aborts a group that others wait in.
  const SessionId other = state_.NewSession("10.8.8.8"), aborts = state_.NewSession("10.9.9.9");
  proto::ClientMessage join = Join("g", 1, 3, 1);
  join.mutable_join()->set_host_name(evil);
  state_.OnMessage(now_, other, Join("g", 0));
  state_.OnMessage(now_, aborts, join);
  proto::ClientMessage abort;
  abort.mutable_abort()->set_reason(evil + std::string(3'500'000, 'r'));
  state_.OnMessage(now_, aborts, abort);
  const std::string told = world_.told[other].failure().message();
  EXPECT_THAT(told, HasSubstr("x?switch s1: up?[2J"));
  EXPECT_EQ(Printable(told), told);
  for (const proto::Event& event : Events()) EXPECT_EQ(Printable(event.text()), event.text());
}

TEST_F(Bounds, WithDiscoverySwitchesThatNobodyAnswersForHaveABoundOfEachPeer) {
  testing::IdleWorld world;
  ManagerState state({.name = "discovered", .path_mtu = 4096, .discovery = true}, {}, 1, 1, &world);
  const auto registers = [&](uint32_t number, const std::string& peer) {
    Node node = topology_.nodes[topology_.switches.front()];
    node.name = "s" + std::to_string(number);
    node.address = Ipv4{0x0a010000 + number};
    node.mac[5] = static_cast<uint8_t>(number);
    node.mac[4] = static_cast<uint8_t>(number >> 8);
    proto::RegisterRequest request;
    request.set_name(node.name);
    request.set_agent_address("10.0.0.1:7401");
    *request.mutable_engine() = testing::SwitchModel(node).Describe();
    return state.Register(now_, request, peer).status();
  };
  uint32_t made = 0;
  Status refused;
  for (uint32_t i = 1; i <= 4096; ++i) {
    const Status status = registers(i, "10.9.9.9");
    status.ok() ? static_cast<void>(++made) : static_cast<void>(refused = status);
  }
  EXPECT_EQ(made, 256U);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("256 switches have been registered from 10.9.9.9"));
  EXPECT_TRUE(registers(5000, "10.8.8.8").ok()) << "a true one";
  EXPECT_TRUE(registers(1, "10.9.9.9").ok()) << "one that is known";
  // Those that answer make room.
  for (const NodeId node : state.topology().switches) state.OnForwardingSet(now_, node, absl::OkStatus());
  EXPECT_TRUE(registers(5001, "10.9.9.9").ok());
}

TEST(PeerAddressTest, IsWhatTheRelayHasNamed) {
  EXPECT_EQ(PeerAddress("unix-abstract:epic-12-7/10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(PeerAddress("unix-abstract:epic-12-7/fe80::1%25eth0"), "fe80::1%eth0");
  EXPECT_EQ(PeerAddress("unix-abstract:epic-12-7/user%201000"), "user 1000");
  EXPECT_EQ(PeerAddress("unix-abstract:epic-12-7/100%"), "100%");
  EXPECT_EQ(PeerAddress("ipv4:10.0.0.1:4711"), "ipv4:10.0.0.1:4711");
  EXPECT_EQ(PeerAddress(""), "");
}

TEST(QuestionsTest, SoManyWaitAtOnce) {
  Questions questions;
  std::vector<std::unique_ptr<Questions::One>> asked;
  for (int i = 0; i < Questions::kMost; ++i) {
    asked.push_back(std::make_unique<Questions::One>(&questions));
    EXPECT_TRUE(asked.back()->status().ok());
  }
  EXPECT_EQ(Questions::One(&questions).status().code(), StatusCode::kResourceExhausted);
  asked.pop_back();
  EXPECT_TRUE(Questions::One(&questions).status().ok());
}

}  // namespace
}  // namespace epic::manager
