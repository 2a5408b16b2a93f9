// A world for tests of GroupLife: records what it is asked for, answers when the test says so.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "incmanager/groups/group_life.h"
#include "incmanager/topology_testing.h"

namespace epic::manager::testing {

// Contexts as the switches of the world have them.
class RecordingWorld : public GroupWorld {
 public:
  void Send(SessionId session, const SessionEvent& event) override { sent[session].push_back(event); }
  void Install(NodeId node, const ContextPlan& context) override { installs.emplace_back(node, context); }
  void Fail(NodeId node, uint64_t group_id, uint32_t) override { failed.emplace(node, group_id); }
  void Remove(NodeId node, uint64_t group_id, uint32_t) override { removals.emplace_back(node, group_id); }
  void MakeServer(NodeId host, const ServerRequest& request) override { servers.emplace_back(host, request); }
  void RemoveServer(NodeId host, uint64_t group_id, uint32_t) override {
    removed_servers.emplace_back(host, group_id);
  }
  void Note(const std::string& line) override { notes.push_back(line); }

  std::map<SessionId, std::vector<SessionEvent>> sent;
  std::vector<std::pair<NodeId, ContextPlan>> installs;  // not answered yet
  std::vector<std::pair<NodeId, uint64_t>> removals;     // not answered yet
  std::set<std::pair<NodeId, uint64_t>> failed;
  std::vector<std::pair<NodeId, ServerRequest>> servers;  // that hosts are asked for, not answered yet
  std::vector<std::pair<NodeId, uint64_t>> removed_servers;
  std::vector<std::string> notes;
};

// Hosts that lend, as a test says.
class SomeLendingHosts : public LendingHosts {
 public:
  std::vector<LendingHost> List() const override { return hosts; }
  std::vector<LendingHost> hosts;
};

// A manager's tables over a topology whose switches are all up.
class GroupWorldFixture {
 public:
  // Who calls the groups: what must hold of them does so when the call is over, unless there are so many that
  // to look at all of them takes long.
  class Caller {
   public:
    Caller(GroupLife* groups, bool checks) : groups_(groups), checks_(checks) {}
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;
    ~Caller() {
      if (checks_) groups_->CheckInvariants();
    }
    GroupLife* operator->() const { return groups_; }

   private:
    GroupLife* groups_;
    bool checks_;
  };

  explicit GroupWorldFixture(const TopologyBuilder& builder, const GroupOptions& options = {})
      : GroupWorldFixture(builder.Build(), options) {}
  explicit GroupWorldFixture(Topology built, const GroupOptions& options = {})
      : topology(std::move(built)), switches(&topology), groups_(&topology, &switches, &world, options, 1) {
    groups_.UseLendingHosts(&lending);
    for (const NodeId node : topology.switches) BringUp(node);
  }

  EngineReport Report(NodeId node, uint64_t boot_id = 1) const {
    const Node& at = topology.nodes[node];
    EngineReport report{at.name, at.address, at.mac, boot_id, 4096, 64, {}, {}};
    for (const Mode mode : AllModes()) report.modes.Add(mode);
    report.pool_buffer_bytes = 8192;
    for (const Hop& hop : at.hops) report.ports.push_back({hop.port, 4200, true});
    return report;
  }
  void BringUp(NodeId node) {
    EPIC_CHECK(switches.Register(now, topology.nodes[node].name, "agent", Report(node)).ok());
    switches.OnForwardingSet(node, true);
  }
  Caller groups() { return Caller(&groups_, checks); }
  const GroupLife* groups() const { return &groups_; }
  NodeId Id(const std::string& name) const { return *topology.FindNode(name); }

  JoinRequest Request(const std::string& host, uint32_t rank, uint32_t size,
                      const std::string& group = "g") const {
    JoinRequest join;
    join.group = group;
    join.rank = rank;
    join.world_size = size;
    join.ip = topology.nodes[Id(host)].address;
    join.qpn = 0x11 + rank;
    join.max_path_mtu = 4096;
    join.max_outstanding = 129;
    join.host_name = host;
    join.pid = 1000 + rank;
    join.path = path;
    return join;
  }
  // Sessions are numbered 100 + rank.
  void Join(uint32_t rank, uint32_t size, const std::string& group = "g") {
    groups()->OnJoin(now, 100 + rank, Request("h" + std::to_string(rank), rank, size, group));
  }
  void JoinAll(uint32_t size, const std::string& group = "g") {
    for (uint32_t rank = 0; rank < size; ++rank) Join(rank, size, group);
  }
  void AnswerInstalls() {
    for (const auto& [node, context] : std::exchange(world.installs, {})) {
      installed.push_back(context);
      groups()->OnInstalled(now, node, context.group_id, {.arena_bytes = 1000});
    }
  }
  // With QPN 0x777.
  void AnswerServers() {
    for (const auto& [host, request] : std::exchange(world.servers, {}))
      groups()->OnServerMade(now, host, request.group_id, request.generation,
                             {.refused = {}, .ip = topology.nodes[host].address, .qpn = 0x777});
  }
  void AnswerRemovals() {
    for (const auto& [node, id] : std::exchange(world.removals, {})) groups()->OnRemoved(now, node, id);
  }
  std::string Phase(const std::string& group = "g") const {
    const auto found = groups()->Find(group);
    return found ? Name(found->phase) : "none";
  }
  // The last thing that a session was told, if it is a T.
  template <typename T>
  const T* Last(SessionId session) const {
    const auto found = world.sent.find(session);
    return found == world.sent.end() ? nullptr : std::get_if<T>(&found->second.back());
  }

  Topology topology;
  Nanos now = kSecond;
  RecordingWorld world;
  SomeLendingHosts lending;
  SwitchTable switches;
  std::vector<ContextPlan> installed;
  Path path = Path::kUnspecified;  // that ranks ask for from now on
  bool checks = true;              // the groups after each call

 private:
  GroupLife groups_;
};

// What a join is answered with at once.
inline Failure Refusal(GroupWorldFixture* w, const JoinRequest& join) {
  w->groups()->OnJoin(w->now, 999, join);
  const auto* failure = w->Last<Failure>(999);
  return failure != nullptr ? *failure : Failure{};
}

}  // namespace epic::manager::testing
