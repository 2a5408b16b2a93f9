// All calls of one rank of a group, whichever way each of them goes: through the group's switches, between
// the hosts, or by one of the two as the answer to a request says (docs/PROTOCOL.md, section 4.1, has the
// table). RankCalls and HostPath know what a call posts on its way; this knows the order: what may begin
// behind what, how a call is cut into slices, when the switches are told of a call between the hosts, and
// what ends when a way fails.
//
// Calls go in, with the way that their data would take through the switches; completions, connections and
// time go in. Work requests come out, each with the connection that it is for; connections that are wanted;
// and calls that have ended, with their results in the callers' buffers.
//
// A value, but for the callers' buffers: copying it is a snapshot. Without a clock. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/snapshot.h"
#include "base/types.h"
#include "commlib/core/host_path.h"
#include "commlib/core/rank_calls.h"
#include "commlib/core/shared_acks.h"
#include "commlib/core/window_trials.h"

namespace epic {

// Numbers a group's calls from 0, in the order in which they are made: the same on every rank.
using CallNumber = int64_t;

struct GroupCallsConfig {
  // Of the connection with the switch; without meaning in a group that has none.
  CoreConfig network;
  // The group has no switches: all calls go between the hosts.
  bool by_hosts = false;
  // Without AddHosts a call by the hosts is what the switches are told of it, and moves no data: of simulated
  // ranks alone.
  bool agreements_alone = false;
  // The memory in switches has several owners: calls with data ask for it (docs/PROTOCOL-BLOCKS.md).
  bool asks = false;
  // Most data of an invocation through the switches, all parts together; longer calls are made in slices. The
  // same on every rank.
  uint64_t invocation_bytes = kMaxBytes;
  // The send window to begin with, in messages, from which trials go on (window_trials.h); 0: no trials.
  uint32_t start_messages = 0;
};

class GroupCalls {
 public:
  // The connection with the switch. Any other number is one of host_peers.h.
  static constexpr uint32_t kSwitch = std::numeric_limits<uint32_t>::max();

  // What one ibv_post_send or ibv_post_recv needs. Every request is signalled.
  struct Request {
    uint32_t connection = kSwitch;
    bool is_recv = false;
    HostVerb verb = HostVerb::kSend;
    bool has_imm = false;
    uint32_t imm = 0;
    uint64_t wr_id = 0;  // of its connection; lowest bit: is_recv
    CallNumber call = 0;
    HostWhere where = HostWhere::kOwn;  // in memory() or hosts_memory(); else in the call's buffers
    uint8_t* address = nullptr;
    uint32_t length = 0;
    RemoteMemory remote;  // of HostVerb::kRead
    uint32_t group = 0;   // as of HostPath::Request
  };
  struct Ended {
    CallNumber call = 0;
    Outcome outcome = Outcome::kOk;  // or, if a slice has failed, what ended the group
    bool by_hosts = false;           // its data went between the hosts
  };
  // What ended the group.
  struct Failure {
    Outcome outcome = Outcome::kOk;  // kOk: nothing has
    bool by_hosts = false;           // it was found between the hosts; else at the connection with the switch
    ControlHeader reply;             // with kRefused: what refused
    ControlHeader header;            // and of the call that was refused, if it is open here
    bool in_slices = false;          // which is made in several
    std::optional<uint32_t> culprit; // with kProtocol between the hosts: whose message it was, if one rank's
  };

  // Sizes as of RankCalls.
  explicit GroupCalls(uint64_t bounce_bytes, uint64_t inline_bytes = 0);
  // Once the group is known, before the first call.
  void SetConfig(const GroupCallsConfig& config);
  // The way between the hosts, before the first call that may take it: GoesByHosts or Asks. Its ranks agree
  // by exchange if the group has no switches, and only then.
  void AddHosts(const HostPathConfig& config);

  // Where the NIC reads and writes beside the callers' buffers: for the connection with the switch, and for
  // those with other ranks. Neither moves.
  std::span<uint8_t> memory() { return core_.memory(); }
  std::span<uint8_t> hosts_memory() { return hosts_->memory(); }

  // Of a call that is to be made; those that do not name the hosts are about the way through the switches.
  // These depend on SetConfig alone, and so need no lock.
  bool GoesByHosts(const ControlHeader& header) const { return config_.by_hosts || IsByHosts(header); }
  bool Asks(const ControlHeader& header) const;
  bool Inlines(const ControlHeader& header) const { return core_.Inlines(header); }
  bool Fits(const ControlHeader& header) const { return core_.Fits(header); }
  uint64_t MostQuantised(Collective collective) const { return core_.MostQuantised(collective); }
  // Between the hosts: most elements of each part in a slice, and whether the NIC reads the call's own buffers
  // (it writes them if RingReceivesResults).
  uint64_t MostElementsByHosts(const ControlHeader& header) const;
  bool NeedsBuffersByHosts(const ControlHeader& header) const;
  // And whether other ranks' NICs may read them.
  bool NeedsReads(const ControlHeader& header) const {
    return hosts_ && IsByMulticast(header, AlgorithmOf(header));
  }

  // Makes a call. Its header's invocation is filled in; with kByHostsFlag it goes between the hosts. `way` is
  // that of its data through the switches. Buffers: as of RankCalls::Post and HostPath::Post; they must
  // outlive the call. CopyOwnPart is the caller's to do. A call may be made until the group has failed.
  // `blocks`: where what is in blocks travels between the hosts, CallBytes; of calls in blocks that may go
  // so. `rkey`: by which ranks may read `recv`, or of a Broadcast at its root `send`, at its own address: of
  // a call for which NeedsReads.
  // `pulled`: as of RankCalls::Post.
  CallNumber Make(const ControlHeader& header, const uint8_t* send, uint8_t* recv, Way way, uint32_t rkey = 0,
                  uint8_t* blocks = nullptr, const PulledBuffers& pulled = {});
  // As RankCalls'.
  void SetPulledMemory(const RemoteMemory& own) { core_.SetOwnMemory(own); }
  // The next call and all behind it never begin: the group is to be ended.
  void HoldBack();
  bool holds() const { return held_from_ != kNoCall; }
  // Calls made so far; of these, those that have not ended.
  CallNumber made() const { return next_; }
  size_t open() const { return open_; }

  // Ranks with which calls want a connection that is not there yet, ascending; empty if no call has come to
  // want one since the last time. May name a rank again.
  std::vector<uint32_t> TakeWanted();
  // It has.
  bool wants_connections() const { return wants_connections_; }
  // As HostPath's.
  void SetConnected(uint32_t rank) { hosts_->SetConnected(rank); }
  void SetReady(uint32_t rank) { hosts_->SetReady(rank); }
  std::vector<uint32_t> Awaited() const { return hosts_ ? hosts_->Awaited() : std::vector<uint32_t>{}; }

  // The next request to post; requests are to be posted in this order, also those of different connections.
  // False if nothing may be posted now. NextEnded is to be asked before.
  bool NextRequest(Request* request);
  // In the order in which the connection reports them, in each direction; not of those that failed, or were
  // flushed, or could not be posted: OnFlushed.
  void OnComplete(uint32_t connection, uint64_t wr_id, uint32_t bytes, std::optional<uint32_t> imm);
  void OnFlushed(uint32_t connection);
  // As HostPath's, of kDatagrams.
  void OnDatagram(uint64_t wr_id, std::optional<uint32_t> from, uint32_t bytes, uint32_t imm) {
    hosts_->OnDatagram(wr_id, from, bytes, imm);
  }
  // Of hosts with datagrams: receives, and sends, that can be outstanding for these; receives on a connection of the
  // fetch ring.
  uint32_t datagram_depth() const { return hosts_config_.staging_chunks; }
  uint32_t fetch_depth() const { return HostMulticast::FetchReceives(hosts_->MulticastConfig()); }
  void SetOwnMemory(const RemoteMemory& own) { hosts_->SetOwnMemory(own); }
  void OnQkeySet() { hosts_->OnQkeySet(); }
  const uint8_t* DatagramAt(uint64_t wr_id) const { return hosts_->DatagramAt(wr_id); }
  MulticastCounts multicast() const { return hosts_ ? hosts_->multicast() : MulticastCounts{}; }
  // Requests that the connections have not given back.
  int64_t posted() const { return core_.posted() + posted_to_hosts(); }
  int64_t posted_to_hosts() const { return hosts_ ? hosts_->posted() : 0; }
  // All that was sent to the switch has been acknowledged, and no call has begun that has not ended there.
  bool idle() const { return core_.idle(); }
  // A call that has ended. One that goes by the hosts may end later than one behind it.
  std::optional<Ended> NextEnded() {
    if (!core_.has_finished() && !hosts_ && !is_drained_) return std::nullopt;
    return NextEndedOfAll();
  }

  // Messages from the switch that one acknowledgement is for from now on (shared_acks.h).
  uint32_t shared_acks() const { return acks_.messages(); }
  // As RankCalls'; only without trials.
  void SetSendWindow(uint32_t messages) { core_.SetSendWindow(messages); }
  uint32_t start_window() const { return windows_.window(); }
  // Something has just happened of which the time is wanted: OnTime is due. What a round of trials has come
  // to comes out.
  bool awaits_time() const { return windows_.measured() && HasNewsOfMeasured(); }
  std::optional<WindowTrials::Found> OnTime(Nanos now);

  // Once failed no work is given out on any connection. All of them are to be closed and drained; then
  // OnDrained, after which every call ends: with kOk if its result has arrived whole. What the ranks have found
  // out between the hosts stays what ended the group, whoever calls Abort.
  void Abort();
  void OnDrained();
  bool failed() const { return core_.failed() || (hosts_ && hosts_->failed()); }
  Failure failure() const;
  // The reply of the switches refused, which every rank gets.
  bool refused_by_switches() const { return core_.failed() && core_.failure() == Outcome::kRefused; }

  // Calls whose request was answered so.
  uint64_t granted() const { return granted_; }
  uint64_t busy() const { return busy_; }
  const Saturation& saturation() const { return core_.saturation(); }

  // Stops the process if something does not hold that always does between two of the functions above, when
  // NextEnded has nothing more: calls begin in their order, and their invocations are in it; nothing is
  // behind a request that has not been answered; what is counted as open is.
  void CheckInvariants() const;

 private:
  friend struct epic::Snapshot;
  static constexpr CallNumber kNoCall = std::numeric_limits<CallNumber>::max();

  struct MadeCall {
    ControlHeader header;  // of the whole call
    const uint8_t* send = nullptr;
    uint8_t* recv = nullptr;
    uint64_t most = 0;  // elements of each part in a slice; 0: it is made whole
    uint64_t slices = 1;
    uint64_t ended = 0;  // of them
    uint8_t* blocks = nullptr;
    uint32_t rkey = 0;
    Way way = Way::kDirect;
    PulledBuffers pulled;
    Outcome outcome = Outcome::kOk;
    bool is_done = false;
  };
  enum class Kind : uint8_t {
    kData,       // through the switches; a call without data, too
    kRequest,    // for the memory in switches
    kAgreement,  // of a slice between the hosts: that all ranks have made it, and the same
  };
  // A control packet that goes through the switches, with what follows it.
  struct Invocation {
    CallNumber call = 0;
    OpId hosts_op = 0;  // of an agreement, on the path between the hosts
    uint32_t slice = 0;
    Kind kind = Kind::kData;
  };

  // Of a whole call between the hosts.
  Algorithm AlgorithmOf(const ControlHeader& header) const {
    return ChooseAlgorithm(header.collective, CallBytes(header), hosts_config_.world_size,
                           hosts_config_.algorithm, hosts_config_.chunk_bytes > 0);
  }
  MadeCall& At(CallNumber call) { return calls_[static_cast<size_t>(call) & (calls_.size() - 1)]; }
  const MadeCall& At(CallNumber call) const {
    return calls_[static_cast<size_t>(call) & (calls_.size() - 1)];
  }
  uint64_t MostByNetwork(const ControlHeader& header) const;
  // Cuts the call, if a slice may have so many bytes.
  static void Cut(MadeCall* call, uint64_t most_bytes);
  static ControlHeader HeaderOf(const MadeCall& call, uint64_t slice);
  // Of a slice in each part, and from one part to the next: bytes, where elements, or parts, take so many.
  static uint64_t OffsetOf(const MadeCall& call, uint64_t slice, uint64_t element_bytes);
  static uint64_t StrideOf(const MadeCall& call, uint64_t part_bytes);
  // Of a call in blocks between the hosts: where its result comes.
  uint8_t* ReceivedBlocks(const MadeCall& call) const;
  RemoteMemory ReadableOf(const MadeCall& call, uint64_t offset) const;
  CallNumber CallOfHosts(OpId op) const;
  // Begins what has been made, as far as nothing waits for an answer.
  void BeginNext();
  void Begin(CallNumber call);
  void OnAnswered(CallNumber call, bool granted);
  void BeginByNetwork(CallNumber call);
  void BeginByHosts(CallNumber call);
  // Behind those that wait, in the order in which the switches are to have them.
  void Enqueue(const Invocation& invocation);
  bool MayStart(const Invocation& invocation) const;
  ControlHeader RequestOf(MadeCall call) const;
  void StartNext();
  void KeepWindow();
  // The call, if it has ended with the slice.
  std::optional<Ended> EndSlice(CallNumber call, Outcome outcome);
  std::optional<Ended> NextEndedOfAll();
  std::optional<Ended> NextEndedByNetwork();
  std::optional<Ended> NextEndedByHosts();
  std::optional<Ended> NextNeverBegun();
  bool HostsFailedFirst() const;
  bool HasNewsOfMeasured() const;

  GroupCallsConfig config_;
  RankCalls core_;
  HostPathConfig hosts_config_;
  std::optional<HostPath> hosts_;

  std::vector<MadeCall> calls_;  // open ones, at their numbers modulo its size, which is a power of two
  CallNumber first_ = 0;     // that has not ended
  CallNumber begun_ = 0;     // those before it have begun
  CallNumber next_ = 0;      // to be made
  CallNumber held_from_ = kNoCall;
  size_t open_ = 0;
  bool is_asking_ = false;  // the last that has begun waits for the answer to its request

  std::deque<Invocation> invocations_;  // that have not ended, in order
  size_t started_ = 0;                  // of them: the first ones, which RankCalls has
  OpId first_op_ = 0;                   // of invocations_, there
  std::deque<CallNumber> hosts_calls_;  // of the slices that HostPath has
  OpId first_hosts_op_ = 0;             // of these, there
  bool wants_connections_ = false;
  bool is_drained_ = false;

  SharedAcks acks_{1};
  WindowTrials windows_;
  uint64_t granted_ = 0;
  uint64_t busy_ = 0;
};

}  // namespace epic
