// What daemons of hosts that lend memory are told, and what is shown of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/cli/render.h"
#include "incmanager/rpc/kept.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/store/memory_store.h"
#include "incmanager/topology_testing.h"
#include "protocol/fallback.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LendersWorld : public testing::IdleWorld {
 public:
  void Send(SessionId session, const proto::ServerMessage& message, bool) override {
    told[session] = message;
  }
  void Install(NodeId, const proto::GroupConfig& group) override { installs.push_back(group); }
  void Remove(NodeId, uint64_t group_id, uint32_t) override { removals.push_back(group_id); }
  void Probe(NodeId, NodeId about, const proto::ProbeRequest& request) override {
    if (request.by_arp()) asked_by_arp.emplace_back(about, Ipv4{request.ip()});
  }
  void SendToHost(HostId host, const proto::ToHost& message) override { to_hosts[host].push_back(message); }
  void EndHost(HostId host, const Status& status) override { ended[host] = status; }

  std::map<HostId, std::vector<proto::ToHost>> to_hosts;
  std::map<HostId, Status> ended;
  std::map<SessionId, proto::ServerMessage> told;
  std::vector<proto::GroupConfig> installs;
  std::vector<uint64_t> removals;
  std::vector<std::pair<NodeId, Ipv4>> asked_by_arp;
};

constexpr HostId kDaemon = 5;

class ManagerLenders : public ::testing::Test {
 protected:
  static proto::FromHost InfoOf(const std::string& name, uint32_t ip) {
    proto::FromHost message;
    proto::HostInfo& info = *message.mutable_info();
    info.set_name(name);
    proto::HostPort& port = *info.add_ports();
    port.set_ifname("vec0");
    port.set_mac(std::string(6, 2));
    port.set_ip(ip);
    return message;
  }
  // Of a host that lends 3 MiB, with servers of these groups.
  static proto::FromHost LenderOf(const std::string& name, uint32_t ip,
                                  const std::vector<uint64_t>& served = {}) {
    proto::FromHost message = InfoOf(name, ip);
    proto::FallbackOffer& offer = *message.mutable_info()->mutable_fallback();
    offer.set_bytes(3 << 20);
    offer.set_ip(ip);
    for (const uint64_t id : served) {
      offer.add_served()->set_group_id(id);
      offer.mutable_served()->rbegin()->set_generation(7);
    }
    return message;
  }
  // The groups whose servers the daemon is told to remove.
  std::vector<uint64_t> Removed(HostId host) {
    std::vector<uint64_t> ids;
    for (const proto::ToHost& message : world_.to_hosts[host]) {
      if (!message.has_remove_server()) continue;
      EXPECT_EQ(message.remove_server().group().generation(), 7u);
      ids.push_back(message.remove_server().group().group_id());
    }
    return ids;
  }

  const Topology topology_ = testing::Star(3).Build();
  LendersWorld world_;
  ManagerState state_{topology_, {}, 1, 1, &world_};
};

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

TEST_F(ManagerLenders, WhoLendsByAnAddressThatItDoesNotHaveIsRefused) {
  proto::FromHost bad = LenderOf("h0", 0x0a000001);
  bad.mutable_info()->mutable_fallback()->set_ip(0x0a000002);
  state_.OnHostMessage(kSecond, 5, bad);
  EXPECT_EQ(world_.ended[5].message(), "fallback: 10.0.0.2 is the address of none of its ports");
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

// Two ranks on h0 and h1 in mode V; the daemon of h2 lends.
class ServedGroups : public ManagerLenders {
 protected:
  void Begin(uint64_t lent = 64 << 20) {
    proto::RegisterRequest request = testing::RegistrationOf(topology_.nodes[0]);
    proto::Capability& has = *request.mutable_engine()->mutable_capability();
    for (const Mode mode : AllModes()) has.add_modes(static_cast<proto::Mode>(mode));
    has.set_max_path_mtu(4096);
    has.set_max_children(64);
    has.set_arena_bytes(32 << 20);
    has.set_arena_free_bytes(16 << 20);
    has.mutable_pool()->set_bytes(4 << 20);
    has.mutable_pool()->set_buffer_bytes(8192);
    ASSERT_TRUE(state_.Register(now_, request).ok());
    state_.OnForwardingSet(now_, 0, absl::OkStatus());
    proto::FromHost lender = LenderOf("h2", AddressOf("h2"));
    lender.mutable_info()->mutable_fallback()->set_bytes(lent);
    state_.OnHostMessage(now_, kDaemon, lender);
    proto::CreateGroupRequest create;
    create.set_name("g");
    create.set_world_size(2);
    create.set_mode(proto::MODE_POOLED);
    create.set_path(proto::PATH_NETWORK);
    ASSERT_TRUE(state_.CreateGroup(create).ok());
    for (const uint32_t rank : {0, 1}) {
      proto::ClientMessage message;
      proto::Join& join = *message.mutable_join();
      join.set_group("g");
      join.set_rank(rank);
      join.set_world_size(2);
      join.set_ip(AddressOf(rank == 0 ? "h0" : "h1"));
      join.set_qpn(0x11);
      join.set_max_path_mtu(4096);
      join.set_rejoins(true);
      sessions_.push_back(state_.NewSession());
      state_.OnMessage(now_, sessions_.back(), message);
    }
  }
  uint32_t AddressOf(const std::string& host) const {
    return Raw(topology_.nodes[*topology_.FindHost(host)].address);
  }
  // What the daemon was asked for last.
  proto::MakeServer Asked() {
    for (auto at = world_.to_hosts[kDaemon].rbegin(); at != world_.to_hosts[kDaemon].rend(); ++at) {
      if (at->has_make_server()) return at->make_server();
    }
    ADD_FAILURE() << "the daemon has not been asked";
    return {};
  }
  void Answer(proto::ServerMade::Outcome outcome = proto::ServerMade::OUTCOME_SERVES) {
    proto::FromHost message;
    proto::ServerMade& made = *message.mutable_server_made();
    *made.mutable_group() = Asked().group();
    made.set_outcome(outcome);
    if (outcome == proto::ServerMade::OUTCOME_SERVES) {
      made.set_ip(AddressOf("h2"));
      made.set_qpn(0x777);
    } else {
      made.set_message("because");
    }
    state_.OnHostMessage(now_, kDaemon, message);
  }
  void Run() {
    Begin();
    Answer();
    ASSERT_EQ(world_.installs.size(), 1u);
    state_.OnInstalled(now_, 0, Asked().group().group_id(), {.arena_bytes = 1000});
    for (const SessionId session : sessions_) ASSERT_TRUE(world_.told[session].has_joined());
  }
  // Its switch has no answer of h2's host.
  void Pass(Nanos time) {
    for (const Nanos end = now_ + time; now_ < end;) {
      for (const auto& [host, ip] : std::exchange(world_.asked_by_arp, {})) {
        proto::ProbeReply none;
        none.set_asked(true);
        state_.OnProbed(now_, 0, host, ip, none);
      }
      now_ += 100 * kMillisecond;
      state_.Tick(now_);
    }
  }
  proto::Failure FailureOf(size_t rank) { return world_.told[sessions_.at(rank)].failure(); }
  size_t RemoveServers() {
    return static_cast<size_t>(std::ranges::count_if(
        world_.to_hosts[kDaemon], [](const proto::ToHost& message) { return message.has_remove_server(); }));
  }

  Nanos now_ = kSecond;
  std::vector<SessionId> sessions_;
};

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

// The manager has a store, dies, and comes back.
class ResumedServers : public ServedGroups {
 protected:
  void SetUp() override {
    Resume(&state_, 0);
    Run();
    ASSERT_TRUE(store_.Apply(state_.TakeBefore({.now = now_})).ok());
    Resume(&next_, now_);
    ASSERT_TRUE(Runs());
  }
  void Resume(ManagerState* state, Nanos now) {
    const auto kept = BeginEpoch(&store_, {.now = now});
    ASSERT_TRUE(kept.ok()) << kept.status();
    state->Resume({.now = now}, *kept, "memory");
  }
  bool Runs() const {
    const auto group = next_.ShowGroup("g", true, now_);
    return group.ok() && group->state() == "running";
  }
  ErrorCode EndedWith() const {
    const auto group = next_.ShowGroup("g", true, now_);
    return group.ok() ? static_cast<ErrorCode>(group->last_end().failure().code()) : ErrorCode::kOk;
  }
  proto::FromHost Back(bool serves) {
    proto::FromHost back = LenderOf("h2", AddressOf("h2"));
    if (serves) *back.mutable_info()->mutable_fallback()->add_served() = Asked().group();
    return back;
  }

  MemoryStore store_;
  ManagerState next_{topology_, {}, 2, 2, &world_};
};

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

}  // namespace
}  // namespace epic::manager
