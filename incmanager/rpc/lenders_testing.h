// Groups with a fallback server, and the daemon of the host that lends it memory, for tests of the manager.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/rpc/kept.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/store/memory_store.h"
#include "incmanager/topology_testing.h"

namespace epic::manager::testing {

class LendersWorld : public IdleWorld {
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

inline constexpr HostId kDaemon = 5;

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

  const Topology topology_ = Star(3).Build();
  LendersWorld world_;
  ManagerState state_{topology_, {}, 1, 1, &world_};
};

// Two ranks on h0 and h1 in mode V; the daemon of h2 lends.
class ServedGroups : public ManagerLenders {
 protected:
  void Begin(uint64_t lent = 64 << 20) {
    proto::RegisterRequest request = RegistrationOf(topology_.nodes[0]);
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
  // The host that would lend to another group now; empty: none.
  std::string Lender() const {
    proto::ExplainRequest request;
    request.mutable_group()->add_hosts("h0");
    request.mutable_group()->add_hosts("h1");
    request.mutable_group()->set_mode(proto::MODE_POOLED);
    const auto explained = state_.Explain(request);
    return explained.ok() ? explained->server().host() : std::string(explained.status().message());
  }
  size_t RemoveServers() {
    return static_cast<size_t>(std::ranges::count_if(
        world_.to_hosts[kDaemon], [](const proto::ToHost& message) { return message.has_remove_server(); }));
  }

  Nanos now_ = kSecond;
  std::vector<SessionId> sessions_;
};

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

}  // namespace epic::manager::testing
