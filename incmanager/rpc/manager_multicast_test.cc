// Ranks that ask for multicast, through the manager's messages: what they are told, and what switches are
// sent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/rpc/switch_model_testing.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MulticastSwitches : public testing::IdleWorld {
 public:
  void Send(SessionId session, const proto::ServerMessage& message, bool) override {
    if (message.has_joined()) joined[session] = message.joined();
  }
  void SetForwarding(NodeId node, const proto::ForwardingTable& table) override {
    asked.insert(node);
    tables[node] = table;
  }
  std::map<SessionId, proto::Joined> joined;        // last
  std::map<NodeId, proto::ForwardingTable> tables;  // last
  std::set<NodeId> asked;                           // not answered yet
};

// Tree32, whose engines take what they are sent. Ranks go by the hosts.
class ManagerMulticast : public ::testing::Test {
 protected:
  ManagerMulticast() {
    for (const NodeId node : topology_.switches) models_.emplace_back(topology_.nodes[node]);
    Beat();
    Pass(kSecond);
  }

  void Beat() {
    for (NodeId node = 0; node < models_.size(); ++node) {
      proto::HeartbeatRequest request;
      request.set_name(topology_.nodes[node].name);
      request.set_epoch(1);
      request.set_engine_up(true);
      *request.mutable_engine() = models_[node].Describe();
      const auto reply = state_.Heartbeat(now_, request);
      ASSERT_TRUE(reply.ok());
      if (!reply->register_again()) continue;
      proto::RegisterRequest registers;
      registers.set_name(request.name());
      registers.set_agent_address("10.0.0.1:7401");
      *registers.mutable_engine() = request.engine();
      ASSERT_TRUE(state_.Register(now_, registers).ok());
    }
  }
  void Pass(Nanos time) {
    for (const Nanos end = now_ + time; now_ < end;) {
      now_ += 100 * kMillisecond;
      if (now_ % kSecond == 0) Beat();
      state_.Tick(now_);
      state_.CheckInvariants();
      for (const NodeId node : std::exchange(world_.asked, {}))
        state_.OnForwardingSet(now_, node, models_[node].SetForwarding(world_.tables[node]));
    }
  }
  // Rank i with session first + i.
  void JoinOn(const std::vector<std::string>& hosts, bool asks = true, const std::string& group = "g",
              SessionId first = 1) {
    for (uint32_t rank = 0; rank < hosts.size(); ++rank) {
      proto::ClientMessage message;
      proto::Join& join = *message.mutable_join();
      join.set_group(group);
      join.set_rank(rank);
      join.set_world_size(static_cast<uint32_t>(hosts.size()));
      join.set_ip(Raw(topology_.nodes[*topology_.FindNode(hosts[rank])].address));
      join.set_qpn(0x11 + rank);
      join.set_max_path_mtu(1024);
      join.set_path(proto::PATH_HOSTS);
      if (asks) join.set_datagram_qpn(0x31 + rank);
      join.set_datagram_receives(1024);
      join.set_datagram_reach(proto::DATAGRAM_REACH_REMOTE);
      state_.OnMessage(now_, first + rank, message);
    }
  }
  // "01:00:5e:40:00:01: swp1 swp2" for each group in the last table of the switch.
  std::vector<std::string> GroupsAt(const std::string& name) {
    std::vector<std::string> out;
    for (const proto::GroupPorts& group : world_.tables[*topology_.FindSwitch(name)].groups()) {
      Mac mac{};
      std::copy(group.mac().begin(), group.mac().end(), mac.begin());
      out.push_back(ToString(mac) + ":");
      for (const std::string& port : group.ports()) out.back() += " " + port;
    }
    return out;
  }
  std::string MacOf(SessionId session) {
    return ToString(MulticastMac(Ipv4{world_.joined[session].multicast().address()}));
  }

  const Topology topology_ = testing::Tree32().Build();
  MulticastSwitches world_;
  Nanos now_ = kSecond;
  ManagerState state_{topology_, {}, 1, 1, &world_};
  std::vector<testing::SwitchModel> models_;
};

TEST_F(ManagerMulticast, RanksAreToldTheAddressAndSwitchesItsPorts) {
  JoinOn({"h0", "h1", "h2"});
  const proto::Joined& joined = world_.joined[1];
  ASSERT_TRUE(joined.has_multicast());
  EXPECT_EQ(joined.multicast_reason(), "");
  EXPECT_EQ(joined.multicast().address() >> 16, 0xefc0u);
  ASSERT_EQ(joined.multicast().ends_size(), 3);
  EXPECT_EQ(joined.multicast().ends(2).qpn(), 0x33u);
  EXPECT_EQ(joined.multicast().ends(2).ip(), Raw(topology_.nodes[*topology_.FindNode("h2")].address));
  EXPECT_EQ(world_.joined[3].multicast().SerializeAsString(), joined.multicast().SerializeAsString());
  Pass(200 * kMillisecond);
  const std::string mac = MacOf(1);
  EXPECT_THAT(GroupsAt("leaf1"), ElementsAre(mac + ": swp1 swp2 swp3"));
  EXPECT_THAT(GroupsAt("root"), ElementsAre(mac + ": swp1 swp2"));
  EXPECT_THAT(GroupsAt("leaf2"), ElementsAre(mac + ": swp1 swp3"));

  const auto shown = state_.ShowGroup("g");
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(shown->multicast_address(), joined.multicast().address());
  EXPECT_EQ(shown->multicast_reason(), "");
}

TEST_F(ManagerMulticast, AGroupIsShownWithWhatItsRanksLastSaidOfDatagrams) {
  JoinOn({"h0", "h1", "h2"});
  EXPECT_TRUE(world_.joined[1].multicast().takes_counts());
  EXPECT_TRUE(state_.ShowGroup("g")->datagrams().empty());
  proto::ClientMessage message;
  proto::DatagramsSeen& seen = *message.mutable_datagrams();
  for (const uint64_t times : {1, 2}) {
    seen.set_expected(90 * times);
    seen.set_came(88 * times);
    seen.set_read(7 * times);  // more than expected: it is theirs to say
    seen.set_stranger(1 * times);
    seen.set_stale(2 * times);
    seen.set_alien(3 * times);
    seen.set_length(4 * times);
    seen.set_again(5 * times);
    state_.OnMessage(now_, 2, message);
  }
  const proto::GroupState shown = *state_.ShowGroup("g");
  ASSERT_EQ(shown.datagrams_size(), 1);
  EXPECT_EQ(shown.datagrams().at(1).SerializeAsString(), seen.SerializeAsString());
}

TEST_F(ManagerMulticast, OfAGroupWithoutMulticastNothingIsHeardOfDatagrams) {
  JoinOn({"h0", "h1"}, /*asks=*/false);
  proto::ClientMessage message;
  message.mutable_datagrams()->set_came(1);
  state_.OnMessage(now_, 1, message);
  state_.OnMessage(now_, 99, message);  // of nobody
  EXPECT_TRUE(state_.ShowGroup("g")->datagrams().empty());
  EXPECT_EQ(state_.ShowGroup("g")->state(), "running");
}

TEST_F(ManagerMulticast, PortsGoWithTheGroupAndOthersStay) {
  JoinOn({"h0", "h1"}, true, "near", 11);
  JoinOn({"h1", "h2"});
  Pass(200 * kMillisecond);
  EXPECT_EQ(GroupsAt("leaf1").size(), 2u);
  EXPECT_EQ(GroupsAt("leaf2").size(), 1u);
  for (const SessionId session : {1, 2}) {
    proto::ClientMessage leave;
    leave.mutable_leave();
    state_.OnMessage(now_, session, leave);
  }
  Pass(200 * kMillisecond);
  EXPECT_THAT(GroupsAt("leaf1"), ElementsAre(MacOf(11) + ": swp1 swp2"));
  EXPECT_THAT(GroupsAt("leaf2"), IsEmpty());
  EXPECT_THAT(GroupsAt("root"), IsEmpty());
  state_.OnClosed(now_, 11);
  Pass(200 * kMillisecond);
  EXPECT_THAT(GroupsAt("leaf1"), IsEmpty());
}

TEST_F(ManagerMulticast, AnEngineThatStartsAnewGetsThemAgain) {
  JoinOn({"h0", "h2"});
  Pass(200 * kMillisecond);
  const NodeId leaf1 = *topology_.FindSwitch("leaf1");
  world_.tables.erase(leaf1);
  models_[leaf1].Start();
  Pass(2 * kSecond);
  EXPECT_THAT(GroupsAt("leaf1"), ElementsAre(MacOf(1) + ": swp1 swp3"));
}

TEST_F(ManagerMulticast, WhereNobodyAsksNothingChanges) {
  Pass(kSecond);
  world_.tables.clear();
  JoinOn({"h0", "h1", "h2"}, /*asks=*/false);
  Pass(kSecond);
  ASSERT_TRUE(world_.joined.contains(1));
  EXPECT_FALSE(world_.joined[1].has_multicast());
  EXPECT_EQ(world_.joined[1].multicast_error(), proto::ERROR_OK);
  EXPECT_TRUE(world_.tables.empty()) << "a table was sent";
}

TEST_F(ManagerMulticast, WhoAsksInVainIsToldWhy) {
  JoinOn({"h0", "h0", "h2"});
  const proto::Joined& joined = world_.joined[1];
  EXPECT_FALSE(joined.has_multicast());
  EXPECT_THAT(joined.multicast_reason(),
              HasSubstr("rank 0 on h0 does not receive what rank 1 on the same host"));
  EXPECT_EQ(joined.multicast_error(), proto::ERROR_UNSUPPORTED);
  EXPECT_EQ(state_.ShowGroup("g")->multicast_reason(), joined.multicast_reason());
  EXPECT_EQ(state_.ShowGroup("g")->multicast_address(), 0u);
}

TEST_F(ManagerMulticast, ExplainSaysWhetherAGroupCouldHaveIt) {
  const auto explained = [this](proto::Path path) {
    proto::ExplainRequest request;
    for (const char* host : {"h0", "h2"}) request.mutable_group()->add_hosts(host);
    request.mutable_group()->set_world_size(2);
    request.mutable_group()->set_path(path);
    const auto reply = state_.Explain(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : proto::ExplainReply();
  };
  for (const proto::Path path : {proto::PATH_HOSTS, proto::PATH_AUTO}) {
    const proto::ExplainReply reply = explained(path);
    EXPECT_FALSE(reply.has_failure());
    EXPECT_TRUE(reply.multicast());
    EXPECT_EQ(reply.multicast_reason(), "");
  }
  const proto::ExplainReply network = explained(proto::PATH_NETWORK);
  EXPECT_FALSE(network.multicast());
  EXPECT_THAT(network.multicast_reason(), HasSubstr("path network is asked for"));
}

TEST(ConvertRanks, AConnectionOfTheRingForLostDatagramsIsSaidAsSuch) {
  proto::PeerEnd said;
  said.set_rank(2);
  said.set_qpn(0x77);
  EXPECT_FALSE(FromProto(said).fetches);
  said.set_fetches(true);
  EXPECT_TRUE(FromProto(said).fetches);
  EXPECT_EQ(ToProto(FromProto(said)).SerializeAsString(), said.SerializeAsString());
}

TEST(ConvertRanks, AReachThatIsNotKnownHereIsNobodys) {
  proto::Join join;
  join.set_datagram_qpn(0x31);
  join.set_datagram_receives(1024);
  EXPECT_EQ(FromProto(join).datagram_reach, DatagramReach::kNobodys);
  join.set_datagram_reach(proto::DATAGRAM_REACH_REMOTE);
  EXPECT_EQ(FromProto(join).datagram_reach, DatagramReach::kRemote);
  EXPECT_EQ(FromProto(join).datagram_qpn, 0x31u);
  EXPECT_EQ(FromProto(join).datagram_receives, 1024u);
  for (const int number : {3, 99, -1, 256 + 1}) {
    join.set_datagram_reach(static_cast<proto::DatagramReach>(number));
    EXPECT_EQ(FromProto(join).datagram_reach, DatagramReach::kNobodys) << number;
  }
}

}  // namespace
}  // namespace epic::manager
