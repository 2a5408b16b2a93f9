// What daemons of hosts that lend memory are told, and what is shown of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "incmanager/cli/render.h"
#include "incmanager/rpc/lenders_testing.h"
#include "protocol/fallback.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;
using testing::kDaemon;
using testing::ManagerLenders;
using ::testing::Not;
using testing::ResumedServers;
using testing::ServedGroups;

TEST_F(ManagerLenders, DaemonsAreToldThatServersAreKnownAndWhichOfTheirsNobodyWants) {
  state_.OnHostMessage(kSecond, 5, LenderOf("h0", 1, {11, 12}));
  ASSERT_FALSE(world_.to_hosts[5].empty());
  EXPECT_TRUE(world_.to_hosts[5].back().welcome().takes_servers());
  EXPECT_THAT(Removed(5), ::testing::ElementsAre(11, 12));
}

TEST_F(ManagerLenders, AServerThatNobodyHasAskedForIsRemoved) {
  state_.OnHostMessage(kSecond, 5, LenderOf("h0", 1));
  proto::FromHost made;
  made.mutable_server_made()->mutable_group()->set_group_id(13);
  made.mutable_server_made()->mutable_group()->set_generation(7);
  state_.OnHostMessage(kSecond, 5, made);
  EXPECT_THAT(Removed(5), ::testing::ElementsAre(13));
  made.mutable_server_made()->set_outcome(proto::ServerMade::OUTCOME_NO_MEMORY);
  state_.OnHostMessage(kSecond, 5, made);
  EXPECT_EQ(Removed(5).size(), 1u) << "there is none";
  proto::FromHost ended;
  *ended.mutable_server_ended()->mutable_group() = made.server_made().group();
  state_.OnHostMessage(kSecond, 5, ended);
  EXPECT_FALSE(world_.ended.contains(5)) << "it may have been wanted once";
}

TEST_F(ManagerLenders, WhoLendsByAPortThatIsDownIsAHostLikeOthers) {
  proto::FromHost down = LenderOf("h0", 0x0a000001);
  down.mutable_info()->mutable_fallback()->set_ip(0x0a000002);
  state_.OnHostMessage(kSecond, 5, down);
  EXPECT_FALSE(world_.ended.contains(5));
  EXPECT_EQ(state_.ListHosts(kSecond).hosts_size(), 1);
}

TEST_F(ManagerLenders, OperatorsSeeWhoLendsAndWhatIsLeft) {
  state_.OnHostMessage(kSecond, 5, LenderOf("h0", 0x0a000001));
  state_.OnHostMessage(kSecond, 6, InfoOf("h1", 0x0a000002));
  const proto::ListHostsReply reply = state_.ListHosts(kSecond);
  ASSERT_EQ(reply.hosts_size(), 2);
  EXPECT_EQ(reply.hosts(0).info().fallback().bytes(), 3u << 20);
  EXPECT_EQ(reply.hosts(0).fallback_left_bytes(), 3u << 20);
  EXPECT_FALSE(reply.hosts(1).info().has_fallback());
  EXPECT_THAT(RenderHosts(reply), HasSubstr("lends memory  by        MiB  left  groups\n"
                                            "h0            10.0.0.1  3.0  3.0   -\n"));
  proto::ListHostsReply served = reply;
  served.mutable_hosts(0)->set_fallback_left_bytes(1 << 20);
  for (const char* group : {"train", "eval"}) served.mutable_hosts(0)->add_fallback_groups(group);
  EXPECT_THAT(RenderHosts(served), HasSubstr("3.0  1.0   train, eval\n"));
  state_.OnHostClosed(kSecond, 5);
  EXPECT_THAT(RenderHosts(state_.ListHosts(kSecond)), Not(HasSubstr("lends")));
}

TEST_F(ServedGroups, TheHostIsAskedThenTheSwitchThenRanksAreTold) {
  Begin();
  const proto::MakeServer asked = Asked();
  EXPECT_EQ(asked.name(), "g");
  EXPECT_EQ(asked.switch_name(), topology_.nodes[0].name);
  EXPECT_EQ(asked.remote_ip(), Raw(topology_.nodes[0].address));
  EXPECT_EQ(asked.world_size(), 2u);
  EXPECT_EQ(asked.sum_mtus(), 2u);
  EXPECT_EQ(asked.qp_timeout(), 18u);
  EXPECT_EQ(asked.retry_cnt(), 7u);
  EXPECT_EQ(asked.rnr_retry(), 7u);
  EXPECT_EQ(asked.min_rnr_timer(), 1u);
  EXPECT_TRUE(world_.installs.empty());
  Answer();
  ASSERT_EQ(world_.installs.size(), 1u);
  const proto::EndpointConfig& server = world_.installs[0].server();
  EXPECT_EQ(server.remote_qpn(), 0x777u);
  EXPECT_EQ(server.remote_ip(), AddressOf("h2"));
  EXPECT_EQ(server.local_qpn(), asked.remote_qpn());
  EXPECT_EQ(server.in_psn(), asked.send_psn());
  EXPECT_EQ(server.out_psn(), asked.recv_psn());
  EXPECT_EQ(world_.installs[0].path_mtu(), asked.path_mtu());
  EXPECT_EQ(world_.installs[0].slots(), asked.slots());
  const proto::ListHostsReply hosts = state_.ListHosts(now_);
  EXPECT_EQ(hosts.hosts(0).fallback_left_bytes(),
            (64u << 20) - LentBytes(asked.path_mtu(), asked.sum_mtus(), asked.slots()));
  EXPECT_EQ(hosts.hosts(0).fallback_groups(0), "g");
  ASSERT_EQ(hosts.hosts(0).info().fallback().served_size(), 1);
  EXPECT_EQ(hosts.hosts(0).info().fallback().served(0).group_id(), asked.group().group_id());
}

TEST_F(ServedGroups, ARefusalIsToldWithTheHostAndTakesNothing) {
  Begin();
  Answer(proto::ServerMade::OUTCOME_NO_MEMORY);
  for (const size_t rank : {0, 1}) {
    EXPECT_EQ(FailureOf(rank).code(), proto::ERROR_NO_RESOURCE);
    EXPECT_THAT(FailureOf(rank).message(),
                HasSubstr("host h2 cannot be the group's fallback server: because"));
  }
  // For all that is known the switch might have a context that sends there.
  for (const SessionId session : sessions_) state_.OnClosed(now_, session);
  ASSERT_EQ(world_.removals.size(), 1u);
  state_.OnRemoved(now_, 0, world_.removals[0], absl::OkStatus());
  EXPECT_EQ(state_.ListHosts(now_).hosts(0).fallback_left_bytes(), 64u << 20);
}

TEST_F(ServedGroups, ALegThatEndsIsToldOnAllRanksWithTheFieldAndTheHost) {
  Run();
  proto::FromHost message;
  *message.mutable_server_ended()->mutable_group() = Asked().group();
  message.mutable_server_ended()->set_field("length");
  message.mutable_server_ended()->set_message("switch s1 sends what may not be");
  state_.OnHostMessage(now_, kDaemon, message);
  for (const size_t rank : {0, 1}) {
    EXPECT_EQ(FailureOf(rank).code(), proto::ERROR_FALLBACK_LOST);
    EXPECT_THAT(FailureOf(rank).message(), HasSubstr("h2"));
    EXPECT_THAT(FailureOf(rank).message(), HasSubstr("field length"));
  }
}

TEST_F(ServedGroups, ADaemonThatDiesTakesItsGroupsAlongWithinFiveSeconds) {
  Run();
  state_.OnHostClosed(now_, kDaemon);
  Pass(2 * kSecond);
  EXPECT_EQ(FailureOf(0).code(), proto::ERROR_OK) << "it may be its stream alone";
  Pass(2 * kSecond);
  for (const size_t rank : {0, 1}) {
    EXPECT_EQ(FailureOf(rank).code(), proto::ERROR_FALLBACK_LOST);
    EXPECT_THAT(FailureOf(rank).message(), HasSubstr("its daemon (inchost) is gone"));
  }
}

TEST_F(ServedGroups, ADaemonThatHasStartedAnewHasLostItsGroupsServers) {
  Run();
  state_.OnHostClosed(now_, kDaemon);
  state_.OnHostMessage(now_, kDaemon + 1, LenderOf("h2", AddressOf("h2")));
  EXPECT_EQ(FailureOf(1).code(), proto::ERROR_FALLBACK_LOST);
  EXPECT_THAT(FailureOf(1).message(), HasSubstr("started anew"));
}

TEST_F(ServedGroups, ADaemonThatIsBackWithItsServersEndsNothing) {
  Run();
  state_.OnHostClosed(now_, kDaemon);
  proto::FromHost back = LenderOf("h2", AddressOf("h2"));
  *back.mutable_info()->mutable_fallback()->add_served() = Asked().group();
  state_.OnHostMessage(now_, kDaemon + 1, back);
  Pass(3 * kSecond);
  EXPECT_EQ(FailureOf(0).code(), proto::ERROR_OK);
  EXPECT_EQ(state_.ListHosts(now_).hosts(0).fallback_groups_size(), 1);
}

// A cable is pulled and put back: what its link has to say is said of that.
TEST_F(ServedGroups, TheServersStayWhileTheLendersPortIsDown) {
  Run();
  proto::FromHost down = LenderOf("h2", AddressOf("h2"));
  down.mutable_info()->clear_ports();
  state_.OnHostMessage(now_, kDaemon, down);
  EXPECT_FALSE(world_.ended.contains(kDaemon));
  EXPECT_EQ(FailureOf(0).code(), proto::ERROR_OK);
  EXPECT_EQ(Lender(), "") << "no group gets another one";
  state_.OnHostMessage(now_, kDaemon, LenderOf("h2", AddressOf("h2")));
  EXPECT_EQ(FailureOf(0).code(), proto::ERROR_OK);
  EXPECT_EQ(Lender(), "h2");
  EXPECT_EQ(RemoveServers(), 0u);
}

// What came meanwhile is heard behind the first tick.
TEST_F(ServedGroups, TimeInWhichTheManagerStoodStillIsNoneOfTheLenders) {
  Begin();
  state_.Tick(now_);
  now_ += 20 * kSecond;
  state_.Tick(now_);
  EXPECT_EQ(FailureOf(0).code(), proto::ERROR_OK);
  Answer();
  ASSERT_EQ(world_.installs.size(), 1u);
  state_.OnInstalled(now_, 0, Asked().group().group_id(), {.arena_bytes = 1000});
  state_.OnHostClosed(now_, kDaemon);
  Pass(kSecond);
  now_ += 20 * kSecond;
  state_.Tick(now_);
  now_ += kSecond;
  state_.Tick(now_);
  EXPECT_EQ(FailureOf(0).code(), proto::ERROR_OK) << "it has a second left";
  Pass(3 * kSecond);
  EXPECT_EQ(FailureOf(0).code(), proto::ERROR_FALLBACK_LOST);
}

// Its switch is asked from two seconds on, and has no answer seven times.
TEST_F(ServedGroups, ALendersHostThatIsDeadIsLostWithinFiveSeconds) {
  Run();
  Pass(kHostSilentAfter);
  EXPECT_EQ(FailureOf(0).code(), proto::ERROR_OK);
  Pass(kSecond);
  EXPECT_EQ(FailureOf(0).code(), proto::ERROR_FALLBACK_LOST);
  EXPECT_THAT(FailureOf(0).message(), HasSubstr("does not answer"));
}

TEST_F(ServedGroups, TheServerIsRemovedBehindTheSwitchsContext) {
  Run();
  proto::ClientMessage leave;
  leave.mutable_leave()->set_drained(true);
  for (const SessionId session : sessions_) state_.OnMessage(now_, session, leave);
  ASSERT_EQ(world_.removals.size(), 1u);
  EXPECT_EQ(RemoveServers(), 0u) << "the switch may still send";
  state_.OnRemoved(now_, 0, world_.removals[0], absl::OkStatus());
  EXPECT_EQ(RemoveServers(), 1u);
  EXPECT_EQ(state_.ListHosts(now_).hosts(0).fallback_left_bytes(), 64u << 20);
}

TEST_F(ResumedServers, ADaemonThatStillHasTheServerGoesOn) {
  next_.OnHostMessage(now_, kDaemon + 1, Back(true));
  EXPECT_TRUE(Runs());
  EXPECT_EQ(world_.to_hosts[kDaemon + 1].size(), 1u) << "a welcome alone";
  EXPECT_EQ(next_.ListHosts(now_).hosts(0).fallback_groups_size(), 1);
}

TEST_F(ResumedServers, ADaemonThatHasStartedMeanwhileHasLostIt) {
  next_.OnHostMessage(now_, kDaemon + 1, Back(false));
  EXPECT_FALSE(Runs());
  EXPECT_EQ(EndedWith(), ErrorCode::kFallbackLost);
}

// The next manager's network is found, and its hosts have no names in it but those that groups gave them.
TEST_F(ResumedServers, ADiscoveredLenderHasItsNameAgain) {
  ManagerState found({.name = "found", .path_mtu = 4096, .discovery = true}, {}, 3, 3, &world_);
  Resume(&found, now_);
  const uint64_t id = Asked().group().group_id();
  proto::RegisterRequest request = testing::RegistrationOf(topology_.nodes[0], {id});
  for (size_t at = 0; at < topology_.nodes[0].hops.size(); ++at) {
    const Node& host = topology_.nodes[topology_.nodes[0].hops[at].peer];
    proto::Neighbour& neighbour =
        *request.mutable_engine()->mutable_ports(static_cast<int>(at))->add_neighbours();
    neighbour.set_kind(proto::NEIGHBOUR_HOST);
    neighbour.set_ip(Raw(host.address));
    neighbour.set_mac(std::string(host.mac.begin(), host.mac.end()));
    neighbour.set_heard_by(proto::HEARD_BY_ARP);
  }
  ASSERT_TRUE(found.Register(now_, request).ok());
  found.OnHostMessage(now_, kDaemon + 1, Back(true));
  for (const Nanos end = now_ + 5 * kSecond; now_ < end; now_ += 100 * kMillisecond) found.Tick(now_);
  const auto group = found.ShowGroup("g", true, now_);
  ASSERT_TRUE(group.ok());
  EXPECT_EQ(group->state(), "running") << group->DebugString();
  EXPECT_EQ(group->server().host(), "h2");
}

}  // namespace
}  // namespace epic::manager
