// The manager's state under one lock: it feeds agents' and hosts' calls and time into it and carries out what
// it asks for. No call to an agent is made while the lock is held.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/grpc/server_stream.h"
#include "base/mutex.h"
#include "incmanager/rpc/agent_link.h"
#include "incmanager/rpc/committer.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/shared_dumps.h"
#include "proto/manager.pb.h"

namespace epic::manager {

class ManagerCore : public ManagerWorld {
 public:
  using SessionStream = ServerStream<proto::ClientMessage, proto::ServerMessage>;
  using HostStream = ServerStream<proto::FromHost, proto::ToHost>;

  // store: what is kept is written there; null: nothing is kept. It outlives this. kept: what is in it.
  ManagerCore(Topology topology, const GroupOptions& options, const LinkDefaults& defaults,
              Store* store = nullptr, const Kept& kept = {}, const CommitTimes& times = {});
  // All sessions must have ended. Waits for a store that hangs.
  ~ManagerCore() override;

  // From now on sessions that break are no failures. To be called before the server is shut down.
  void Stop();
  // Stop, and writes what is still to be kept; to be called when all sessions have ended. False if the store
  // hangs: see Committer::Stop.
  bool End();

  // What agents and operators ask of the state: call(state, now), with the lock held, and gives what that
  // gives. It may not wait for anything.
  template <typename Call>
  auto Ask(const Call& call) {
    const Turn turn(this, mutex_);
    return call(state_, Now());
  }

  // What an operator asks for that changes what is kept: looks, commits and does, by change(state, now)
  // (PROTOCOL-CONTROL.md, 15). Waits for the store, without the lock. Errors: those of change, of the store, and
  // DEADLINE_EXCEEDED if that does not answer.
  template <typename Request, typename Do>
  auto Change(const Request& request, const Do& change)
      -> decltype(change(std::declval<ManagerState&>(), Nanos{})) {
    const Turn turn(this, mutex_);
    const auto deadline = std::chrono::steady_clock::now() + patience_;
    StatusOr<Batch> batch;
    // Of one row there is one change at a time.
    do {
      batch = state_.Keep(request);
      if (!batch.ok()) return batch.status();
      if (!committer_.keeps() || batch->empty()) return change(state_, Now());
    } while (AwaitOthers(*batch, deadline));
    if (Status status = Commit(*batch); !status.ok()) return status;
    auto result = change(state_, Now());
    EndChange(*batch);
    return result;
  }

  // False when another manager may be the one that leads by now: what this one has is not to be told any
  // more.
  bool MayTell() const { return committer_.MayTell(); }

  // This moment.
  static Moment At();

  // A new session of a rank, by its address, or of a host's daemon; the stream deletes itself.
  SessionStream* NewSession(const std::string& peer);
  HostStream* NewHost();

  // What operators ask, too, and is not the state's alone: these wait.
  // Errors: NOT_FOUND; FAILED_PRECONDITION if the switch's agent does not answer; those of Dump.
  StatusOr<proto::DumpReply> Tables(const proto::TablesRequest& request);
  // What the switches of its tree say of a group, by their names, each with the group as the only one. Of a
  // switch that has not answered long enough before the caller's deadline, after 5 s at most, there is none.
  std::map<std::string, proto::DumpReply> DumpsOf(const proto::GroupState& group, bool recent,
                                                  std::chrono::system_clock::time_point deadline);
  // What these ranks of a group say of their calls, by rank; empty: what all of them say. Of those that have not
  // answered in time, after 2 s at most, there is none; `asked` gets all that could be asked.
  std::map<uint32_t, proto::CallsMade> CallsOf(const proto::GroupState& group, const std::set<uint32_t>& ranks,
                                               bool recent, std::chrono::system_clock::time_point deadline,
                                               std::set<uint32_t>* asked);
  // Returns when the group's contexts are removed, or with DEADLINE_EXCEEDED naming the switches that did not
  // answer. Other errors as GroupLife's.
  Status DestroyGroup(const std::string& name, bool force);

  // ManagerWorld; called by state_ with the lock held. But for what promises nothing they are done at the end
  // of the turn, behind what must be kept before.
  void Send(SessionId session, const proto::ServerMessage& message, bool last) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendToHost(HostId host, const proto::ToHost& message) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendAtOnce(SessionId session, const proto::ServerMessage& message, bool last) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendToHostAtOnce(HostId host, const proto::ToHost& message) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndHost(HostId host, const Status& status) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndHostAtOnce(HostId host, const Status& status) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAgent(NodeId node, const std::string& address) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetForwarding(NodeId node, const proto::ForwardingTable& table) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepForwarding(NodeId node, uint64_t hash) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Install(NodeId node, const proto::GroupConfig& group) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(NodeId node, uint64_t group_id, uint32_t generation) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(NodeId node, uint64_t group_id, uint32_t generation) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Probe(NodeId witness, NodeId about, const proto::ProbeRequest& request) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Locate(NodeId node, const proto::LocateRequest& request) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnCalls(SessionId session, const proto::CallsMade* calls) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

 private:
  // The lock, and at its end what state_ has asked for meanwhile.
  class ABSL_SCOPED_LOCKABLE Turn {
   public:
    Turn(ManagerCore* core, Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : core_(core), lock_(mutex) {}
    ~Turn() ABSL_UNLOCK_FUNCTION() { core_->EndTurn(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    ManagerCore* const core_;
    MutexLock lock_;
  };
  using Effect = std::function<void()>;
  // What was asked for in one turn.
  struct Held {
    bool may = false;  // what had to be kept before is, or cannot be
    std::vector<Effect> effects;
  };
  void EndTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether it is Joined of a group that has failed before its ranks could be told, as it could not be kept.
  bool IsOver(const proto::ServerMessage& message) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // In their order, those before which nothing waits.
  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  static Nanos Now();
  const std::string& NameOf(NodeId node) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What streams tell; each takes the lock.
  struct Sessions : SessionStream::Sink {
    explicit Sessions(ManagerCore* of) : core(of) {}
    void OnMessage(SessionId id, const proto::ClientMessage& message) override;
    void OnClosed(SessionId id) override;
    void OnGone(SessionId id) override;
    ManagerCore* const core;
    std::map<SessionId, SessionStream*> streams;
  };
  struct Hosts : HostStream::Sink {
    explicit Hosts(ManagerCore* of) : core(of) {}
    void OnMessage(HostId id, const proto::FromHost& message) override;
    void OnClosed(HostId id) override;
    void OnGone(HostId id) override;
    ManagerCore* const core;
    std::map<HostId, HostStream*> streams;
    HostId next = 1;
  };

  // Made when it is first needed; stays where it is from then on. To be called with the lock held.
  AgentLink& LinkTo(NodeId node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is done with a switch's answer.
  AgentLink::Done ForwardingSet(NodeId node);
  void TickLoop();
  void SendSignsOfLife(Nanos now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False if nobody changes one of these rows, nor has waited for that; else who is to look again.
  bool AwaitOthers(const Batch& batch, std::chrono::steady_clock::time_point deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Without the lock meanwhile; its rows are being changed then, until EndChange if it is kept.
  Status Commit(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // They are written again if they are not what was written.
  void EndChange(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What nobody waits for.
  void KeepMore(Nanos now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeProbeReplies(Nanos now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::condition_variable_any changed_;  // state_ or stop_
  ManagerState state_ ABSL_GUARDED_BY(mutex_);
  Sessions sessions_ ABSL_GUARDED_BY(mutex_){this};
  Hosts hosts_ ABSL_GUARDED_BY(mutex_){this};
  Nanos last_signs_of_life_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // Of sessions that have been asked what they have called, and have not answered: to whom.
  std::map<SessionId, SharedCalls::Answer> asked_calls_ ABSL_GUARDED_BY(mutex_);

  struct Probed {
    NodeId witness = kNoNode;
    NodeId about = kNoNode;
    Ipv4 asked{};
    StatusOr<proto::ProbeReply> reply;
  };
  struct Located {
    NodeId node = kNoNode;
    uint32_t ip = 0;
    StatusOr<proto::LocateReply> reply;
  };
  Mutex probed_mutex_ ABSL_ACQUIRED_AFTER(mutex_);  // taken last
  // For the next tick: a reply may come on a thread that holds mutex_.
  std::vector<Probed> probed_ ABSL_GUARDED_BY(probed_mutex_);
  std::vector<Located> located_ ABSL_GUARDED_BY(probed_mutex_);

  SharedDumps dumps_;
  SharedCalls calls_;
  std::vector<Effect> effects_ ABSL_GUARDED_BY(mutex_);  // of this turn
  std::deque<std::shared_ptr<Held>> held_ ABSL_GUARDED_BY(mutex_);
  std::set<RowKey> changing_ ABSL_GUARDED_BY(mutex_);  // rows
  Nanos kept_at_ ABSL_GUARDED_BY(mutex_) = 0;          // what nobody waits for was kept last
  const std::chrono::nanoseconds patience_;            // of an operator with the store
  Committer committer_;
  std::thread ticker_;
  AgentThread agents_;
  std::map<NodeId, std::unique_ptr<AgentLink>> links_
      ABSL_GUARDED_BY(mutex_);  // first to go, their threads call back
};

}  // namespace epic::manager
