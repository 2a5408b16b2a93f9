// A communicator: a rank's calls (core/group_calls.h) on a queue pair to its switch, and on those to other
// ranks if calls go between the hosts; their memory and deadlines, and the session with the manager.
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

#include "base/mutex.h"
#include "base/spin.h"
#include "commlib/call.h"
#include "commlib/core/group_calls.h"
#include "commlib/core/wait_trials.h"
#include "commlib/core/watch.h"
#include "commlib/host_links.h"
#include "commlib/progress.h"
#include "commlib/session.h"
#include "commlib/timeouts.h"
#include "commlib/turn_mutex.h"
#include "commlib/verbs/completion_queue.h"
#include "commlib/verbs/device.h"
#include "commlib/verbs/queue_pair.h"
#include "commlib/work_batch.h"
#include "epic/epic.h"
#include "protocol/priority.h"
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
  ~Comm() override;
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
  void SetQuantise(bool on) { quantises_ = on; }
  bool quantises() const { return quantises_; }
  // As Communicator's.
  void SetPriority(Priority priority) { priority_ = priority; }
  // As Communicator's. comm_hosts.cc.
  Sharing Shared();
  DatagramCounts CountDatagrams();

  // Progressing.
  void OnChannelReady() override;
  void OnTick() override;
  CallsInfo TellCalls() override;

 private:
  using Lock = BasicMutexLock<TurnMutex>;
  using Unlock = BasicMutexUnlock<TurnMutex>;

  explicit Comm(const Options& options);
  // These come before anybody else has it, and need no lock.
  Error Open() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  Error Connect(const JoinedInfo& joined) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  Error ConnectToSwitch(const JoinedInfo& joined) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // Makes the queue pair for datagrams, if this rank asks for the algorithm multicast or would take it.
  // Errors of who asks: those of DatagramQp::Create.
  Error OfferDatagrams(JoinInfo* join) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // kUnsupported if this rank asks for the algorithm multicast, and the group has none.
  Error TakeMulticast(const JoinedInfo& joined) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // The group goes by the hosts; comm_hosts.cc.
  Error ConnectByHosts(const JoinedInfo& joined) ABSL_NO_THREAD_SAFETY_ANALYSIS;
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

  // Of calls that are quantised; comm_quantise.cc. Before such a call is posted: of a scaled one `refusal` is
  // what to tell the ranks if its input has what is not finite, and what goes between the hosts becomes
  // INT32; one in blocks that may go between the hosts gets memory for these. Of calls_ they ask what needs
  // no lock.
  Error PrepareQuantised(Call* call, std::string* refusal) const ABSL_NO_THREAD_SAFETY_ANALYSIS;
  Error PrepareScaled(Call* call, std::string* refusal) const ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // kInvalidArgument if its slices by the network cannot be counted.
  Error CheckQuantisedLength(const ControlHeader& header) const ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void RunAloneScaled(const Call& call);

  // All below: with the mutex held.

  // Makes the call, whose buffers are ready.
  void Make(const std::shared_ptr<Call>& call, Way way) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A call whose input is refused, and what is called behind it, waits for the manager to end the group.
  Error Hold(std::shared_ptr<Call> call, const std::string& refusal, bool wait_follows,
             std::shared_ptr<Call>* out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What has come between the hosts as INT32 becomes FP32.
  void FinishScaled(Call* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Once.
  void TellOfSaturation() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Of a group by the hosts with the algorithm auto, behind the reason for its path: from how many bytes on
  // which calls go by multicast, or why they do not; empty where they never would. comm_hosts.cc.
  std::string MulticastInWords() const;
  // The hosts' connections, which a group with switches makes when it first needs them. comm_hosts.cc.
  Error EnsureHosts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a call between the hosts: whether its slices can be counted. comm_hosts.cc.
  Error CheckLength(const ControlHeader& header) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes an end for each connection that calls have come to want.
  Error MakeEnds() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Once for each reason, and from rank 0 only.
  void TellOfWay(const ControlHeader& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Once, and from rank 0 only.
  void TellOfBusy() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of datagrams that do not come, once.
  void TellOfReads() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the manager what has become of datagrams, if that is news and it takes it. comm_hosts.cc.
  void TellDatagrams() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Registers the call's memory as far as it needs that on the way; *way, if not by the hosts, is the one to
  // take.
  Error PrepareBuffers(Call* call, bool by_hosts, Way* way) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<verbs::Memory> FindRegion(const void* base, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeProgress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False if there was nothing to poll.
  bool PollCompletions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HandleCompletion(const ibv_wc& completion) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PostWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The connection with a rank, or the switch, is told first how many acknowledgements may be one.
  // Datagrams have the Q_Key of the epoch from now on. False if the group has failed.
  bool ChangeKey(uint32_t epoch, WorkBatch* batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Error PostBatch(WorkBatch* batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ibv_sge SgeOf(const GroupCalls::Request& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The memory of a call that other ranks read of this one (GroupCalls::NeedsReads).
  const verbs::Memory* ReadByOthers(const Call& call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DeliverEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const GroupCalls::Ended& ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // As the calls under way let it.
  void ShareAcks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the manager of what trials of the send window have found.
  void TellWindow(const WindowTrials::Found& found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the group at this rank; does not wait. Its calls end when the queue pair has been drained.
  void Fail(const Error& error, bool tell_manager) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginDrain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndDrain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What calls_ has failed with.
  Error CallsError() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a call that is about to be outstanding: its deadline, and when it was made.
  void SetDeadline(Call* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whom the calls between the hosts wait for, as far as this rank knows by itself; empty if it does not.
  std::string AwaitedInWords() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the group if a call's deadline is over; some time before it asks whom the group waits for.
  void CheckDeadlines(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Before a thread that does not lead lets go of the mutex: leaves the channel to somebody (core/watch.h).
  void PassOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The calling thread leads: makes progress until done(), polls and sleeps between.
  template <typename Done>
  void Lead(const Done& done, const std::function<void()>& meanwhile) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes progress some times over, but for once something comes; the mutex is released before.
  void PollOn(const std::function<void()>& meanwhile) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sleeps until there is progress to make, and makes it.
  void SleepOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes progress, and leads if nobody does, until done(). `meanwhile`, if it is not empty, is called
  // without the mutex, as Options::while_waiting says.
  template <typename Done>
  void Await(const Done& done, const std::function<void()>& meanwhile = {})
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitCalls();    // without the mutex
  void AwaitDrained();  // without the mutex
  // Sleeps until completions come, Fail is called, or a deadline is near; the mutex is released meanwhile.
  void Sleep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The thread that leads sleeps no more.
  void EndSleep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // One that has not ended.
  std::shared_ptr<Call>& At(CallNumber call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return open_[static_cast<size_t>(call - first_open_)];
  }
  const std::shared_ptr<Call>& At(CallNumber call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return open_[static_cast<size_t>(call - first_open_)];
  }
  CallNumber ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return calls_.made() - static_cast<CallNumber>(calls_.open());
  }

  const uint32_t fork_depth_;  // of the process that joined
  Options options_;
  const bool alone_;  // see RunAlone
  uint32_t path_mtu_ = 0;
  PathTaken path_;
  GroupAbilities abilities_;
  verbs::ConnectInfo connect_;  // what the manager said
  // Of the thread that leads.
  Spin spin_ ABSL_GUARDED_BY(mutex_){0};
  bool always_polls_ = false;                  // the environment says how long to poll
  WaitTrials trials_ ABSL_GUARDED_BY(mutex_);  // if it does not
  int nic_fd_ ABSL_GUARDED_BY(mutex_) = -1;    // while it sleeps on the NIC; else negative
  int wake_fd_ = -1;                           // ends Sleep
  std::shared_ptr<verbs::Device> device_;
  GroupCalls calls_ ABSL_GUARDED_BY(mutex_);   // here, because its memory outlives the registration
  std::shared_ptr<verbs::Memory> own_memory_;  // of calls_, for the connection with the switch

  TurnMutex mutex_;
  std::condition_variable_any changed_;                           // a call is done, or nobody leads
  std::shared_ptr<verbs::CompletionQueue> cq_;                    // null if alone
  std::unique_ptr<verbs::QueuePair> qp_ ABSL_GUARDED_BY(mutex_);  // to the switch; null by the hosts' path
  std::unique_ptr<HostLinks> hosts_ ABSL_GUARDED_BY(mutex_);      // null until calls go between the hosts
  std::optional<Datagrams> datagrams_ ABSL_GUARDED_BY(mutex_);    // until they are of hosts_
  std::string no_multicast_;                                      // why there are none
  std::unique_ptr<Session> session_ ABSL_GUARDED_BY(mutex_);
  // By number, from the first that has not ended on; null where one behind that has.
  std::deque<std::shared_ptr<Call>> open_ ABSL_GUARDED_BY(mutex_);
  CallNumber first_open_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> quantises_ = true;
  std::atomic<Priority> priority_;                 // of calls made from now on
  Saturation saturation_ ABSL_GUARDED_BY(mutex_);  // of what calls_ has nothing to do with
  bool told_saturation_ ABSL_GUARDED_BY(mutex_) = false;
  bool told_busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool told_reads_ ABSL_GUARDED_BY(mutex_) = false;
  MulticastCounts judged_reads_ ABSL_GUARDED_BY(mutex_);  // up to where datagrams have been looked at
  // What the manager was told last of datagrams; nothing if it does not take it.
  std::optional<MulticastCounts> told_datagrams_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> told_ways_ ABSL_GUARDED_BY(mutex_);
  uint64_t completions_ ABSL_GUARDED_BY(mutex_) = 0;  // taken from the queue so far
  uint32_t shared_acks_ ABSL_GUARDED_BY(mutex_) = 1;  // what the queue pair has been told
  std::vector<std::shared_ptr<Region>> regions_ ABSL_GUARDED_BY(mutex_);
  // Of the queue pair. In kDraining it is in the error state and its requests are being flushed; then it is
  // destroyed.
  enum class Phase : uint8_t { kRunning, kDraining, kDrained };
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kRunning;
  Clock::time_point next_deadline_ ABSL_GUARDED_BY(mutex_) =
      Clock::time_point::max();                   // no call's, nor the draining's, is earlier
  // The switch has not answered the queue pair, and the manager may say why until then: else this is what
  // ends the group.
  Error unanswered_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point unanswered_until_ ABSL_GUARDED_BY(mutex_){};
  Error error_ ABSL_GUARDED_BY(mutex_);           // what ended the group
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;  // ... was a switch's reply that every rank got
  bool leaves_ ABSL_GUARDED_BY(mutex_) = false;   // Destroy has been called
  Watch watch_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace epic::internal
