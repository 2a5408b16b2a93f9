// A manager over a store that dies and comes back, with the switches and ranks that go on meanwhile.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/rpc/kept.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/rpc/switch_model_testing.h"
#include "incmanager/store/memory_store.h"

namespace epic::manager::testing {

inline constexpr uint32_t kRanks = 4;

// A network that lives, and the manager of now. What a manager asks for is done when it is kept.
class Life : public IdleWorld {
 public:
  explicit Life(Topology topology) : topology_(std::move(topology)) {
    for (const NodeId node : topology_.switches)
      switches_.push_back(std::make_unique<SwitchModel>(topology_.nodes[node]));
    Start(store.count());
  }

  // The manager is killed, and another one comes that has the first so many batches; its switches register.
  void Start(size_t batches, bool registers = true) {
    effects_.clear();
    is_killed_ = false;
    kill_at_ = 0;
    MemoryStore kept(store.After(batches));
    store = std::move(kept);
    const auto began = BeginEpoch(&store, {});
    ASSERT_TRUE(began.ok()) << began.status();
    ++starts_;
    state =
        std::make_unique<ManagerState>(topology_, GroupOptions{.window_packets = 8}, starts_, starts_, this);
    state->Resume({.now = now}, *began, "memory");
    Do([] {});
    for (NodeId node = 0; registers && node < switches_.size(); ++node) Register(node);
  }
  void Restart() { Start(store.count()); }

  void Register(NodeId node) {
    proto::RegisterRequest request;
    request.set_name(topology_.nodes[node].name);
    request.set_agent_address("10.0.0.1:7401");
    SwitchModel& of = *switches_[node];
    *request.mutable_engine() = of.DescribeAll();
    Do([&] {
      const auto reply = state->Register(now, request);
      ASSERT_TRUE(reply.ok()) << reply.status();
      of.epoch = reply->epoch();
      of.as_of = reply->time();
      of.fence = reply->fence();
      of.RemoveAllBut(*reply);
    });
  }
  // A heartbeat of its agent, which has asked its engine just now; or what it was told before.
  void Beat(NodeId node, const std::optional<proto::EngineInfo>& said = {}) {
    SwitchModel& of = *switches_[node];
    proto::HeartbeatRequest request;
    request.set_name(topology_.nodes[node].name);
    request.set_epoch(of.epoch);
    request.set_engine_up(true);
    request.set_as_of(of.as_of);
    *request.mutable_engine() = said.value_or(of.DescribeAll());
    bool again = false;
    Do([&] {
      const auto reply = state->Heartbeat(now, request);
      ASSERT_TRUE(reply.ok()) << reply.status();
      of.as_of = reply->time();
      again = reply->register_again();
    });
    if (again) Register(node);
  }

  // The manager is killed at the so manieth commit from now on, before it or behind it; what it would have
  // asked for then nobody hears. Until Restart nothing happens. 0: it is not.
  void KillAt(int commit, bool kept) {
    kill_at_ = commit;
    keeps_last_ = kept;
  }
  bool is_killed() const { return is_killed_; }

  // One turn: what it asks for is done when what must be kept before is.
  void Do(const std::function<void()>& call) {
    if (is_killed_) return;
    call();
    const Batch batch = state->TakeBefore({.now = now});
    is_killed_ = !batch.empty() && kill_at_ > 0 && --kill_at_ == 0;
    if (!batch.empty() && (!is_killed_ || keeps_last_)) {
      ASSERT_TRUE(store.Apply(batch).ok());
    }
    const std::deque<std::function<void()>> effects = std::exchange(effects_, {});
    for (const auto& effect : effects) {
      if (is_killed_) return;
      effect();
    }
    if (!is_killed_) state->CheckInvariants();
  }

  // All ranks join; returns their sessions.
  std::vector<SessionId> Join(const std::string& group, proto::Path path) {
    std::vector<SessionId> sessions;
    for (uint32_t rank = 0; rank < kRanks; ++rank) sessions.push_back(Join(group, path, rank, 1));
    return sessions;
  }
  // pid: of its process. nonce: of its join; 0: an earlier library's.
  SessionId Join(const std::string& group, proto::Path path, uint32_t rank, uint32_t pid) {
    return Join(group, path, rank, pid, pid);
  }
  SessionId Join(const std::string& group, proto::Path path, uint32_t rank, uint32_t pid, uint64_t nonce) {
    proto::ClientMessage message;
    proto::Join& join = *message.mutable_join();
    const Node& host = topology_.nodes[topology_.switches.size() + rank];
    join.set_group(group);
    join.set_rank(rank);
    join.set_world_size(kRanks);
    join.set_ip(Raw(host.address));
    join.set_qpn(0x11);
    join.set_max_path_mtu(1024);
    join.set_host_name(host.name);
    join.set_pid(pid);
    join.set_path(path);
    join.set_rejoins(true);
    join.set_nonce(nonce);
    const SessionId session = state->NewSession();
    told[session].clear();  // of another manager's session
    Say(session, message);
    return session;
  }
  void Say(SessionId session, const proto::ClientMessage& message) {
    Do([&] { state->OnMessage(now, session, message); });
  }
  // A rank that was told this comes back; what it is told: how its group has ended, if it has.
  proto::ServerMessage Return(const proto::Joined& joined, const std::string& group, uint32_t rank,
                              SessionId* session = nullptr) {
    const SessionId id = state->NewSession();
    told[id].clear();
    Say(id, RejoinOf(group, rank, joined));
    if (session != nullptr) *session = id;
    for (const proto::ServerMessage& said : told[id]) {
      if (said.has_failure()) return said;
    }
    return told[id].empty() ? proto::ServerMessage() : told[id].front();
  }
  void Leave(SessionId session) {
    proto::ClientMessage message;
    message.mutable_leave()->set_drained(true);
    Say(session, message);
  }
  // The rank has ended, or its stream has broken.
  void Close(SessionId session) {
    Do([&] { state->OnClosed(now, session); });
  }
  void Pass(Nanos time) {
    for (int i = 0; i < 4; ++i) {
      now += time / 4;
      Do([&] { state->Tick(now); });
    }
  }
  size_t Contexts() const {
    size_t count = 0;
    for (const auto& model : switches_) count += model->engine().groups().size();
    return count;
  }
  SwitchModel& model(NodeId node) { return *switches_[node]; }
  const Topology& topology() const { return topology_; }

  void Send(SessionId session, const proto::ServerMessage& message, bool) override {
    effects_.push_back([this, session, message] { told[session].push_back(message); });
  }
  void SetForwarding(NodeId node, const proto::ForwardingTable& table) override {
    effects_.push_back([this, node, table] {
      Do([&] {
        ++tables_sent;
        EXPECT_TRUE(switches_[node]->SetForwarding(table).ok());
        state->OnForwardingSet(now, node, absl::OkStatus());
      });
    });
  }
  void KeepForwarding(NodeId node, uint64_t hash) override {
    effects_.push_back([this, node, hash] {
      Do([&] { state->OnForwardingSet(now, node, switches_[node]->KeepForwarding(hash)); });
    });
  }
  void Install(NodeId node, const proto::GroupConfig& group) override {
    effects_.push_back([this, node, group] {
      Do([&] { state->OnInstalled(now, node, group.group_id(), switches_[node]->Install(group)); });
    });
  }
  void Remove(NodeId node, uint64_t group_id, uint32_t generation) override {
    removed.emplace_back(group_id, generation);
    auto& to = holds_removals ? held_removals_ : effects_;
    to.push_back([this, node, group_id, generation] {
      Do([&] {
        switches_[node]->engine().Remove(group_id, generation);
        state->OnRemoved(now, node, group_id, absl::OkStatus());
      });
    });
  }

  void AnswerRemovals() {
    for (const auto& remove : std::exchange(held_removals_, {})) remove();
  }

  std::vector<std::pair<uint64_t, uint32_t>> removed;  // that were asked for: groups and generations
  bool holds_removals = false;                         // until AnswerRemovals
  MemoryStore store;
  std::unique_ptr<ManagerState> state;
  std::map<SessionId, std::vector<proto::ServerMessage>> told;
  int tables_sent = 0;
  Nanos now = 100 * kSecond;

 private:
  const Topology topology_;
  std::vector<std::unique_ptr<SwitchModel>> switches_;
  std::deque<std::function<void()>> effects_, held_removals_;
  uint64_t starts_ = 0;
  int kill_at_ = 0;  // 0: it is not
  bool keeps_last_ = false, is_killed_ = false;
};

}  // namespace epic::manager::testing
