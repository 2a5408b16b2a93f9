// What the manager does with the messages of agents, hosts and operators. No thread, no lock, no clock, no
// gRPC: messages and time come in, what is to be sent goes out through ManagerWorld. Not thread-safe: its
// owner holds one lock around every call.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/silence.h"
#include "incmanager/engine_report.h"
#include "incmanager/graph/graph.h"
#include "incmanager/graph/host_search.h"
#include "incmanager/graph/table_update.h"
#include "incmanager/graph/told_tables.h"
#include "incmanager/groups/event_log.h"
#include "incmanager/groups/group_life.h"
#include "incmanager/groups/health_watch.h"
#include "incmanager/groups/switch_table.h"
#include "incmanager/hosts/host_doubts.h"
#include "incmanager/hosts/host_table.h"
#include "incmanager/hosts/lenders.h"
#include "incmanager/rpc/held_joins.h"
#include "incmanager/rpc/kept.h"
#include "incmanager/rpc/refusal_rate.h"
#include "incmanager/rpc/refusals.h"
#include "incmanager/store/store.h"
#include "incmanager/topology.h"
#include "proto/manager.pb.h"

namespace epic::manager {

// Carries out what ManagerState asks for; its functions must not call back.
class ManagerWorld {
 public:
  virtual ~ManagerWorld() = default;
  // To a rank; last: its session ends when it has been sent.
  virtual void Send(SessionId session, const proto::ServerMessage& message, bool last) = 0;
  // To a host's daemon, and its end with an error.
  virtual void SendToHost(HostId host, const proto::ToHost& message) = 0;
  // The same of what promises nothing: it waits for nothing that is to be kept before, and may overtake the
  // others.
  virtual void SendAtOnce(SessionId session, const proto::ServerMessage& message, bool last) {
    Send(session, message, last);
  }
  virtual void SendToHostAtOnce(HostId host, const proto::ToHost& message) { SendToHost(host, message); }
  virtual void EndHost(HostId host, const Status& status) = 0;
  // The same of one that has been promised nothing.
  virtual void EndHostAtOnce(HostId host, const Status& status) { EndHost(host, status); }
  // Where the switch's agent serves from now on.
  virtual void SetAgent(NodeId node, const std::string& address) = 0;
  // Calls to a switch, carried out in this order. Each is answered by ManagerState's function of that name,
  // Fail by none.
  virtual void SetForwarding(NodeId node, const proto::ForwardingTable& table) = 0;
  // The same of a table that the switch has, as it has said (SetForwardingRequest.keeps); answered as that.
  virtual void KeepForwarding(NodeId node, uint64_t hash) = 0;
  virtual void Install(NodeId node, const proto::GroupConfig& group) = 0;
  virtual void Fail(NodeId node, uint64_t group_id, uint32_t generation) = 0;
  virtual void Remove(NodeId node, uint64_t group_id, uint32_t generation) = 0;
  // Has a switch ask another one for an echo. Not queued behind the calls above; answered by OnProbed.
  virtual void Probe(NodeId witness, NodeId about, const proto::ProbeRequest& request) = 0;
  // Has a switch ask at its ports who has an address. Whoever answers is in a report of its soon. Not queued
  // either; answered by OnLocated.
  virtual void Locate(NodeId node, const proto::LocateRequest& request) = 0;
  // A rank has said what it has called, asked by AskCalls or not; null: its session has ended.
  virtual void OnCalls(SessionId session, const proto::CallsMade* calls) = 0;
};

class ManagerState : private GroupWorld, private LendingHosts {
 public:
  // world outlives this. epoch: differs from that of any former manager; seed: of PSNs and group ids.
  // topology: as in Graph.
  ManagerState(Topology topology, const GroupOptions& options, uint64_t epoch, uint64_t seed,
               ManagerWorld* world, const LinkDefaults& defaults = {});

  const Topology& topology() const { return topology_; }
  const GroupLife& groups() const { return groups_; }
  // Aborts if something does not hold that always does of groups, of who is asked after switches, or of
  // events.
  void CheckInvariants() const {
    groups_.CheckInvariants();
    watch_.CheckInvariants();
    events_.CheckInvariants();
  }

  // Of which cluster and epoch this manager is, and whether its groups outlive it: so that switches tell it
  // from others (rpc/manager_fence.cc). Unless it is called they do not. Before all else; Resume does it by
  // itself.
  void NameItself(const std::string& cluster, uint64_t epoch, bool keeps);
  // The same, as calls bear it.
  const proto::Fence& fence() const { return fence_; }

  // What a former manager has left; to be called first. place: of the store, for people.
  void Resume(const Moment& at, const Kept& kept, const std::string& place);
  // What operators ask for is kept before it is done (PROTOCOL-CONTROL.md, 15; rpc/manager_kept.cc): the rows that
  // it would leave, none if it changes none. Errors as when it is done; nothing is changed.
  StatusOr<Batch> Keep(const proto::CreateGroupRequest& request) const;
  StatusOr<Batch> Keep(const proto::DestroyGroupRequest& request) const;
  StatusOr<Batch> Keep(const proto::PolicyRequest& request) const;
  StatusOr<Batch> Keep(const proto::SetTenantRequest& request) const;
  StatusOr<Batch> Keep(const proto::RemoveTenantRequest& request) const;
  // The same rows as they are to be now.
  Batch TruthOf(const Batch& of) const;
  // What has changed since the last call and is kept without that anybody waits for it: events, and how often
  // reserved groups have begun. As much as one batch takes; the rest comes with the next call. changing: rows that
  // are being changed for an operator; they are left out, as what is true of them is not known.
  Batch TakeUnkept(const Moment& at, const std::set<RowKey>& changing = {});
  // What must be on the disk before what has been asked of ManagerWorld since the last call is carried out:
  // which groups run, and how others have ended. Nothing mostly. begun: gets the groups of which it says that
  // they run.
  Batch TakeBefore(const Moment& at, std::vector<uint64_t>* begun = nullptr);
  // These could not be kept, and nobody has been told yet that they run: they end.
  void OnNotKept(Nanos now, const std::vector<uint64_t>& begun, const Status& why);
  // How it stands with the store: the error of what it was asked last; DEADLINE_EXCEEDED: it hangs.
  void OnStoreHealth(Nanos now, const Status& health);
  // It will never have this row (Committer::TakeLost).
  void OnRowLost(Nanos now, const std::string& row);

  // Of agents. Errors: NOT_FOUND, INVALID_ARGUMENT, ALREADY_EXISTS (another agent of the switch is heard),
  // RESOURCE_EXHAUSTED, FAILED_PRECONDITION (the switch is another manager's). peer: who calls, by its
  // address.
  StatusOr<proto::RegisterReply> Register(Nanos now, const proto::RegisterRequest& request,
                                          const std::string& peer = "");
  StatusOr<proto::HeartbeatReply> Heartbeat(Nanos now, const proto::HeartbeatRequest& request);

  // Names a session that begins. peer: who has begun it, by its address; empty: its host is known (HostTable).
  SessionId NewSession(const std::string& peer = "");
  // Of ranks with a stream of their own. What is refused is answered by a Failure.
  void OnMessage(Nanos now, SessionId id, const proto::ClientMessage& message);
  void OnClosed(Nanos now, SessionId id);

  // Of hosts' daemons (rpc/manager_hosts.cc). What is refused ends the daemon's stream.
  void OnHostMessage(Nanos now, HostId host, const proto::FromHost& message);
  void OnHostClosed(Nanos now, HostId host);

  // Answers of switches.
  void OnForwardingSet(Nanos now, NodeId node, const Status& status);
  void OnInstalled(Nanos now, NodeId node, uint64_t group_id, const InstallAnswer& answer);
  void OnRemoved(Nanos now, NodeId node, uint64_t group_id, const Status& status);
  // asked: the address that the witness was to ask.
  void OnProbed(Nanos now, NodeId witness, NodeId about, Ipv4 asked,
                const StatusOr<proto::ProbeReply>& reply);
  void OnLocated(Nanos now, NodeId node, uint32_t ip, const StatusOr<proto::LocateReply>& reply);

  // To be called about ten times a second. After a pause nobody is judged for a while: those that spoke
  // meanwhile are to be heard first.
  void Tick(Nanos now);

  // Of operators; errors as GroupLife's.
  proto::TopologyReply DescribeTopology() const;
  proto::ListSwitchesReply ListSwitches(Nanos now) const;
  proto::ListHostsReply ListHosts(Nanos now) const;
  StatusOr<proto::GroupState> CreateGroup(const proto::CreateGroupRequest& request);
  proto::ListGroupsReply ListGroups(const proto::ListGroupsRequest& page = {}) const;
  // ended: also of a group of which there is nothing any more, how it ended.
  StatusOr<proto::GroupState> ShowGroup(const std::string& name, bool ended = false, Nanos now = 0) const;
  // Returns the id of the group whose contexts are being removed now, one of no group if there are none.
  StatusOr<uint64_t> DestroyGroup(Nanos now, const std::string& name, bool force);
  // The sessions of a group's ranks, by rank, that can be asked what they have called: of those that are still
  // in it and know the question. None of a group that does not run.
  std::map<uint32_t, SessionId> WhoTellsCalls(uint64_t group_id) const;
  // Asks; answered by ManagerWorld::OnCalls.
  void AskCalls(SessionId session);
  StatusOr<proto::ExplainReply> Explain(const proto::ExplainRequest& request) const;
  proto::EventsReply Events(Nanos now, const proto::EventsRequest& request) const;
  // The switch is this manager's when its agent is heard next, whosever it is now. NOT_FOUND,
  // RESOURCE_EXHAUSTED (of so many no agent has been heard since).
  Status Adopt(Nanos now, const std::string& switch_name);
  StatusOr<proto::PolicyReply> DefaultPolicy(Nanos now, const proto::PolicyRequest& request);
  StatusOr<proto::TenantsReply> SetTenant(Nanos now, const proto::SetTenantRequest& request);
  StatusOr<proto::TenantsReply> RemoveTenant(Nanos now, const proto::RemoveTenantRequest& request);
  proto::TenantsReply ListTenants() const;

 private:
  // The graph may have changed: manager_graph.cc.
  StatusOr<SwitchChange> TakeIn(Nanos now, const proto::RegisterRequest& request, const EngineReport& report,
                                const std::string& peer);
  // If the switch is another manager's: FAILED_PRECONDITION, naming both.
  Status RefusesOthers(const proto::RegisterRequest& request) const;
  void SignReply(const proto::RegisterRequest& request, proto::RegisterReply* reply);
  bool TakesOver(const proto::RegisterRequest& request) const;
  // Whether it is to be adopted by that its agent registers again. If it is this manager's already, no more.
  bool AwaitsAdoption(const proto::HeartbeatRequest& heartbeat);
  Status RefusesInvented(const std::string& name, const std::string& peer) const;
  // What the switch's agent is to say with its heartbeats.
  uint64_t EpochOf(NodeId node) const { return epoch_ + switches_.entry(node).successions; }
  RowChange TruthOf(const RowKey& row) const;
  void FollowGraph(Nanos now);
  void ComputeTables(Nanos now);
  // Groups' ports in these, and what is wanted of switches.
  void WantTables(Nanos now, std::vector<Forwarding> tables);
  void SendTables(Nanos now);
  // What an engine refuses for good: manager_refused.cc.
  void FollowRefused(Nanos now, NodeId node, const EngineReport& report);
  bool IsRefusedForGood(Nanos now, NodeId node, const RefusedReport& refused, const EndpointPlan& endpoint,
                        const Group& group);
  Failure RefusalOf(NodeId node, const RefusedReport& refused, const EndpointPlan& endpoint,
                    const Group& group) const;
  void OnJoin(Nanos now, SessionId id, const JoinRequest& join);
  // manager_bounds.cc.
  Failure RefusesToLook(const JoinRequest& join) const;
  Failure RefusesToHold(const JoinRequest& join) const;
  Failure RefusesNew(const JoinRequest& join) const;
  // Of a store that cannot be written, for people. so: what follows from that.
  std::string StoreTrouble(const std::string& so = "") const;
  std::string NothingNew(const std::string& group) const;
  // Nothing was promised to it.
  void RefuseJoin(SessionId id, const JoinRequest& join, const Failure& failure);
  void OnRejoin(Nanos now, SessionId id, const proto::Rejoin& rejoin);
  // Groups of a former manager, as far as they can go on.
  void ResumeGroups(Nanos now, const Kept& kept);
  void EndResumed(Nanos now, const proto::StoredGroup& stored, const Status& why);
  // Those of a network that is discovered, as soon as what they name is found: manager_found.cc.
  void ResumeFound(Nanos now);
  // Of a rank that comes back to such a group: it is heard when that is known again.
  bool HoldsBack(SessionId id, const proto::ClientMessage& message);
  Failure RefusesToReturn(const proto::Rejoin& rejoin) const;
  void ForgetReturning(SessionId id);
  // A switch has registered, with these contexts.
  void OnSettled(Nanos now, NodeId node, const proto::EngineInfo& engine, const ContextReports& contexts);
  // What switches have, beside what is meant: manager_contexts.cc.
  void FollowEngine(Nanos now, NodeId node, const proto::HeartbeatRequest& heartbeat);
  void FollowRegistered(Nanos now, NodeId node, const proto::EngineInfo& engine);
  void FollowContexts(Nanos now, NodeId node, const proto::EngineInfo& engine, const ContextReports& contexts,
                      Nanos as_of);
  void FollowTable(NodeId node, const proto::EngineInfo& engine, Nanos as_of);
  // Whether no other manager has it, nor a later one.
  bool IsOurs(const proto::EngineInfo& engine) const;
  // Who may have done what this manager has not, for people.
  std::string WhoElse(const proto::EngineInfo& engine) const;
  // Joins wait: not all switches that a former manager knew have registered yet.
  bool IsSettling(Nanos now) const {
    return (!awaited_.empty() || !unfound_.empty()) && now < settled_at_;
  }
  void Settle(Nanos now);
  // No start awaits it any more.
  void ForgetSwitch(const std::string& name, const std::string& why);
  bool IsReached(Ipv4 address) const;
  bool WaitsNoLonger(Nanos now, Ipv4 address) const;
  void LookForHosts(Nanos now);

  void Apply(Nanos now, NodeId node, const SwitchChange& change);
  void Probe(const HealthWatch::Ask& ask);
  void Judge(Nanos now);
  void JudgeHosts(Nanos now);
  // It has not been called for so long that ranks may have broken their streams for that.
  bool StandsStill(Nanos now) const;
  // Of a session that has ended: all but what its group has of it.
  void ForgetSession(SessionId id);
  void CloseSession(Nanos now, SessionId id, const std::string& why, bool daemon_stood_still = false);
  // Of hosts whose daemons are not heard any more, or have ended.
  void RemoveHost(Nanos now, HostId host, const std::string& why);
  void DoubtHost(Nanos now, HostId host);
  void LoseHost(Nanos now, const HostDoubts::Doubt& doubt);
  void AskHosts(Nanos now);
  // Of hosts that lend memory: manager_lenders.cc.
  void FollowLenders(Nanos now, const Lenders::Changes& changes);
  void TickLenders(Nanos now);
  void OnServerMade(Nanos now, HostId daemon, const proto::ServerMade& made);
  void OnServerEnded(Nanos now, HostId daemon, const proto::ServerEnded& ended);
  void RemoveAt(HostId daemon, const ServedGroup& group);
  // The group wants none.
  void DropServer(const ServedGroup& group);
  // Of a group of a former manager: its server's daemon is awaited from now on; and when it has been resumed,
  // or could not be.
  void ResumeServer(Nanos now, const proto::StoredGroup& stored);
  void OnResumed(Nanos now, const proto::StoredGroup& stored);
  // To a rank, by its own stream or its host's.
  void Tell(SessionId session, const proto::ServerMessage& message, bool last);
  // What promises nothing (ManagerWorld::SendAtOnce).
  void TellAtOnce(SessionId session, const proto::ServerMessage& message, bool last);
  // "host h0", or the address of a rank with a stream of its own.
  std::string PeerOf(SessionId session) const;
  std::string WhoMisses(Nanos now, NodeId node) const;
  proto::GroupState Describe(const Group& group) const;

  // GroupWorld; called by groups_.
  void Send(SessionId session, const SessionEvent& event) override;
  void Refuse(SessionId session, const Failure& failure) override;
  void Install(NodeId node, const ContextPlan& context) override;
  void Fail(NodeId node, uint64_t group_id, uint32_t generation) override;
  void Remove(NodeId node, uint64_t group_id, uint32_t generation) override;
  void MakeServer(NodeId host, const ServerRequest& request) override;
  void RemoveServer(NodeId host, uint64_t group_id, uint32_t generation) override;
  // LendingHosts; called by groups_.
  std::vector<LendingHost> List() const override;
  void Note(const std::string& line) override;
  void NoteEnd(const std::string& line) override;
  void NoteRefused(SessionId session, const Failure& failure, const std::string& line) override;
  // The same, of what somebody should look at.
  void Warn(const std::string& line);

  Graph graph_;
  const Topology& topology_;  // its
  const uint64_t epoch_;
  proto::Fence fence_;
  std::set<std::string> adopted_;  // switches that are to be this manager's, by their names; until they are
  ManagerWorld* const world_;
  SwitchTable switches_;
  GroupLife groups_;
  HostTable hosts_;
  HostDoubts doubts_;
  Lenders lenders_;
  std::vector<std::pair<NodeId, ServedGroup>> unasked_;  // servers that no host could be asked for
  SessionId next_session_ = 1;
  std::set<SessionId> over_;  // sessions that have been told their last
  HealthWatch watch_;
  EventLog events_;
  std::vector<proto::EngineInfo> engines_;  // as last reported, by NodeId
  TableUpdate update_;
  ToldTables tables_;
  // Contexts that switches have and should not, by group and generation.
  struct Unmeant {
    Nanos since = 0;           // or when it may be removed again
    bool is_removing = false;  // that is asked for, and has not been answered
  };
  std::map<NodeId, std::map<std::pair<uint64_t, uint32_t>, Unmeant>> unmeant_;
  size_t known_nodes_ = 0;         // to groups_
  uint64_t computed_version_ = 0;  // of the graph
  Nanos computed_at_ = 0;
  bool detours_ = false;           // ways stay that would be shorter
  uint64_t computed_endings_ = 0;  // of groups
  Nanos grouped_at_ = 0;              // groups' ports were set in them
  uint64_t computed_multicasts_ = 0;  // of groups, then
  std::optional<Nanos> started_;
  const uint32_t max_waiting_;                // of one address
  std::map<SessionId, JoinRequest> waiting_;  // ranks whose hosts are not heard yet
  HostSearch search_;                         // for these hosts
  // Endpoints of which engines say that they refuse all that comes from them, while that may be forged: by
  // switch and QPN, the group and since when.
  struct RefusedSince {
    uint64_t group_id = 0;
    Nanos at = 0;
  };
  std::map<std::pair<NodeId, uint32_t>, RefusedSince> refused_since_;
  Refusals refusals_;                         // of agents and hosts' daemons
  std::set<std::string> awaited_;             // switches that a former manager knew and that have not registered
  Nanos settled_at_ = 0;                      // at the latest
  HeldJoins held_;                            // until then
  std::vector<proto::StoredGroup> unfound_;   // of a former manager: what they name is not all found yet
  std::map<NodeId, ContextReports> had_;      // contexts of switches that have registered until then
  struct Returning {
    std::vector<proto::ClientMessage> said;  // Rejoin first
    size_t bytes = 0;
  };
  std::map<SessionId, Returning> returning_;                         // what HoldsBack has heard
  std::map<std::pair<uint64_t, uint32_t>, SessionId> returning_as_;  // by group and rank: whose it is
  std::set<std::string> switches_kept_;                              // that have registered
  std::set<std::string> switches_changed_;                  // whose rows are to be written or dropped
  std::vector<std::pair<Nanos, std::string>> ends_kept_;    // when each ended; the store forgets it ten minutes later
  std::string store_trouble_;                 // why it cannot be written; empty if it can
  bool store_hangs_ = false;                  // and nobody knows whether it can
  RefusalRate refusal_rate_;                  // of joins
  std::map<SessionId, std::string> peers_;    // of ranks with streams of their own
  Nanos ticked_at_ = 0;
  Nanos returns_until_ = 0;  // it stood still: sessions that break by then may come back
  Nanos now_ = 0;            // the newest time that has come in: that of what happens
  Standstill standstill_{/*late=*/500 * kMillisecond, /*hears_in=*/500 * kMillisecond};
};

}  // namespace epic::manager
