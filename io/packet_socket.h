// Frames of chosen UDP ports, and ARP replies, from one network interface by an AF_PACKET socket with a
// memory-mapped ring: no library behind it, nothing taken from the kernel's own stack, a look without a
// system call. Needs CAP_NET_RAW.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "io/descriptor.h"

namespace epic::io {

struct PacketSocketCounters {
  uint64_t rx_dropped = 0;  // by the kernel: the ring was full
  uint64_t rx_cut = 0;      // longer than the MTU allows: an offload (GRO, GSO) is on
  uint64_t tx_failed = 0;   // not taken by the kernel, also after some retries
};

class PacketSocket {
 public:
  struct Options {
    std::string interface;
    size_t ring_bytes = 4 << 20;
    // IPv4 datagrams to this UDP port are received whose InfiniBand destination QPN has one of the
    // `qpn_blocks` in its upper 16 bits, or is the multicast QPN.
    uint16_t udp_port = 0;
    std::vector<uint16_t> qpn_blocks;
    bool arp_replies = false;
  };
  // With the interface's name: NOT_FOUND, PERMISSION_DENIED or INTERNAL.
  static StatusOr<std::unique_ptr<PacketSocket>> Open(const Options& options);
  ~PacketSocket();
  PacketSocket(const PacketSocket&) = delete;
  PacketSocket& operator=(const PacketSocket&) = delete;

  // For poll; readable while frames wait.
  int fd() const { return fd_.get(); }
  uint32_t mtu() const { return mtu_; }

  // Receives for these blocks from now on.
  Status SetQpnBlocks(const std::vector<uint16_t>& blocks);

  using FrameHandler = void (*)(void* user, std::span<const uint8_t> frame);
  // Hands over at most max_frames frames that have arrived; each is valid only during the call. Returns their
  // number.
  int Receive(int max_frames, FrameHandler handler, void* user);

  // Room for a frame of `bytes`, to be filled by the caller before the next call; it leaves at Flush, or
  // earlier if the queue is full. In order.
  std::span<uint8_t> Queue(size_t bytes);
  void Flush();

  // Reads the kernel's drop counter, so not for every packet.
  PacketSocketCounters counters();

 private:
  static constexpr size_t kMaxQueued = 64;

  PacketSocket(Descriptor fd, const Options& options, uint32_t mtu);
  Status MapRing(size_t ring_bytes);
  uint8_t* Slot(size_t index) const;

  const Descriptor fd_;
  const Options options_;
  const uint32_t mtu_;
  uint8_t* ring_ = nullptr;
  size_t ring_bytes_ = 0;
  size_t slot_bytes_ = 0;
  size_t slots_ = 0;
  size_t next_slot_ = 0;
  std::vector<uint8_t> queue_;  // kMaxQueued places of max_frame_bytes_
  size_t max_frame_bytes_;
  size_t queued_ = 0;
  std::vector<size_t> lengths_;
  PacketSocketCounters counters_;
};

// Takes a UDP port of the interface's namespace and throws away whatever the kernel delivers there, so that
// it does not answer with ICMP "port unreachable" what somebody else receives by a PacketSocket. Any number
// of processes may hold the same port. None, and errno, if it cannot be had.
Descriptor HoldUdpPort(uint16_t port);

// Makes the interface receive a multicast group, and the kernel say so by IGMP, for as long as the UDP socket
// lives or until it leaves: 0 or an errno.
int JoinGroup(int udp_fd, uint32_t interface_index, Ipv4 group);
void LeaveGroup(int udp_fd, uint32_t interface_index, Ipv4 group);

}  // namespace epic::io
