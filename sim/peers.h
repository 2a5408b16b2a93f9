// A rank's queue pairs to other ranks, and the one for datagrams: by them hosts speak to hosts, beside the
// rank's queue pair to its switch. A core without I/O drives them, which the world tells of completions and
// time, and which posts. Their packets leave the host in turn (sim/nic.h) and cross the switches as ordinary
// traffic (sim/fabric.h).
//
// Connections are numbered as in commlib/core/host_peers.h: one with a peer by the peer's rank, another one with
// the same peer by kFetchRing more. The queue pair for datagrams is kDatagrams.
#pragma once

#include <bit>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "commlib/core/host_peers.h"
#include "roce/transport/queue_pair.h"
#include "roce/transport/ud.h"
#include "sim/nic.h"
#include "sim/own_memory.h"

namespace epic::sim {

class Peers;

// Who uses the queue pairs of one rank. Called by the world only, and never from within its own calls.
class PeerDriver : public PeerAccess {
 public:
  // Of all connections, in the order in which they came to the NIC.
  virtual void OnCompletion(Nanos now, int connection, const roce::Completion& completion) = 0;
  // Posts what is to be posted. Called when the world begins to run, after completions, at the deadline, and
  // after Peers::WantPoll; at other times, too.
  virtual void Poll(Nanos now, Peers& peers) = 0;
  // When Poll is to be called though nothing has completed; kNever if not at all. A time that has come when
  // Poll returns sets no timer: it counts as one that Poll has seen to.
  virtual Nanos next_deadline() const { return kNever; }
  std::optional<std::span<uint8_t>> MapForPeers(uint32_t rkey, uint64_t address, uint32_t length) override {
    if (rkey != kOwnRkey) return std::nullopt;
    return std::span(std::bit_cast<uint8_t*>(address), length);
  }
};

// Of each queue pair of a rank.
struct PeerConfig {
  uint32_t send_depth = 256;
  uint32_t recv_depth = 256;
  uint8_t max_rd_atomic = 0;  // RDMA Reads outstanding, each way
  // So many acknowledgements are one, which waits no longer than ack_delay_ns; as roce::Policy.
  int ack_after = 1;
  Nanos ack_delay_ns = 0;
  // If more: the rank's process takes completions one by one, and this long for each. Else all that there are at
  // once, in no time.
  Nanos completion_ns = 0;
};

class Peers {
 public:
  // The rank's place in the world, what it uses, and a flag that becomes true whenever wants_poll() does. All
  // borrowed.
  struct RankPlace {
    int group = 0;
    int rank = 0;
    Nic* nic = nullptr;
    bool* wake = nullptr;
  };
  Peers(const RankPlace& place, PeerDriver& driver, const PeerConfig& config)
      : place_(place), driver_(driver), config_(config) {
    WantPoll();
  }
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // For the driver and who gives it work. Memory is the simulating process' own, by the keys of
  // sim/own_memory.h, and the transport's until the completion. kBadState if there is no such queue pair.
  roce::PostResult PostSend(int connection, const roce::SendWr& wr);
  roce::PostResult PostRecv(int connection, const roce::RecvWr& wr);
  bool IsConnected(int connection) const { return connections_.contains(connection); }
  // Of a connection that is there.
  const roce::QueuePair& qp(int connection) const { return connections_.at(connection)->qp; }
  // Datagrams that come must have this key from now on. There is a queue pair for them.
  void SetQkey(uint32_t qkey);
  // That have come for nothing, for example as no receive was posted; all 0 without such a queue pair.
  roce::UdCounters datagrams() const { return datagrams_ ? datagrams_->qp.counters() : roce::UdCounters{}; }
  // The driver's process takes completions of datagrams no faster than one in so long, from now on. At first
  // that takes no time, as nothing else does that a process does.
  void SetDatagramTime(Nanos time) { datagram_ns_ = time; }
  // The driver has got something to do, as by a call of its rank.
  void WantPoll();
  // All queue pairs go to ERR: what is posted, and will be, completes as flushed, and no packet is taken any
  // more.
  void Close();
  const PeerConfig& config() const { return config_; }

  // For the world. Queue pairs in RTS.
  void Connect(int connection, roce::QueuePair qp);
  void AddDatagrams(roce::UdQueuePair qp);
  // False if none of the queue pairs has the number.
  bool OnPacket(Nanos now, const roce::Packet& packet);
  // One that was sent to a group; it may be none of the rank's.
  void OnMulticast(const roce::Packet& packet);
  // Hands over completions and lets the driver post, unless its process stands still; queue pairs that have
  // something to send, or whose timers are due, stand in line.
  void Run(Nanos now, bool stopped);
  // When it is to be run if nothing else happens; later than now.
  Nanos next_deadline(Nanos now) const;
  bool wants_poll() const { return wants_poll_; }
  // Queue pairs and driver vanish; the driver is not called again.
  void Kill();

 private:
  struct Connection final : TurnTaker {
    Connection(const RankPlace& place, PeerAccess& its_access, roce::QueuePair pair)
        : TurnTaker(place.group, place.rank), access(its_access), qp(std::move(pair)) {}
    void TakeTurn(Nanos now, roce::PacketSink& sink) override;
    PeerAccess& access;
    roce::QueuePair qp;
  };
  struct Datagrams final : TurnTaker {
    Datagrams(const RankPlace& place, roce::UdQueuePair pair)
        : TurnTaker(place.group, place.rank), qp(std::move(pair)) {}
    void TakeTurn(Nanos now, roce::PacketSink& sink) override;
    roce::UdQueuePair qp;
  };

  template <typename Pair>
  void CollectFrom(int connection, Pair* qp) {
    for (roce::Completion c; qp->NextCompletion(&c);) completed_.emplace_back(connection, c);
  }
  // Called after whatever lets one of the queue pairs complete requests.
  void Collect();
  void RunDriver(Nanos now);
  void HandOver(Nanos now);

  const RankPlace place_;
  PeerDriver& driver_;
  const PeerConfig config_;
  std::map<int, std::unique_ptr<Connection>> connections_;  // by number
  std::unique_ptr<Datagrams> datagrams_;                    // if there are any
  std::deque<std::pair<int, roce::Completion>> completed_;  // not handed over; each with its connection
  Nanos datagram_ns_ = 0;
  Nanos busy_until_ = 0;  // with the completion that was handed over last
  bool wants_poll_ = false;
  bool killed_ = false;
};

}  // namespace epic::sim
