// Frames from and to one network interface by AF_PACKET sockets with memory-mapped rings: no library behind
// it, nothing taken from the kernel's own stack, a look without a system call. Either all frames, or one
// shard of them, or those of a UDP port with chosen queue pairs, and ARP replies. Needs CAP_NET_RAW.
//
// With super-frames there are two sockets, one for frames that the MTU allows and one for longer ones: a ring
// for the latter has few slots, so that its memory stays in the processor's cache, and what is short does not
// take them. Frames are handed over in the order in which they came.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "io/descriptor.h"
#include "io/frame_port.h"
#include "io/packet_filter.h"
#include "io/packet_ring.h"

namespace epic::io {

class PacketSocket final : public FramePort {
 public:
  struct Options {
    std::string interface;
    size_t ring_bytes = 4 << 20;  // for frames that the MTU allows
    // No frame is longer than those of this MTU, whatever the interface's is: the ring holds more of them.
    uint32_t max_mtu = 9000;
    bool super_frames = false;  // in and out
    // For longer ones, of which each takes 64 KiB of it, however long it is: several windows of 64 packets,
    // and what ranks send by multicast while nobody looks (docs/PROTOCOL-MULTICAST.md, section 4).
    size_t super_frame_ring_bytes = 8 << 20;
    // Every frame, whoever it is for; else IPv4 and IPv6 datagrams to this UDP port whose InfiniBand
    // destination QPN has one of the `qpn_blocks` in its upper 16 bits, or is the multicast QPN.
    bool everything = false;
    std::optional<FrameShard> shard;  // of everything; none: all of it
    uint16_t udp_port = 0;
    std::vector<uint16_t> qpn_blocks;
    bool arp_replies = false;
  };
  // With the interface's name: NOT_FOUND, UNAVAILABLE (it is down; only if `everything`), PERMISSION_DENIED
  // or INTERNAL.
  static StatusOr<std::unique_ptr<PacketSocket>> Open(const Options& options);

  std::vector<int> fds() const override;
  StatusOr<int> Receive(int max_packets, FrameHandler handler, void* user) override;
  bool keeps_received() const override { return true; }
  void Release() override;
  uint32_t mtu() const override { return mtu_; }
  bool super_frames() const override { return options_.super_frames; }

  // Frames that wait to be received at most: what comes when so many do is lost. Of those that the MTU
  // allows.
  size_t places() const { return short_.ring.slots(); }

  // Receives for these blocks from now on.
  Status SetQpnBlocks(const std::vector<uint16_t>& blocks);

  // As the sender's Flush, but gives a kernel without room a few milliseconds; what then is left is dropped.
  // For those that have nothing else to do meanwhile.
  void FlushOrDrop();

 protected:
  uint64_t CountDropped() override;

 private:
  struct Socket {
    Descriptor fd;
    PacketRing ring;
    uint64_t dropped = 0;
  };

  PacketSocket(const Options& options, uint32_t mtu);
  Status OpenSocket(Socket* socket, size_t ring_bytes, size_t max_frame_bytes);
  Status Bind(const Socket& socket, uint32_t index);
  // The ring with the frame that came first; null if none waits.
  PacketRing* Next();

  const Options options_;
  const uint32_t mtu_;
  const size_t max_frame_bytes_;  // without a VLAN tag
  uint32_t index_ = 0;            // of the interface
  Socket short_, long_;           // long_ only with super-frames
};

// Takes the error off a socket that has one, such as that its interface has gone down: until then it counts
// as readable. 0 or an errno.
int TakeSocketError(int fd);

// Takes a UDP port of the interface's namespace and throws away whatever the kernel delivers there, so that
// it does not answer with ICMP "port unreachable" what somebody else receives by a PacketSocket. Nothing is
// delivered there that comes to a group, which nobody answers. Any number of processes may hold the same
// port. None, and errno, if it cannot be had.
Descriptor HoldUdpPort(uint16_t port);
// The same for what comes by one interface that carries super-frames: those are thrown away whole. The kernel
// cuts them into packets first for a socket that has not said that it takes them (UDP_GRO).
Descriptor HoldUdpPortForSuperFrames(uint16_t port, const std::string& interface);

// The same for IPv6, beside it; it also takes what has no UDP checksum (RFC 6935).
Descriptor HoldIpv6UdpPort(uint16_t port);

// A UDP socket of IPv4 for memberships, to which nothing is delivered. None, and errno, if there is no room
// for one.
Descriptor OpenMembership();

// Makes the interface receive a multicast group, and the kernel say so by IGMP or MLD, for as long as the UDP
// socket, which is of the group's version, lives or until it leaves: 0 or an errno.
int JoinGroup(int udp_fd, uint32_t interface_index, Ip group);
void LeaveGroup(int udp_fd, uint32_t interface_index, Ip group);

}  // namespace epic::io
