// A communicator: the core of a rank on a queue pair, its calls and buffers, and the session with the
// manager; and beside that queue pair those to other ranks, if calls go between the hosts.
//
// One mutex guards everything. Whoever holds it may make progress; core/watch.h says who waits for
// completions meanwhile.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/spin.h"
#include "commlib/call.h"
#include "commlib/core/rank_calls.h"
#include "commlib/core/shared_acks.h"
#include "commlib/core/wait_trials.h"
#include "commlib/core/watch.h"
#include "commlib/core/window_trials.h"
#include "commlib/host_links.h"
#include "commlib/progress.h"
#include "commlib/session.h"
#include "commlib/timeouts.h"
#include "commlib/turn_mutex.h"
#include "commlib/verbs/completion_queue.h"
#include "commlib/verbs/device.h"
#include "commlib/verbs/queue_pair.h"
#include "epic/epic.h"
#include "protocol/types.h"

namespace epic::internal {

// Memory that the user has registered.
class Region {
 public:
  explicit Region(std::shared_ptr<verbs::Memory> memory) : memory_(std::move(memory)) {}
  const std::shared_ptr<verbs::Memory>& memory() const { return memory_; }

 private:
  std::shared_ptr<verbs::Memory> memory_;
};

class Comm final : public Progressing, public std::enable_shared_from_this<Comm> {
 public:
  // Joins the group; `options` is resolved. comm_init.cc.
  static Error Create(const Options& options, std::shared_ptr<Comm>* comm);
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  // Starts a call; header's invocation is filled in. `wait_follows`: the caller goes on to Wait at once, so
  // that the progress thread need not be told.
  Error Post(const ControlHeader& header, const void* send, void* recv, bool wait_follows,
             std::shared_ptr<Call>* call);
  bool Test(const Call& call);
  Error Wait(const Call& call);

  Error Register(void* base, size_t bytes, std::shared_ptr<Region>* region);
  void Deregister(const std::shared_ptr<Region>& region);

  // Epic::Communicator's Destroy, and its destructor without one.
  Error Destroy();
  void Drop();
  void Abort(const std::string& reason);
  Error AsyncError();
  void SetTimeout(std::chrono::milliseconds timeout);

  // In a child of the process that joined: nothing here may be used, nor given free, since the parent has the
  // same session and queue pair. Every function above then does nothing, or returns why.
  bool InChild() const;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  Error Trouble(std::vector<TroubleCount>* counts);
  Error WaitsFor(WaitState* state);
  int path_mtu() const { return static_cast<int>(path_mtu_); }
  const GroupAbilities& abilities() const { return abilities_; }
  // As Communicator's; the buffers do not matter. comm_hosts.cc.
  const PathTaken& path() const { return path_; }
  PathTaken PathOf(const CallArguments& call) const;
  // As Communicator's. comm_quantise.cc.
  Quantisation Quantised();
  // As Communicator's. comm_blocks.cc.
  Sharing Shared();

  // Progressing.
  void OnChannelReady() override;
  void OnTick() override;
  CallsInfo TellCalls() override;

 private:
  using Lock = std::unique_lock<TurnMutex>;

  explicit Comm(const Options& options);
  Error Open();
  Error Connect(const JoinedInfo& joined);
  Error ConnectToSwitch(const JoinedInfo& joined);
  // The group goes by the hosts; comm_hosts.cc.
  Error ConnectByHosts(const JoinedInfo& joined);
  void OnSessionFailure(const Error& error);
  // Another rank has told of its end of a connection; makes ours. Blocks while the address is resolved,
  // without the mutex. comm_hosts.cc.
  void OnPeerEnd(const PeerEndInfo& end);
  // A question to the manager that blocks; nothing in a group of one rank.
  Error AskManager(const std::function<Error(Session*)>& ask);
  void LeaveFailedGroup();
  void Shutdown();

  // A group of one rank, without manager and port: what it calls is done at once. comm_hosts.cc.
  void RunAlone(const Call& call);

  // Of calls that are quantised; comm_quantise.cc. Before such a call is posted: `refusal` is what to tell
  // the ranks if its input has what is not finite; what goes between the hosts becomes INT32.
  Error PrepareQuantised(Call* call, std::string* refusal) const;
  void RunAloneQuantised(const Call& call);

  // All below: with the mutex held.

  // A call whose input is refused, and what is called behind it, waits for the manager to end the group.
  Error Hold(std::shared_ptr<Call> call, const std::string& refusal, bool wait_follows,
             std::shared_ptr<Call>* out);
  // What has come between the hosts becomes FP32.
  void FinishQuantised(Call* call);
  // Once.
  void TellOfSaturation();

  // One slice of a call, as an invocation in the network.
  struct Invocation {
    std::shared_ptr<Call> call;
    ControlHeader header;
    uint64_t offset = 0;  // bytes, of its elements in each part
    uint64_t part_stride = 0;
    Way way = Way::kDirect;
    // Of a slice whose data go between the hosts: the network is told when these are ready for them.
    std::optional<OpId> host_op;
  };
  // Calls start(header, offset, part_stride) for each slice of the call, if one may have so many bytes.
  template <typename Start>
  static void Slice(Call* call, uint64_t most_bytes, const Start& start);
  void StartByNetwork(const std::shared_ptr<Call>& call, Way way);
  void StartByHosts(const std::shared_ptr<Call>& call);
  void StartInvocation(const Invocation& invocation);
  // Of groups that share memory in switches; comm_blocks.cc. A call that has not begun.
  struct Waiting {
    std::shared_ptr<Call> call;
    Way way = Way::kDirect;  // in the network
  };
  // Does the call ask for the memory before it goes by the network?
  bool Asks(const ControlHeader& header) const;
  // Begins it, and what is behind it, as far as nothing waits for an answer.
  void BeginNext();
  // Begins it with a request.
  void Ask(const Waiting& waiting);
  // That has been answered, by kOk or kBusy.
  void OnAnswered(Outcome outcome);
  // True if its call has ended with it.
  bool EndSlice(Call* call, bool ok);
  // The hosts' connections, which a group with switches makes when it first needs them.
  Error EnsureHosts();
  Error MakeEnds();
  // Once for each reason, and from rank 0 only.
  void TellOfWay(const ControlHeader& header);
  bool GoesByHosts(const ControlHeader& header) const {
    return path_.path == PathChoice::kHosts || IsByHosts(header);
  }
  // What MakeProgress does if there are hosts' connections, before the network's work is posted.
  void ProgressHosts();
  bool DeliverFromHosts();
  Error HostsError() const;
  int64_t posted() const { return core_.posted() + (hosts_ ? hosts_->path().posted() : 0); }

  // Most bytes of an invocation of the call in the network.
  uint64_t MostByNetwork(const ControlHeader& header) const {
    return IsQuantised(header) ? std::min(invocation_bytes_, core_.MostQuantised(header.collective))
                               : invocation_bytes_;
  }
  Error PrepareBuffers(Call* call, bool by_hosts, Way* way, Lock& lock);
  std::shared_ptr<verbs::Memory> FindRegion(const void* base, uint64_t bytes) const;
  void MakeProgress();
  // False if there was nothing to poll.
  bool PollCompletions();
  void HandleCompletion(const ibv_wc& completion);
  void PostWork();
  // Posts both chains, each of which may be empty; after an error, an errno, they are what is not posted.
  int PostChains(ibv_recv_wr** recvs, ibv_send_wr** sends);
  ibv_sge SgeOf(const RankCalls::Request& request) const;
  void DeliverFinished();
  // Before a call is posted: how many acknowledgements may be one while it is under way.
  void KeepAcks(const ControlHeader& header);
  // The window that the trials want; tells the manager of what they have found.
  void KeepWindow();
  // Ends the group at this rank; does not wait. Its calls end when the queue pair has been drained.
  void Fail(const Error& error, bool tell_manager);
  void BeginDrain();
  void EndDrain();
  Error CoreError() const;
  // Of a call that is about to be outstanding: its deadline, when it was made, and which one it is.
  void SetDeadline(Call* call);
  // Of the calls that have not ended, some more than once, in no order.
  template <typename Look>
  void ForEachOpenCall(const Look& look);
  // Whom the calls between the hosts wait for, as far as this rank knows by itself; empty if it does not.
  std::string AwaitedInWords() const;
  // Ends the group if a call's deadline is over; some time before it asks whom the group waits for.
  void CheckDeadlines(Clock::time_point now);
  // Before a thread that does not lead lets go of the mutex: leaves the channel to somebody (core/watch.h).
  void PassOn();
  // The calling thread leads: makes progress until done(), polls and sleeps between.
  template <typename Done>
  void Lead(Lock& lock, const Done& done, const std::function<void()>& meanwhile);
  // Makes progress some times over, but for once something comes; the mutex is released before.
  void PollOn(Lock& lock, const std::function<void()>& meanwhile);
  // Sleeps until there is progress to make, and makes it.
  void SleepOn(Lock& lock);
  // Makes progress, and leads if nobody does, until done(). `meanwhile`, if it is not empty, is called
  // without the mutex, as Options::while_waiting says.
  template <typename Done>
  void Await(Lock& lock, const Done& done, const std::function<void()>& meanwhile = {});
  void AwaitCalls();    // without the mutex
  void AwaitDrained();  // without the mutex
  // Sleeps until completions come, Fail is called, or a deadline is near; the mutex is released meanwhile.
  void Sleep(Lock& lock);
  // The thread that leads sleeps no more.
  void EndSleep();
  const Call& CallOf(OpId op) const { return *calls_[static_cast<size_t>(op - first_call_)]; }

  const uint32_t fork_depth_;  // of the process that joined
  Options options_;
  const bool alone_;  // see RunAlone
  uint32_t path_mtu_ = 0;
  uint64_t invocation_bytes_ = kMaxBytes;  // in the network
  PathTaken path_;
  GroupAbilities abilities_;
  verbs::ConnectInfo connect_;  // what the manager said
  // Of the thread that leads.
  Spin spin_{0};
  bool always_polls_ = false;  // the environment says how long to poll
  WaitTrials trials_;          // if it does not
  int nic_fd_ = -1;            // while it sleeps on the NIC; else negative
  int wake_fd_ = -1;           // ends Sleep
  std::shared_ptr<verbs::Device> device_;
  RankCalls core_;                             // guarded; here, because its memory outlives the registration
  std::shared_ptr<verbs::Memory> own_memory_;  // of core_

  TurnMutex mutex_;
  std::condition_variable_any changed_;         // a call is done, or nobody leads
  std::shared_ptr<verbs::CompletionQueue> cq_;  // null if alone
  std::unique_ptr<verbs::QueuePair> qp_;        // to the switch; null by the hosts' path
  std::unique_ptr<HostLinks> hosts_;            // null until calls go between the hosts
  std::unique_ptr<Session> session_;
  std::deque<std::shared_ptr<Call>> calls_;  // of invocations in the network that are outstanding, in order
  OpId first_call_ = 0;
  // Invocations that wait for one before them, or are the first and wait for their connections.
  std::deque<Invocation> waiting_;
  OpId next_agreed_ = 0;                    // of the hosts' path
  std::deque<std::shared_ptr<Call>> held_;  // Hold; in no other queue
  std::deque<Waiting> behind_;              // calls that have not begun, in order
  std::optional<Waiting> asking_;           // the one whose request has not been answered
  std::optional<OpId> request_;             // that, once it has been posted
  Sharing sharing_;
  Saturation saturation_;  // of what core_ has nothing to do with
  bool told_saturation_ = false;
  std::set<std::string> told_ways_;
  size_t open_calls_ = 0;
  int64_t ended_calls_ = 0;
  uint64_t completions_ = 0;  // taken from the queue so far
  WindowTrials windows_;
  SharedAcks acks_{1};
  std::vector<std::shared_ptr<Region>> regions_;
  // Of the queue pair. In kDraining it is in the error state and its requests are being flushed; then it is
  // destroyed.
  enum class Phase : uint8_t { kRunning, kDraining, kDrained };
  Phase phase_ = Phase::kRunning;
  Clock::time_point next_deadline_ = Clock::time_point::max();  // no call's, nor the draining's, is earlier
  Error error_;                                                 // what ended the group
  bool refused_ = false;  // ... was a switch's reply that every rank got
  bool leaves_ = false;   // Destroy has been called
  Watch watch_;
};

}  // namespace epic::internal
