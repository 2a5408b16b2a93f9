// The lives of all groups, from the first join or an operator's wish to the removal of their contexts, and
// what is remembered of those that have ended:
//
//   reserved -> joining -> installing -> running -> leaving -> gone (or reserved again)
//                  |            |           |          |
//                  +------------+-----------+----------+--> failed -> gone (or reserved again)
//
// Sans-IO: sessions, switches' answers and time come in; what is to be done goes out through GroupWorld. Not
// thread-safe: its owner holds one lock around every call. GroupWorld's functions must not call back. Whether
// a rank may join is for Admission to say, and where a group goes for Placer.
//
// Always, when a call is over (CheckInvariants):
// - Of a name one group at most is live, which is one that has not failed; it is of its operator if one is
//   reserved.
// - A session is that of one member, which has not gone. A group that joins lacks ranks; later it lacks none.
// - A group that installs waits for switches; one that runs has taken a path, and all ranks have replies.
// - What groups have of links, switches and QPNs (load, qpns) is what is in their plans, until the last
//   switch has removed its context.
// - What groups have of hosts' memory (lending) is what their servers take, until the last switch has removed
// its
//   context. A group whose payloads lie in a pool runs with a server that is there.
// - An address of the range for multicast is one group's, for as long, or nobody's. Switches have ports for
//   it only while that group runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "incmanager/failure.h"
#include "incmanager/groups/admission.h"
#include "incmanager/groups/ended_groups.h"
#include "incmanager/groups/group.h"
#include "incmanager/groups/health_watch.h"
#include "incmanager/groups/install_answer.h"
#include "incmanager/groups/kept_groups.h"
#include "incmanager/groups/lending.h"
#include "incmanager/groups/multicast_pool.h"
#include "incmanager/groups/placer.h"
#include "incmanager/groups/plan.h"
#include "incmanager/groups/qpn_pool.h"
#include "incmanager/groups/switch_table.h"
#include "incmanager/policies/group_ports.h"
#include "incmanager/policies/load.h"
#include "incmanager/policies/tenants.h"

namespace epic::manager {

struct WaitingNote {
  std::vector<uint32_t> missing_ranks;
};
struct LeftNote {};
// It is in its group again.
struct RejoinedNote {};
// What a rank is told; a Failure and a LeftNote end its session.
using SessionEvent = std::variant<WaitingNote, JoinedReply, Failure, LeftNote, PeerEnd, RejoinedNote>;

// What a rank says that comes back; see Rejoin in proto/manager.proto.
struct RejoinRequest {
  std::string group;
  uint64_t group_id = 0;
  uint32_t generation = 0;
  uint32_t rank = 0;
  std::string secret;
};

class GroupWorld {
 public:
  virtual ~GroupWorld() = default;
  virtual void Send(SessionId session, const SessionEvent& event) = 0;
  // The same to one that has been promised nothing. It may overtake the others.
  virtual void Refuse(SessionId session, const Failure& failure) { Send(session, failure); }
  // Calls for one switch are carried out in this order. Each Install is answered by OnInstalled, each Remove
  // by OnRemoved.
  virtual void Install(NodeId node, const ContextPlan& context) = 0;
  virtual void Fail(NodeId node, uint64_t group_id, uint32_t generation) = 0;
  virtual void Remove(NodeId node, uint64_t group_id, uint32_t generation) = 0;
  // A host is to be a group's fallback server; answered by OnServerMade. And no more: not answered, and no
  // error of one that it has not.
  virtual void MakeServer(NodeId host, const ServerRequest& request) { (void)host, (void)request; }
  virtual void RemoveServer(NodeId host, uint64_t group_id, uint32_t generation) {
    (void)host, (void)group_id, (void)generation;
  }
  // One line for the log.
  virtual void Note(const std::string& line) = 0;
  // The same, of a join that is refused: there may be thousands a second.
  virtual void NoteRefused(SessionId session, const Failure& failure, const std::string& line) {
    (void)session, (void)failure, Note(line);
  }
  // The same, of how a group has ended.
  virtual void NoteEnd(const std::string& line) { Note(line); }
};

class GroupLife {
 public:
  // topology, switches and world outlive it. seed: of PSNs, Q_Keys, group ids, and the first address.
  GroupLife(const Topology* topology, const SwitchTable* switches, GroupWorld* world,
            const GroupOptions& options, uint64_t seed);
  GroupLife(const GroupLife&) = delete;
  GroupLife& operator=(const GroupLife&) = delete;

  // What a former manager's operators have asked for; to be called first. It is not judged anew: what cannot be
  // any more, as a host that is not there, is told to the ranks that join.
  void Resume(const KeptGroups& kept);
  // A group that ran under a former manager; after Resume. It runs, its switches are unsure, and its ranks are
  // away: until kBackWithin from now on, or kOthersBackWithin from when the first is back. What is in its way
  // (what it has is another's) ends it with that.
  void ResumeGroup(Nanos now, Group group);
  // One that cannot go on.
  void EndResumed(Nanos now, const Group& group, const std::string& why);
  // How one of a former manager has ended; by ascending times.
  void ResumeEnd(GroupEnd end);
  static constexpr Nanos kBackWithin = 60 * kSecond;
  // An attempt to connect that began while nobody was there may take 20 s.
  static constexpr Nanos kOthersBackWithin = 30 * kSecond;
  // From now on ranks are told that their groups outlive the manager, and what is to be kept of groups is
  // noted for the following.
  void StartKeeping() { keeps_ = true; }
  // Ranks that join with `rejoins` get a secret by this. Without it, or if it is empty, a rank may not come
  // back.
  void GiveSecrets(std::function<std::string()> secrets) { secrets_ = std::move(secrets); }
  // Groups that have begun or ceased to run since the last call, and names of those that have ended.
  struct Changed {
    std::set<uint64_t> ids;
    std::set<std::string> ended;
  };
  Changed TakeChanged() { return std::exchange(changed_, {}); }
  // One that is to be kept. Null if there is none, or it does not run, or ends.
  const Group* FindKept(uint64_t group_id) const;

  // Sessions. A refused join is answered by a Failure.
  void OnJoin(Nanos now, SessionId session, const JoinRequest& join);
  // Of a rank whose session has broken. It is told that it is back, or how its group has ended; that the group is not
  // known (kManagerLost); or that it is not that rank (kInvalidArgument), which disturbs nobody else. Of a rank that is
  // there the session before ends without a word.
  void OnRejoin(Nanos now, SessionId session, const RejoinRequest& rejoin);
  // The session has broken, and not by the rank: it has so long to come back. since: what was, for people.
  // Nothing if it may not come back, and the session is to be closed; else the address of its host.
  std::optional<Ipv4> OnSessionAway(Nanos now, SessionId session, Nanos within, const std::string& since);
  static constexpr Nanos kReturnsWithin = 10 * kSecond;
  // The daemon of the host with these addresses is here again: its ranks that are away come back now, or not
  // at all.
  void OnDaemonBack(Nanos now, const std::set<Ipv4>& host);
  static constexpr Nanos kBackWithDaemon = 5 * kSecond;
  // It has ended: those that were away already have their time anew. Returns their addresses.
  std::set<Ipv4> OnDaemonGone(Nanos now, const std::set<Ipv4>& host);
  // Its ranks that are away are lost.
  void OnHostLost(Nanos now, const std::set<Ipv4>& host, const std::string& why);
  // refused: what a switch refused a call of this rank with, if it leaves for that (Leave in
  // proto/manager.proto).
  void OnLeave(Nanos now, SessionId session, const Failure& refused = {});
  void OnAbort(Nanos now, SessionId session, const std::string& reason);
  // The ranks' calls differ, which one of them has found out between the hosts: all are told it in its words,
  // if it has any.
  void OnMismatch(Nanos now, SessionId session, const std::string& how);
  // A rank's input has what is not finite, in a group with a scale: all are told it in its words, as above,
  // itself included. Of a group without one it is an abort.
  void OnNotFinite(Nanos now, SessionId session, const std::string& how);
  // Of use to people only. Passed over if the group does not run, or its ranks may not use such a window.
  void OnWindow(SessionId session, const WindowInUse& window);
  // The same. Passed over in a group without multicast; the numbers are not judged.
  void OnDatagrams(SessionId session, const DatagramsSeen& datagrams);
  // Passed on to the rank that it is for, while both are in the group and it runs; else passed over. What no
  // rank may say (another rank than those of the group, a QPN or PSN that is none, a second queue pair for
  // the same rank, readiness twice, connections in a group whose hosts make none, of the ring for lost
  // datagrams one in a group without multicast or to a rank that is no neighbour) ends the group as an abort
  // does, with INVALID_ARGUMENT and who said it.
  void OnPeer(Nanos now, SessionId session, const PeerEnd& end);
  // why: for the other ranks.
  void OnSessionClosed(Nanos now, SessionId session, const std::string& why = "its session broke");
  bool HasSession(SessionId session) const { return sessions_.contains(session); }
  // That of its rank's host; nothing if it is no rank's.
  std::optional<Ipv4> AddressOf(SessionId session);

  // Switches.
  void OnInstalled(Nanos now, NodeId node, uint64_t group_id, const InstallAnswer& answer);
  void OnRemoved(Nanos now, NodeId node, uint64_t group_id);
  void OnContextsLost(Nanos now, NodeId node);
  // What contexts the switch has. Those that run and were to have one there by then (as_of; 0: since before
  // this manager) fail if it is missing, or has been stopped. by: who else has the switch, for people.
  void OnContexts(Nanos now, NodeId node, const ContextReports& contexts, Nanos as_of, const std::string& by);
  // Whether a group has a context there, or is to have it, or has one that is to be removed.
  bool Means(NodeId node, uint64_t group_id, uint32_t generation) const;
  // why: who says so, for people.
  void OnSwitchLost(Nanos now, NodeId node, const std::string& why);
  // A link is told to have no carrier: groups that cross it fail if it is lost for those that have been there
  // since then; also those that have come to run over it since the last call.
  void OnLinkDown(Nanos now, LinkEnd end, const std::function<bool(Nanos since)>& is_lost);
  // The network is another: how it forwards from now on. More nodes may be known.
  void OnNetwork(const std::vector<Forwarding>& tables);
  // The ways that groups rely on, the oldest group first; valid until the next call of anything else.
  std::vector<const std::vector<Way>*> Ways() const;
  // After OnNetwork: groups that cross a link that is gone fail, and those whose tree edges have another way
  // now though nothing is broken on the one that they were told.
  void FailMoved(Nanos now);
  // Groups that have multicast, while they run; and what counts up when these are others.
  std::vector<MulticastMembers> Multicasts() const;
  uint64_t multicast_changes() const { return multicast_changes_; }
  // A group that runs, or whose ranks leave; null if there is none. Valid until the next call that is not
  // const.
  const Group* FindRunning(uint64_t group_id, std::optional<uint32_t> generation = {}) const;
  // It cannot go on: a switch refuses all that comes from one of its ends and will go on to, or the store has
  // not kept that it runs.
  void FailWith(Nanos now, uint64_t group_id, const Failure& failure);
  // Counts up when one of these groups ends.
  uint64_t endings() const { return endings_; }
  // What running groups cross.
  WatchedSwitches Watched() const;
  // Groups whose contexts the switch is to keep.
  std::vector<uint64_t> GroupsOn(NodeId node) const;

  // Hosts that lend memory (docs/PROTOCOL-CONTROL.md, section 7.5; group_server.cc). Before any group is
  // made.
  void UseLendingHosts(const LendingHosts* hosts) { lending_.Use(hosts); }
  const Lending& lending() const { return lending_; }
  // The host has made a group's fallback server, or has refused to.
  void OnServerMade(Nanos now, NodeId host, uint64_t group_id, uint32_t generation,
                    const ServerAnswer& answer);
  // By then it has answered.
  static constexpr Nanos kServerMadeWithin = 5 * kSecond;
  // The manager stood still for so long, and has heard no host.
  void OnStoodStill(Nanos duration);
  // A host's server has ended: a group that has it fails with kFallbackLost. why: for
  // people.
  void OnServerEnded(Nanos now, NodeId host, uint64_t group_id, uint32_t generation, const std::string& why);
  // Whether a group has a server there, or is to have it, or has one that is to be removed.
  bool MeansServer(NodeId host, uint64_t group_id, uint32_t generation) const;

  // To be called about ten times a second.
  void Tick(Nanos now);

  // Operators. Errors: ALREADY_EXISTS, INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION (ranks are in the
  // group and force is not set). Whether switches offer the mode is seen when the ranks have joined.
  Status Create(const GroupSpec& spec);
  Status Destroy(Nanos now, const std::string& name, bool force);

  // What Create, Destroy, SetTenant and RemoveTenant would say now, without doing it. MayCreate gives what would be
  // reserved.
  StatusOr<GroupSpec> MayCreate(const GroupSpec& spec) const;
  Status MayDestroy(const std::string& name, bool force) const;
  Status MaySetTenant(const Tenant& tenant) const;
  Status MayRemoveTenant(const std::string& name) const;
  // What a store is to keep. Null if no group of this name is reserved; valid until the next call that is not const.
  const GroupSpec* FindReserved(const std::string& name) const;
  // How often a reserved group has begun.
  uint32_t LivesOf(const std::string& name) const;
  // Names of reserved groups that have begun and were not given yet, at most so many, and none of these.
  std::vector<std::string> TakeBegun(size_t most, const std::set<std::string>& but = {});

  // What a group of this spec, with a rank for each of its hosts, would get now: by the code that places
  // groups, and without that anything is changed or taken. What only ranks and switches can say is not
  // known: the memory of switches, their QPNs, and what the ranks' NICs carry. Errors: NOT_FOUND and
  // INVALID_ARGUMENT as Create, but for the name.
  StatusOr<Placement> Explain(const GroupSpec& spec) const;

  // Of groups that ask for no policy, made from now on.
  Policy default_policy() const { return default_policy_; }
  void SetDefaultPolicy(Policy policy);
  // Errors: those of Tenants, INVALID_ARGUMENT (its name), FAILED_PRECONDITION (groups are reserved for it).
  Status SetTenant(const Tenant& tenant);
  Status RemoveTenant(const std::string& name);
  const Tenants& tenants() const { return tenants_; }
  const Load& load() const { return load_; }
  const QpnPool& qpns() const { return qpns_; }

  // By name; a group that is reserved only is shown as one without members. Nothing if there is none.
  std::optional<Group> Find(const std::string& name) const;
  // How the last life of a group of this name ended, whether or not there is another one now. Null if none is
  // known. Valid until the next call of anything that is not const.
  const GroupEnd* EndOf(const std::string& name) const { return ends_.Find(name); }
  // Of all groups whose names come after this one, in order.
  std::vector<std::string> Names(const std::string& after = {}) const;
  // The switches that have not yet removed the contexts of a group's life; nothing when that life is over.
  std::optional<std::set<NodeId>> Removing(uint64_t group_id) const;

  // Aborts if something does not hold that always does. Looks at all groups.
  void CheckInvariants() const;

 private:
  static constexpr Nanos kWaitingInterval = kSecond;  // from one note to the next

  // The group that this rank would be the first of; without an id, and not kept yet.
  Group NewGroup(const JoinRequest& join) const;
  Group& Begin(Group group);
  Group* Live(const std::string& name);
  std::vector<SwitchMemory> Memories() const;
  // Null if the session has joined none.
  std::pair<Group*, Member*> OfSession(SessionId session);

  // group_waiting.cc.
  void SetDue(Group* group);
  void TellWaiting(Nanos now, Group* group);
  Failure RefusesToWait(const Group& group, const JoinRequest& join) const;
  void CountWaiting(const Group& group, int change);
  void CountWaiting(Ipv4 address, int change);

  // group_install.cc.
  void Install(Nanos now, Group* group);
  Failure InstallInNetwork(Nanos now, Group* group);
  void TellRanks(Group* group);
  void TellBlocks(Group* group);
  void RefuseNetwork(Nanos now, Group* group, const Failure& failure);
  void GoByHosts(Nanos now, Group* group, const Failure& refused);
  void Run(Nanos now, Group* group);
  void NoteContexts(const Group& group);
  // group_server.cc.
  void AskForServer(Nanos now, const NetworkWay& way, Group* group);
  void OnServerSilent(Nanos now, Group* group);
  void GiveBackServer(Group* group);
  // Why a link or a switch that goes takes the leg with it; ok: it does not.
  Failure LegCut(const Group& group, const std::string& what) const;
  // group_multicast.cc.
  void GiveMulticast(Nanos now, Group* group);

  Failure CrossHostsWay(Group* group) const;
  // Those that have not failed and for which there is a reason. goes_round: by FailOrRefuse.
  void FailWhere(Nanos now, const std::function<Failure(const Group&)>& why, bool goes_round = true);
  // A switch that goes while it is asked for its part of the tree refuses it.
  void FailOrRefuse(Nanos now, Group* group, const Failure& failure);
  void FailGroup(Nanos now, Group* group, const Failure& failure);
  void StartRemoval(Nanos now, Group* group);
  // The group is gone then.
  void FinishIfRemoved(Nanos now, Group* group);
  void GiveBack(Nanos now, const GroupPlan& plan, Group* group);
  // Keeps and notes how a group ended. failure: ok if it has not failed.
  void End(Nanos now, const Group& group, const std::string& how, const Failure& failure = {});
  void Forget(uint64_t id);
  // What `end`, which `from` has said, is told as.
  void PassOn(const Group& group, const Member& from, PeerEnd end);
  void TellJoined(const Group& group, const Member& member);
  // What is wrong with its context; ok: nothing.
  Failure ContextLost(const Group& group, NodeId node, const ContextReports& contexts,
                      const std::string& by) const;
  // group_resume.cc. Whether it is a rank that is away, and was perhaps not told Joined before its manager
  // ended: then it is told so now, or how its group has ended.
  bool JoinsAgain(Nanos now, SessionId session, const JoinRequest& join);
  void LivedAtLeast(const std::string& name, uint32_t lives);
  void TakeBack(Nanos now, Group* group, Member* member, SessionId session);
  void TellEnd(SessionId session, const Failure& failure);
  void TellEndsOfOthers(const Group& group, uint32_t of);
  // When the first of those that are away must be back.
  static Nanos BackBy(const Group& group);
  // If one has not come back in time.
  void FailAway(Nanos now, Group* group);

  const Topology* topology_;
  const SwitchTable* switches_;
  GroupWorld* world_;
  const GroupOptions options_;
  std::vector<Forwarding> forwarding_;
  uint64_t endings_ = 0;
  std::mt19937_64 random_;
  QpnPool qpns_;
  MulticastPool addresses_;
  uint64_t multicast_changes_ = 0;
  Load load_;
  Lending lending_;
  Tenants tenants_;
  const Admission admission_;
  const Placer placer_;
  Policy default_policy_ = Policy::kShortest;
  uint64_t next_id_;
  const uint64_t elsewhere_;  // of QPNs, after a former manager
  std::map<std::string, GroupSpec> reserved_;
  std::map<std::string, uint32_t> generations_;  // of reserved groups: lives so far
  bool keeps_ = false;
  Changed changed_;
  std::function<std::string()> secrets_;
  std::set<std::string> begun_;                  // of these, not given by TakeBegun
  std::map<uint64_t, Group> groups_;
  // Groups whose plan has a context there, from when that is asked for until they are gone.
  std::map<NodeId, std::set<uint64_t>> planned_at_;
  EndedGroups ends_;
  std::map<std::string, uint64_t> live_;    // groups that are not failed, by name
  std::map<SessionId, uint64_t> sessions_;  // session -> group
  std::set<std::pair<Nanos, uint64_t>> due_;  // of groups with such a time, with their ids
  std::map<Ipv4, uint32_t> waiting_;          // ranks that wait for others, by their address
};

}  // namespace epic::manager
