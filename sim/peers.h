// A rank's queue pairs to other ranks: by them hosts speak to hosts, beside the rank's queue pair to its
// switch. A core without I/O drives them, which the world tells of completions and time, and which posts.
// Their packets leave the host in turn (sim/nic.h) and cross the switches as ordinary traffic (sim/fabric.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "roce/transport/queue_pair.h"
#include "sim/nic.h"

namespace epic::sim {

class Peers;

// Who uses the queue pairs of one rank. Called by the world only, and never from within its own calls.
class PeerDriver {
 public:
  virtual ~PeerDriver() = default;
  // Of the queue pair to a peer; in order of each of its two queues.
  virtual void OnCompletion(Nanos now, int peer, const roce::Completion& completion) = 0;
  // Posts what is to be posted. Called when the world begins to run, after completions, at the deadline, and
  // after Peers::WantPoll; at other times, too.
  virtual void Poll(Nanos now, Peers& peers) = 0;
  // When Poll is to be called though nothing has completed; kNever if not at all. A time that has come when
  // Poll returns sets no timer: it counts as one that Poll has seen to.
  virtual Nanos next_deadline() const { return kNever; }
};

// Of each queue pair of a rank.
struct PeerConfig {
  uint32_t send_depth = 256;
  uint32_t recv_depth = 256;
  uint8_t max_rd_atomic = 0;  // RDMA Reads outstanding, each way
  // So many acknowledgements are one, which waits no longer than ack_delay_ns; as roce::Policy.
  int ack_after = 1;
  Nanos ack_delay_ns = 0;
};

class Peers {
 public:
  // The rank's place in the world, what it uses, and a flag that becomes true whenever wants_poll() does. All
  // borrowed.
  struct Place {
    int group = 0;
    int rank = 0;
    Nic* nic = nullptr;
    bool* wake = nullptr;
  };
  Peers(const Place& place, PeerDriver& driver, const PeerConfig& config)
      : place_(place), driver_(driver), config_(config) {
    WantPoll();
  }
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // For the driver and who gives it work. Memory is the simulating process' own, by the keys of
  // sim/own_memory.h, and the transport's until the completion. kBadState if there is no queue pair to the
  // peer.
  roce::PostResult PostSend(int peer, const roce::SendWr& wr);
  roce::PostResult PostRecv(int peer, const roce::RecvWr& wr);
  bool IsConnected(int peer) const { return connections_.contains(peer); }
  // To a peer that is connected.
  const roce::QueuePair& qp(int peer) const { return connections_.at(peer)->qp; }
  // The driver has got something to do, as by a call of its rank.
  void WantPoll();
  // All queue pairs go to ERR: what is posted, and will be, completes as flushed, and no packet is taken any
  // more.
  void Close();
  const PeerConfig& config() const { return config_; }

  // For the world. A queue pair in RTS.
  void Connect(int peer, roce::QueuePair qp);
  // False if no queue pair to a peer has the number.
  bool OnPacket(Nanos now, const roce::Packet& packet);
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
    Connection(const Place& place, roce::QueuePair pair)
        : TurnTaker(place.group, place.rank), qp(std::move(pair)) {}
    void TakeTurn(Nanos now, roce::PacketSink& sink) override;
    roce::QueuePair qp;
  };

  void RunDriver(Nanos now);

  const Place place_;
  PeerDriver& driver_;
  const PeerConfig config_;
  std::map<int, std::unique_ptr<Connection>> connections_;  // by peer
  bool wants_poll_ = false;
  bool killed_ = false;
};

}  // namespace epic::sim
