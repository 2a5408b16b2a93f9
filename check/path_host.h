// A host of a system without switches: the library's HostPath on a queue pair to each peer, and what the
// library does around it. Connections are there from the beginning, and all ranks have been told so.
#pragma once

#include <cstdint>
#include <vector>

#include "base/snapshot.h"
#include "check/system.h"
#include "commlib/core/host_path.h"
#include "roce/transport/queue_pair.h"

namespace epic::check {

class PathHost {
 public:
  // The system must outlive it.
  PathHost(const System& system, int node);

  // Makes the next call. Its buffers must outlive it, or the next Restore (check/snapshot.h).
  void Start(const uint8_t* send, uint8_t* recv);
  // Hands the packet to the queue pair at the port, whose answer goes out before the process hears of it, as
  // a NIC's.
  void OnPacket(Nanos now, PortId port, const roce::Packet& packet, roce::PacketSink& sink);
  // The process acts until it has nothing to do, and the queue pairs send, those whose timers are due again.
  void Run(Nanos now, roce::PacketSink& sink);
  // The manager says that the group has failed. Only of a rank that has not left.
  void Abort();

  // As its NIC has it; kNever when it has left.
  Nanos next_deadline() const;
  // Its connections are closed: its call was refused, or Abort was called.
  bool has_left() const { return has_left_; }
  // Made; of these those that have ended come first.
  size_t calls() const { return calls_; }
  const std::vector<Finished>& ended() const { return ended_; }
  // Nothing is posted but the receives of the next exchange, and no call is open.
  bool is_released() const;
  const std::vector<roce::QueuePair>& queue_pairs() const { return queue_pairs_; }

 private:
  friend struct epic::Snapshot;
  void Post(const HostPath::Request& request);
  bool TakeCompletions();
  void PostWork();
  void Leave();

  const System& system_;
  const int node_;
  HostPath path_;
  std::vector<roce::QueuePair> queue_pairs_;  // by port
  std::vector<Finished> ended_;
  size_t calls_ = 0;
  bool has_left_ = false;
};

}  // namespace epic::check
