// A manager of a world that dies at any moment and comes back from what its store has kept: the shipped
// ManagerState, among switches, ranks and calls that go on meanwhile. What it says is under way for a random
// time, and some of it is lost with it. Nobody is told what has not been kept.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/store/memory_store.h"
#include "sim/restarts/agents.h"
#include "sim/restarts/rank_ends.h"
#include "sim/shared/engine_contexts.h"
#include "sim/shared/jobs.h"
#include "sim/shared/world_manager.h"
#include "sim/world.h"

namespace epic::sim {

class KeptManager final : public WorldManager,
                          private manager::ManagerWorld,
                          private ManagerStreams,
                          private AgentCalls {
 public:
  // All are borrowed, until the world has run.
  KeptManager(World& world, const SharedShape& shape, Choices& choices, RankSessions& ranks);

  void Say(manager::SessionId rank, const RankWord& word) override { ends_.Say(rank, word); }
  void Miss(manager::SessionId rank) override { ends_.Miss(rank); }
  void CrashEngine(int s, Nanos until) override;
  bool Explains(const manager::Failure& failure) const override;
  Nanos KnownBy() const override;
  Status SetTenant(const manager::Tenant& tenant) override;
  Status RemoveTenant(const std::string& name) override;
  void SetDefaultPolicy(manager::Policy policy) override;
  Status Create(const manager::GroupSpec& spec) override;
  Status Destroy(const std::string& name) override;
  std::vector<std::string> Names() const override { return state_->groups().Names(); }
  const std::string& wrong() const override;
  std::string Leftovers() const override;
  void AddTo(Counts* counts) const override;

 private:
  using Effect = std::function<void()>;
  // What was asked for in one turn; it waits for those before it, and for its batch.
  struct Held {
    bool may = false;
    std::vector<Effect> effects;
  };

  // kept_store.cc: lives, turns and the store.
  void Start();
  void Die();
  void TickFrom(Nanos time);
  void Turn(const std::function<void()>& call);
  void Release();
  void Post(manager::Batch batch, std::function<void()> kept);
  void Keep(const manager::Batch& batch);
  // An operator's change: looked at, kept, done.
  template <typename Request, typename Do>
  Status Change(const Request& request, const Do& change);
  void AwaitEnd();
  void AtLife(Nanos time, std::function<void()> action);
  manager::Moment At() const { return {.now = world_.now(), .unix_us = world_.now() / 1000}; }
  Nanos Within(Nanos most) { return 1 + static_cast<Nanos>(choices_.Below(static_cast<uint64_t>(most))); }
  Nanos Soon() { return world_.now() + Within(shape_.control.message); }
  void Complain(const std::string& what);

  // ManagerStreams.
  std::shared_ptr<RankStream> Open(manager::SessionId rank) override;
  void Write(const std::shared_ptr<RankStream>& stream, const proto::ClientMessage& message) override;
  void Close(const std::shared_ptr<RankStream>& stream, Nanos after) override;
  // AgentCalls.
  uint64_t life() const override { return state_ ? life_ : 0; }
  void Turn(uint64_t life, const std::function<void(manager::ManagerState&)>& call) override;

  // ManagerWorld.
  void Send(manager::SessionId session, const proto::ServerMessage& message, bool last) override;
  void SendAtOnce(manager::SessionId session, const proto::ServerMessage& message, bool last) override;
  void SendToHost(manager::HostId, const proto::ToHost&) override {}
  void EndHost(manager::HostId, const Status&) override {}
  void SetAgent(manager::NodeId, const std::string&) override {}
  void SetForwarding(manager::NodeId node, const proto::ForwardingTable& table) override;
  // No switch here says which table it has.
  void KeepForwarding(manager::NodeId, uint64_t) override { EPIC_CHECK(false); }
  void Install(manager::NodeId node, const proto::GroupConfig& group) override;
  void Fail(manager::NodeId node, uint64_t group_id, uint32_t generation) override;
  void Remove(manager::NodeId node, uint64_t group_id, uint32_t generation) override;
  void Probe(manager::NodeId witness, manager::NodeId about, const proto::ProbeRequest& request) override;
  void Locate(manager::NodeId, const proto::LocateRequest&) override {}
  void OnCalls(manager::SessionId, const proto::CallsMade*) override {}
  // A call to a switch, and what the manager is told of it.
  using Answer = std::function<void(manager::ManagerState&, Nanos now)>;
  void ToSwitch(manager::NodeId node, std::function<Answer(const Status& refused)> call);
  void ToRank(const std::shared_ptr<RankStream>& stream, const proto::ServerMessage& message);
  // What is about to be told has been kept.
  void JudgeTold(manager::SessionId rank, const proto::ServerMessage& message);
  bool HasIdBefore(const proto::GroupConfig& group);

  World& world_;
  const SharedShape& shape_;
  Choices& choices_;
  const manager::Topology topology_;
  EngineContexts contexts_;
  RankEnds ends_;
  manager::Contents rows_;  // of the store
  std::unique_ptr<manager::MemoryStore> store_;
  std::unique_ptr<manager::ManagerState> state_;  // null: it is dead
  uint64_t life_ = 0, epoch_ = 0;
  std::vector<Effect> effects_;
  std::deque<std::shared_ptr<Held>> held_;
  Nanos commits_by_ = 0;  // when the last of what the store was asked is done
  Nanos more_by_ = 0;
  std::map<manager::SessionId, std::shared_ptr<RankStream>> sessions_;  // of this life
  std::vector<std::shared_ptr<RankStream>> streams_;                    // of this life
  size_t restarts_ = 0;                                                 // that are over or under way
  bool armed_ = false;                                                  // it dies at one of the next commits
  int commits_left_ = 0;
  std::map<uint64_t, std::pair<std::string, uint64_t>> named_;  // by id: of which group, of which life
  std::set<std::string> crashed_;                               // switches, by name
  std::string wrong_;
  Agents agents_;
};

}  // namespace epic::sim
