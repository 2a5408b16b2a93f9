// A rank on a host of the virtual-time world: its calls, as the host library runs them (GroupCalls), on an RC
// queue pair to its switch that behaves as Linux' rdma_rxe. Who gives it queue pairs to other ranks, too,
// posts what is for these (sim/path_rank.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/snapshot.h"
#include "commlib/core/group_calls.h"
#include "roce/transport/queue_pair.h"

namespace epic::sim {

// How a call ended, or that it has not.
enum class CallState { kRunning, kDone, kFailed };

// Whether a rank can still make calls.
enum class RankLife : uint8_t {
  kAlive,
  kAborted,  // the manager has told it that its group has failed: its queue pair is gone
  kKilled,   // its process is gone, and whatever it was doing
};

// The host's end of its edge.
struct HostConfig {
  Ipv4 local_ip{};
  Qpn local_qpn{};
  Ipv4 remote_ip{};
  Qpn remote_qpn{};
  Psn send_psn;
  Psn recv_psn;
  uint32_t path_mtu = 1024;
  uint32_t message_packets = 8;
  uint32_t window_messages = 8;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  bool* wake = nullptr;  // becomes true whenever wants_poll() does; optional
  uint8_t timeout = 18;  // exponent: 4.096 us * 2^18 is about a second
  // Calls that fit travel in the rank's own buffers of this size, unless their caller has registered his, as
  // the library does with its 64 KiB.
  uint64_t bounce_bytes = 0;
  uint64_t inline_bytes = 0;  // of the group
  Nanos ack_delay = 0;        // if more: acknowledgements share as the library's do, and wait so long at most
  bool retries_end = false;   // after seven, as the specification has it; those of rdma_rxe have no end
  int32_t most_outstanding = 0;  // packets that the NIC sends ahead of acknowledgements; 0: rdma_rxe's 128
  bool asks = false;             // as GroupCallsConfig's; with AddHosts
  bool pulled = false;           // its switch reads and writes its memory (docs/PROTOCOL-MODE-VI.md)
  uint64_t invocation_bytes = kMaxBytes;  // as GroupCallsConfig's
};

// Where a rank whose switch reads and writes has what a key and an address name: in the buffer of a call.
struct PlaceOfPulled {
  size_t call = 0;
  bool receives = false;  // in that of its result, which is written; else of what it gives, which is read
  uint64_t offset = 0;
};
// Nothing if that is the rank's own memory, or no rank's.
std::optional<PlaceOfPulled> PlaceForSwitch(uint32_t key, uint64_t address);

// That a queue pair sends without a pause, as those of rdma_rxe: more is another event.
inline constexpr int kPollPackets = 256;

class Host {
 public:
  explicit Host(const HostConfig& config);

  // Posts what is for the connection with another rank; such a request has that in `connection`.
  using PostToPeer = std::function<void(const GroupCalls::Request&)>;
  // Calls may go between the hosts; before the first call. Of ranks that exchange all do.
  void AddHosts(const HostPathConfig& config, PostToPeer post);

  // Start a call; the number returned counts calls from 0. Buffers stay the caller's and must outlive the
  // call. Their lengths are SendBytes and RecvBytes of the header, in blocks CalledBytes of each part; they
  // may be in place, as the library's. What of the receive buffer is this rank's own (AllGather, Broadcast at
  // the root) is copied at once. A root may leave a Broadcast's `recv` empty. `registered`: the data travel
  // in these buffers, also if they fit into the rank's own. With kByHostsFlag it goes between the hosts. A
  // request that is no part of another call has no buffers, and ends with the outcome kOk or kBusy.
  int Start(const ControlHeader& header, std::span<const uint8_t> send, std::span<uint8_t> recv,
            bool registered = false);
  int AllReduce(DataType type, std::span<const uint8_t> send, std::span<uint8_t> recv);
  int Barrier();

  CallState state(int call) const { return calls_[static_cast<size_t>(call)].state; }
  // Of a call that ended.
  Outcome outcome(int call) const { return calls_[static_cast<size_t>(call)].outcome; }
  // Of a failed call.
  const ControlHeader& reply(int call) const { return calls_[static_cast<size_t>(call)].reply; }
  Nanos finished_at(int call) const { return calls_[static_cast<size_t>(call)].finished_at; }
  // Of a call that ended: whether its data went between the hosts.
  bool went_by_hosts(int call) const { return calls_[static_cast<size_t>(call)].by_hosts; }
  // All calls have ended; and all that was sent to the switch for them has been acknowledged, too.
  bool all_done() const { return unfinished_ == 0; }
  bool all_closed() const { return all_done() && (gone_ || core_.idle()); }
  // Started so far.
  size_t calls() const { return calls_.size(); }

  // Checks that the switch never tells the queue pair what real hosts would take for an error.
  void OnPacket(Nanos now, const roce::Packet& packet);
  // Of a rank that is alive: its process acts, unless it stands still, and its queue pair sends so many
  // packets at most.
  void Poll(Nanos now, roce::PacketSink& sink, int budget = kPollPackets);
  // What the library does: completions in, work requests and finished calls out. Of a process that does not
  // stand still.
  void RunProcess(Nanos now);
  Nanos next_deadline() const { return qp_.next_deadline(); }
  bool stopped() const { return stopped_; }
  // A call was started, or the process goes on, since the last Poll.
  bool wants_poll() const { return wants_poll_ && !stopped_; }

  // As the library does when its group has failed: the queue pair gives back every buffer, and every call
  // ends, with kAborted unless its result had arrived whole; at once, or when those to other ranks have given
  // back theirs. Only of a rank that is alive; then nothing but questions may be asked.
  void Abort(Nanos now);
  // The process and its queue pair vanish: calls that are running never end, and nothing comes back of what
  // was posted. One that was aborted and whose calls had all ended by then stays aborted.
  void Kill();
  RankLife life() const { return life_; }
  bool alive() const { return life_ == RankLife::kAlive; }

  // As RankCore's: from the next message on. The library does so by its trials; here whoever likes to may.
  void SetSendWindow(uint32_t messages);

  // The rank's process stands still, as after SIGSTOP, or goes on; its NIC never stops. No calls may be
  // started meanwhile.
  void SetStopped(bool stopped);

  const roce::QueuePair& qp() const { return qp_; }

  // Whether other ranks may read what the key, which Start has given, is of: its call is running.
  bool LetsRead(uint32_t rkey) const;

  // For who has the queue pairs to other ranks, which tells of completions and connections there. Then Act is
  // due.
  GroupCalls& core() { return core_; }
  const GroupCalls& core() const { return core_; }
  // RunProcess; what is then to be sent by the queue pair to the switch makes this want a poll.
  void Act(Nanos now);

 private:
  friend struct epic::Snapshot;
  struct CallRecord {
    CallState state = CallState::kRunning;
    Outcome outcome = Outcome::kOk;
    ControlHeader reply;
    Nanos finished_at = 0;
    bool by_hosts = false;
    std::vector<uint8_t> blocks;  // between the hosts, of a call in blocks
    // Where the switch reads and writes: the caller's buffers, as long as it is running.
    std::span<const uint8_t> sent;
    std::span<uint8_t> received;
  };
  class Registered;
  // Calls action(memory), with what the queue pair may use, and its switch.
  template <typename Action>
  void WithMemory(bool arriving, const Action& action);

  // What the switch may read, or write, by its key: of a call that is running, or in the rank's own memory.
  std::optional<std::span<uint8_t>> MapForSwitch(roce::Access access, uint32_t key, uint64_t address,
                                                 uint32_t length);
  void Post(const GroupCalls::Request& request);
  void EndFailed();
  void TakeEnded(Nanos now);

  void WantPoll();

  const uint32_t rank_;
  const Nanos ack_delay_;
  bool* const wake_;
  roce::QueuePair qp_;
  GroupCallsConfig group_;
  GroupCalls core_;
  PostToPeer post_to_peer_;
  std::vector<CallRecord> calls_;
  size_t unfinished_ = 0;
  bool wants_poll_ = false;
  bool stopped_ = false;
  RankLife life_ = RankLife::kAlive;
  bool gone_ = false;  // killed, alive or aborted
};

}  // namespace epic::sim
