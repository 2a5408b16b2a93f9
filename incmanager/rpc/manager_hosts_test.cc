// Ranks whose sessions come by their host's daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Keeps what ranks and hosts are told.
class HostsWorld : public testing::IdleWorld {
 public:
  void Send(SessionId session, const proto::ServerMessage& message, bool) override {
    told[session] = message;
  }
  void SendToHost(HostId host, const proto::ToHost& message) override { to_hosts[host].push_back(message); }
  void EndHost(HostId host, const Status& status) override { ended[host] = status; }

  std::map<SessionId, proto::ServerMessage> told;
  std::map<HostId, std::vector<proto::ToHost>> to_hosts;
  std::map<HostId, Status> ended;
};

class ManagerHosts : public ::testing::Test {
 protected:
  void Register(HostId host, const std::string& name) {
    proto::FromHost message;
    message.mutable_info()->set_name(name);
    state_.OnHostMessage(kSecond, host, message);
  }

  proto::ClientMessage Join(uint32_t rank) const {
    proto::ClientMessage message;
    proto::Join& join = *message.mutable_join();
    join.set_group("g");
    join.set_rank(rank);
    join.set_world_size(3);
    join.set_ip(Raw(topology_.nodes[topology_.switches.size() + rank].address));
    join.set_qpn(0x11);
    join.set_max_path_mtu(1024);
    join.set_join_timeout_ms(60'000);
    return message;
  }

  void Say(Nanos now, HostId host, uint64_t number, const proto::ClientMessage& message) {
    proto::FromHost from;
    from.mutable_said()->set_session(number);
    *from.mutable_said()->mutable_message() = message;
    state_.OnHostMessage(now, host, from);
  }

  void Close(HostId host, uint64_t number) {
    proto::FromHost from;
    from.mutable_said()->set_session(number);
    state_.OnHostMessage(2 * kSecond, host, from);
  }

  std::vector<uint32_t> JoinedRanks() const {
    std::vector<uint32_t> ranks;
    const auto group = state_.ShowGroup("g");
    if (group.ok()) ranks.assign(group->joined_ranks().begin(), group->joined_ranks().end());
    return ranks;
  }

  const Topology topology_ = testing::Star(3).Build();
  HostsWorld world_;
  ManagerState state_{topology_, {}, 1, 1, &world_};
};

TEST_F(ManagerHosts, OneStreamCarriesTheSessionsOfItsRanks) {
  Register(5, "h0");
  ASSERT_EQ(world_.to_hosts[5].size(), 1u);
  EXPECT_TRUE(world_.to_hosts[5][0].has_welcome());
  Say(kSecond, 5, 1, Join(0));
  Say(kSecond, 5, 2, Join(1));
  EXPECT_THAT(JoinedRanks(), ElementsAre(0, 1));
  const SessionId own = state_.NewSession();
  state_.OnMessage(kSecond, own, Join(2));
  // There is no switch that lives: all are told so, each by its way.
  EXPECT_TRUE(world_.told[own].has_failure());
  ASSERT_EQ(world_.to_hosts[5].size(), 3u);
  for (const int at : {1, 2}) {
    const proto::RankTold& told = world_.to_hosts[5][static_cast<size_t>(at)].told();
    EXPECT_EQ(told.session(), static_cast<uint64_t>(at));
    EXPECT_TRUE(told.last() && told.message().has_failure());
  }
  const proto::ListHostsReply hosts = state_.ListHosts(2 * kSecond);
  ASSERT_EQ(hosts.hosts_size(), 1);
  EXPECT_EQ(hosts.hosts(0).info().name(), "h0");
  EXPECT_EQ(hosts.hosts(0).sessions(), 2u);
  EXPECT_EQ(hosts.hosts(0).last_heard_ms_ago(), 1000);
}

// As machines made from one image have.
TEST_F(ManagerHosts, TwoHostsMayHaveOneName) {
  for (const HostId host : {5, 6}) {
    proto::FromHost message;
    message.mutable_info()->set_name("vm");
    message.mutable_info()->add_ports()->set_ip(0x0a000000u + static_cast<uint32_t>(host));
    message.mutable_info()->mutable_ports(0)->set_mac(std::string("\x02\x00\x00\x00\x00", 5) +
                                                      static_cast<char>(host));
    state_.OnHostMessage(kSecond, host, message);
    ASSERT_EQ(world_.to_hosts[host].size(), 1u) << host;
    EXPECT_TRUE(world_.to_hosts[host][0].has_welcome());
  }
  Say(kSecond, 5, 1, Join(0));
  Say(kSecond, 6, 1, Join(1));
  EXPECT_THAT(JoinedRanks(), ElementsAre(0, 1));
  EXPECT_EQ(state_.ListHosts(kSecond).hosts_size(), 2);
  state_.OnHostClosed(2 * kSecond, 6);
  EXPECT_THAT(JoinedRanks(), ElementsAre(0));
  EXPECT_TRUE(world_.ended.empty());
  // What happened last is that the group is told.
  const proto::EventsReply told = state_.Events(2 * kSecond, {});
  ASSERT_GE(told.events_size(), 2);
  const proto::Event& lost = told.events(told.events_size() - 2);
  EXPECT_EQ(lost.about() + ": " + lost.text(),
            "host vm (10.0.0.6): lost, with 1 session: its host's daemon is gone");
}

TEST_F(ManagerHosts, ASessionIsItsRanksLeaseAsOneOfItsOwn) {
  Register(5, "h0");
  Say(kSecond, 5, 1, Join(0));
  Say(kSecond, 5, 2, Join(1));
  Close(5, 2);
  EXPECT_THAT(JoinedRanks(), ElementsAre(0));
  // What it said while its end was on its way begins none anew.
  proto::ClientMessage leave;
  leave.mutable_leave();
  Say(2 * kSecond, 5, 2, leave);
  EXPECT_EQ(state_.ListHosts(2 * kSecond).hosts(0).sessions(), 1u);
}

TEST_F(ManagerHosts, WithItsDaemonAHostsRanksAreGone) {
  Register(5, "h0");
  Say(kSecond, 5, 1, Join(0));
  Say(kSecond, 5, 2, Join(1));
  state_.OnHostClosed(2 * kSecond, 5);
  EXPECT_TRUE(JoinedRanks().empty());
  EXPECT_EQ(state_.ListHosts(2 * kSecond).hosts_size(), 0);
}

TEST_F(ManagerHosts, ARankThatWaitsForItsHostToBeFoundGoesWithItsDaemonToo) {
  Topology nothing;
  nothing.discovery = true;
  ManagerState state(nothing, {}, 1, 1, &world_);
  proto::FromHost message;
  message.mutable_info()->set_name("h0");
  state.OnHostMessage(kSecond, 5, message);
  message.mutable_said()->set_session(1);
  *message.mutable_said()->mutable_message() = Join(0);
  state.OnHostMessage(kSecond, 5, message);
  state.OnHostClosed(2 * kSecond, 5);
  for (Nanos now = 2 * kSecond; now <= 10 * kSecond; now += 100 * kMillisecond) state.Tick(now);
  EXPECT_EQ(world_.to_hosts[5].size(), 1u) << "it has not joined, nor been refused";
}

TEST_F(ManagerHosts, WhatAHostSaysLaterMayBeRefusedAndItGoesOn) {
  Register(5, "h0");
  Say(kSecond, 5, 1, Join(0));
  Register(5, "h9");
  EXPECT_FALSE(world_.ended.contains(5));
  EXPECT_THAT(JoinedRanks(), ElementsAre(0));
  EXPECT_EQ(state_.ListHosts(kSecond).hosts(0).info().name(), "h0");
}

TEST_F(ManagerHosts, ASilentHostIsLostAfterSixSecondsAndOneThatSpeaksIsNot) {
  Register(5, "h0");
  Register(6, "h1");
  Say(kSecond, 5, 1, Join(0));
  Say(kSecond, 6, 1, Join(1));
  for (Nanos now = kSecond; now <= 7 * kSecond + 200 * kMillisecond; now += 100 * kMillisecond) {
    state_.OnHostMessage(now, 6, {});
    state_.Tick(now);
    EXPECT_EQ(JoinedRanks().size(), now >= 7 * kSecond ? 1u : 2u) << now;
  }
  EXPECT_THAT(JoinedRanks(), ElementsAre(1));
  EXPECT_EQ(world_.ended[5].message(), "nothing heard of its host for 6 s, and it does not answer");
  EXPECT_FALSE(world_.ended.contains(6));
}

TEST_F(ManagerHosts, WhenTheManagerItselfStoodStillNoHostIsLost) {
  Register(5, "h0");
  Say(kSecond, 5, 1, Join(0));
  for (Nanos now = kSecond; now <= 2 * kSecond; now += 100 * kMillisecond) state_.Tick(now);
  state_.Tick(10 * kSecond);
  state_.OnHostMessage(10 * kSecond, 5, {});
  for (int i = 1; i <= 10; ++i) state_.Tick(10 * kSecond + i * 100 * kMillisecond);
  EXPECT_THAT(JoinedRanks(), ElementsAre(0));
}

TEST_F(ManagerHosts, ARefusedHostIsToldWhyAndDisturbsNobody) {
  Register(5, "h0");
  Say(kSecond, 5, 1, Join(0));
  Register(6, "h0");
  EXPECT_EQ(world_.ended[6].code(), StatusCode::kAlreadyExists);
  Say(kSecond, 7, 1, Join(1));
  EXPECT_THAT(std::string(world_.ended[7].message()), HasSubstr("says first who it is"));
  proto::FromHost bad;
  bad.mutable_info()->set_name("h3");
  bad.mutable_info()->add_ports()->set_ifname("vec0");
  state_.OnHostMessage(kSecond, 8, bad);
  EXPECT_EQ(world_.ended[8].message(), "mac of vec0: 0 bytes, not 6");
  EXPECT_THAT(JoinedRanks(), ElementsAre(0));
  EXPECT_FALSE(world_.ended.contains(5));
}

}  // namespace
}  // namespace epic::manager
