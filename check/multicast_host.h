// A host of a system without switches whose calls go by multicast: the library's HostPath, and NICs that are
// as simple as can be. What a connection carries comes in order and is never lost; it is acknowledged, or a
// Read answered, by what goes back. Datagrams are sent at once, and may be lost on their way. A message is a
// packet.
//
// The process takes what has come at once: one that lags is one to which channels bring things later. So
// every datagram that comes finds a receive.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "base/snapshot.h"
#include "check/system.h"
#include "commlib/core/host_path.h"
#include "roce/packet.h"

namespace epic::check {

// What a Read asks for: of a call's result, or of what its root gives.
struct ReadRequest {
  uint32_t call = 0;
  uint32_t offset = 0;  // bytes, as length
  uint32_t length = 0;
};
// Nothing if the packet is none.
std::optional<ReadRequest> ReadRequestOf(const roce::Packet& packet);

class MulticastHost {
 public:
  using Send = std::function<void(PortId, const roce::Packet&)>;

  // The system must outlive it.
  MulticastHost(const System& system, int node);

  // Makes the next call. Its buffers must outlive it, or the next Restore (check/snapshot.h).
  void Start(const uint8_t* send, uint8_t* recv);
  // Takes a packet; not a Read's request, which Answer is for.
  void OnPacket(PortId port, const roce::Packet& packet, const Send& send);
  void Answer(PortId port, std::span<const uint8_t> bytes, const Send& send) const;
  // The process acts until it has nothing to do.
  void Run(const Send& send);

  // Made; of these those that have ended come first.
  size_t calls() const { return calls_; }
  const std::vector<Finished>& ended() const { return ended_; }
  bool failed() const { return path_.failed(); }
  // No call is open, and nothing is unacknowledged.
  bool is_released() const;

 private:
  friend struct epic::Snapshot;
  // A request that is posted.
  struct Posted {
    uint64_t wr_id = 0;
    uint64_t address = 0;  // of a send but a Read without meaning
    uint32_t length = 0;
    bool is_read = false;
  };

  uint32_t ConnectionAt(PortId port) const;
  PortId PortOf(uint32_t connection) const;
  roce::Packet PacketTo(PortId port, roce::Opcode opcode) const;
  void Post(const HostPath::Request& request, const Send& send);
  void SendDatagram(const HostPath::Request& request, const Send& send);
  void Complete(PortId port, const roce::Packet& packet);
  void Receive(PortId port, const roce::Packet& packet);
  void ReceiveDatagram(PortId port, const roce::Packet& packet);

  const System& system_;
  const int node_;
  HostPath path_;
  std::vector<std::deque<Posted>> recvs_, sends_;  // by port; sends that are not acknowledged
  std::deque<Posted> datagram_recvs_;
  std::deque<uint64_t> datagrams_sent_;  // not told; none between two steps
  std::vector<Finished> ended_;
  size_t calls_ = 0;
};

}  // namespace epic::check
