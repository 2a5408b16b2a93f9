// Hosts' daemons that end, stand still and come back, under groups that run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/rpc/manager_life_testing.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Ranks 0 and 1 are behind one daemon, the others have streams of their own. No store: what lives is the manager.
class DaemonLife : public testing::Life {
 public:
  static constexpr uint32_t kBehind = 2;

  DaemonLife() : Life(testing::Star(testing::kRanks).Build()) { Pass(kSecond); }

  void SendToHost(HostId host, const proto::ToHost& message) override {
    if (message.has_told()) to_ranks[{host, message.told().session()}].push_back(message.told().message());
  }
  void EndHost(HostId host, const Status&) override { ended.push_back(host); }
  void Probe(NodeId witness, NodeId about, const proto::ProbeRequest&) override {
    if (!topology().IsSwitch(about)) probes.emplace_back(witness, about);
  }

  Ipv4 AddressOf(uint32_t rank) const {
    return topology().nodes[topology().switches.size() + rank].address;
  }
  void Speak(HostId host, const proto::FromHost& message) {
    Do([&] { state->OnHostMessage(now, host, message); });
  }
  void Connect(HostId host) {
    proto::FromHost message;
    message.mutable_info()->set_name("h0");
    for (uint32_t rank = 0; rank < kBehind; ++rank) {
      proto::HostPort& port = *message.mutable_info()->add_ports();
      port.set_ip(Raw(AddressOf(rank)));
      port.set_mac(std::string(5, '\x02') + static_cast<char>(rank));
    }
    Speak(host, message);
  }
  void SayBehind(HostId host, uint64_t number, const proto::ClientMessage& message) {
    proto::FromHost from;
    from.mutable_said()->set_session(number);
    *from.mutable_said()->mutable_message() = message;
    Speak(host, from);
  }
  void CloseBehind(HostId host, uint64_t number) {
    proto::FromHost from;
    from.mutable_said()->set_session(number);
    Speak(host, from);
  }
  // A group of all ranks runs; its sessions of their own.
  std::vector<SessionId> Run(HostId host) {
    Connect(host);
    for (uint32_t rank = 0; rank < kBehind; ++rank) {
      proto::ClientMessage message;
      proto::Join& join = *message.mutable_join();
      join.set_group("g");
      join.set_rank(rank);
      join.set_world_size(testing::kRanks);
      join.set_ip(Raw(AddressOf(rank)));
      join.set_qpn(0x11);
      join.set_max_path_mtu(1024);
      join.set_path(proto::PATH_HOSTS);
      join.set_rejoins(true);
      SayBehind(host, rank, message);
    }
    std::vector<SessionId> own;
    for (uint32_t rank = kBehind; rank < testing::kRanks; ++rank)
      own.push_back(Join("g", proto::PATH_HOSTS, rank, 1));
    return own;
  }
  proto::Joined JoinedOf(HostId host, uint64_t number) {
    for (const proto::ServerMessage& message : to_ranks[{host, number}])
      if (message.has_joined()) return message.joined();
    ADD_FAILURE() << "it was not told Joined";
    return {};
  }
  void Rejoin(HostId host, uint64_t number, const proto::Joined& joined, uint32_t rank) {
    SayBehind(host, number, testing::RejoinOf("g", rank, joined));
  }
  // So many seconds, in which these daemons speak, and hosts answer or do not.
  void PassWith(int seconds, const std::vector<HostId>& speak) {
    for (int i = 0; i < seconds * 10; ++i) {
      now += 100 * kMillisecond;
      for (const HostId host : speak) Speak(host, {});
      RefreshSwitches();
      Do([&] { state->Tick(now); });
      for (const auto& [witness, about] : std::exchange(probes, {})) {
        proto::ProbeReply reply;
        reply.set_asked(true);
        reply.set_answered(host_lives ? 1 : 0);
        Do([&, witness = witness, about = about] {
          state->OnProbed(now, witness, about, asked.value_or(topology().nodes[about].address), reply);
        });
      }
    }
  }
  void RefreshSwitches() {
    for (const NodeId node : topology().switches) {
      proto::HeartbeatRequest beat;
      beat.set_name(topology().nodes[node].name);
      *beat.mutable_engine() = model(node).Describe();
      Do([&] { (void)state->Heartbeat(now, beat); });
    }
  }
  std::string FailureOf(SessionId session) {
    for (const proto::ServerMessage& message : told[session])
      if (message.has_failure()) return message.failure().message();
    return "";
  }

  bool host_lives = true;
  std::optional<Ipv4> asked;  // what switches have asked for, where it is not who is to be asked now
  std::vector<std::pair<NodeId, NodeId>> probes;
  std::map<std::pair<HostId, uint64_t>, std::vector<proto::ServerMessage>> to_ranks;
  std::vector<HostId> ended;
};

TEST(HostDaemons, OneThatEndsAndComesBackEndsNothing) {
  DaemonLife life;
  const std::vector<SessionId> own = life.Run(5);
  const proto::Joined first = life.JoinedOf(5, 0), second = life.JoinedOf(5, 1);
  EXPECT_FALSE(first.secret().empty());
  life.Do([&] { life.state->OnHostClosed(life.now, 5); });
  life.PassWith(50, {});
  EXPECT_EQ(life.FailureOf(own[0]), "");
  const proto::ListHostsReply hosts = life.state->ListHosts(life.now);
  ASSERT_EQ(hosts.hosts_size(), 1);
  EXPECT_EQ(hosts.hosts(0).away(), "its daemon is away; the host answers its switch");
  life.Connect(6);
  life.Rejoin(6, 17, first, 0);
  life.Rejoin(6, 18, second, 1);
  EXPECT_TRUE(life.to_ranks[std::make_pair(HostId{6}, 17)].front().has_rejoined());
  EXPECT_TRUE(life.to_ranks[std::make_pair(HostId{6}, 18)].front().has_rejoined());
  life.PassWith(70, {6});
  EXPECT_EQ(life.FailureOf(own[0]), "");
  proto::ClientMessage leave;
  leave.mutable_leave()->set_drained(true);
  life.SayBehind(6, 17, leave);
  life.SayBehind(6, 18, leave);
  for (const SessionId session : own) life.Leave(session);
  EXPECT_TRUE(life.to_ranks[std::make_pair(HostId{6}, 17)].back().has_left());
  EXPECT_TRUE(life.told[own[1]].back().has_left());
}

// A host may get another address meanwhile.
TEST(HostDaemons, WhatWasAskedWithAnotherAddressDoesNotCount) {
  DaemonLife life;
  const std::vector<SessionId> own = life.Run(5);
  life.host_lives = false;
  life.asked = Ipv4{0x0a0000fe};
  life.Do([&] { life.state->OnHostClosed(life.now, 5); });
  life.PassWith(10, {});
  EXPECT_EQ(life.FailureOf(own[0]), "");
}

TEST(HostDaemons, ARankThatDiedMeanwhileIsLostSoonAfter) {
  DaemonLife life;
  const std::vector<SessionId> own = life.Run(5);
  const proto::Joined first = life.JoinedOf(5, 0);
  life.Do([&] { life.state->OnHostClosed(life.now, 5); });
  life.PassWith(30, {});
  life.Connect(6);
  life.Rejoin(6, 17, first, 0);
  life.PassWith(4, {6});
  EXPECT_EQ(life.FailureOf(own[0]), "");
  life.PassWith(2, {6});
  EXPECT_THAT(life.FailureOf(own[0]), HasSubstr("rank 1 on "));
  EXPECT_THAT(life.FailureOf(own[0]), HasSubstr("has not come back since its host's daemon was gone"));
}

// As one that ends as soon as it is started.
TEST(HostDaemons, OneThatEndsAgainBeforeItsRanksAreBackGivesThemTheirTimeAnew) {
  DaemonLife life;
  const std::vector<SessionId> own = life.Run(5);
  const proto::Joined first = life.JoinedOf(5, 0), second = life.JoinedOf(5, 1);
  life.Do([&] { life.state->OnHostClosed(life.now, 5); });
  life.PassWith(2, {});
  life.Connect(6);
  life.PassWith(1, {6});
  life.Do([&] { life.state->OnHostClosed(life.now, 6); });
  life.PassWith(50, {});
  EXPECT_EQ(life.FailureOf(own[0]), "");
  EXPECT_EQ(life.state->ListHosts(life.now).hosts_size(), 1) << "whether the host lives is asked for";
  life.Connect(7);
  life.Rejoin(7, 17, first, 0);
  life.Rejoin(7, 18, second, 1);
  life.PassWith(70, {7});
  EXPECT_EQ(life.FailureOf(own[0]), "");
}

// The time of those who were away with the manager ends with that of the others; not that of a host's daemon.
TEST(HostDaemons, ARankThatIsBackByAnotherWayTakesNoTimeFromTheOthers) {
  DaemonLife life;
  const std::vector<SessionId> own = life.Run(5);
  const proto::Joined first = life.JoinedOf(5, 0);
  life.Do([&] { life.state->OnHostClosed(life.now, 5); });
  life.PassWith(4, {});
  EXPECT_TRUE(life.Return(first, "g", 0).has_rejoined());
  life.PassWith(50, {});
  EXPECT_EQ(life.FailureOf(own[0]), "");
  life.PassWith(7, {});
  EXPECT_THAT(life.FailureOf(own[0]), HasSubstr("rank 1 on "));
}

TEST(HostDaemons, OneThatDoesNotComeBackLosesItsRanks) {
  DaemonLife life;
  const std::vector<SessionId> own = life.Run(5);
  life.Do([&] { life.state->OnHostClosed(life.now, 5); });
  life.PassWith(59, {});
  EXPECT_EQ(life.FailureOf(own[0]), "");
  life.PassWith(2, {});
  EXPECT_THAT(life.FailureOf(own[0]), HasSubstr("has not come back since its host's daemon was gone, and that is 60 s ago"));
  EXPECT_EQ(life.state->ListHosts(life.now).hosts_size(), 0);
}

TEST(HostDaemons, AHostThatDoesNotAnswerWithoutItIsLost) {
  DaemonLife life;
  const std::vector<SessionId> own = life.Run(5);
  life.host_lives = false;
  life.Do([&] { life.state->OnHostClosed(life.now, 5); });
  life.PassWith(3, {});
  EXPECT_THAT(life.FailureOf(own[0]), StartsWith("rank 0 on "));
  EXPECT_THAT(life.FailureOf(own[0]), HasSubstr("its host's daemon is gone, and the host does not answer"));
}

TEST(HostDaemons, OneThatStandsStillEndsNothingAsLongAsItsHostAnswers) {
  DaemonLife life;
  const std::vector<SessionId> own = life.Run(5);
  const proto::Joined first = life.JoinedOf(5, 0);
  life.PassWith(30, {});
  life.Speak(5, {});
  // A rank whose ping was not answered meanwhile has broken its session, and comes back.
  life.CloseBehind(5, 0);
  life.PassWith(2, {5});
  life.Rejoin(5, 17, first, 0);
  life.PassWith(70, {5});
  EXPECT_EQ(life.FailureOf(own[0]), "");
  EXPECT_THAT(life.ended, IsEmpty());
  // Later that is the rank's end again.
  life.CloseBehind(5, 17);
  EXPECT_THAT(life.FailureOf(own[0]), HasSubstr("rank 0 on "));
}

TEST(HostDaemons, ASilentHostThatDoesNotAnswerIsLost) {
  DaemonLife life;
  const std::vector<SessionId> own = life.Run(5);
  life.host_lives = false;
  life.PassWith(5, {});
  EXPECT_EQ(life.FailureOf(own[0]), "");
  life.PassWith(2, {});
  EXPECT_THAT(life.FailureOf(own[0]), HasSubstr("nothing heard of its host for 6 s, and it does not answer"));
  EXPECT_THAT(life.ended, ::testing::ElementsAre(5));
}

}  // namespace
}  // namespace epic::manager
