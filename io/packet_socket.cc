#include "io/packet_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/frame_sender.h"
#include "io/interface.h"
#include "io/packet_filter.h"
#include "roce/super_frame.h"

namespace epic::io {
namespace {

constexpr size_t kTagBytes = 4;
constexpr size_t kEthernetBytes = 14;
// A kernel without room gets this long, in all, per batch: longer than it takes to empty a device queue.
constexpr int kMaxSendRetries = 4;
constexpr int kSendRetryMs = 1;

Status Error(const std::string& interface, const char* what, int error) {
  const StatusCode code = error == EPERM || error == EACCES ? StatusCode::kPermissionDenied
                          : error == ENODEV                 ? StatusCode::kNotFound
                                                            : StatusCode::kInternal;
  return MakeStatus(code, fmt::format("interface {}: {}: {}{}", interface, what, std::strerror(error),
                                      code == StatusCode::kPermissionDenied ? " (needs CAP_NET_RAW)" : ""));
}

// A UDP socket at the address that drops everything; `prepare` sets what else it needs. None, and errno, if
// that cannot be.
template <typename Address, typename Prepare>
Descriptor HoldUdp(int family, const Address& address, const Prepare& prepare) {
  Descriptor held(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!held) return {};
  const int on = 1;
  // Both: with the first alone, only processes of one user can share the port.
  setsockopt(held.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  if (setsockopt(held.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 && prepare(held.get()) &&
      AttachFilter(held.get(), EmptyFilter()) &&
      bind(held.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return held;
  }
  const int error = errno;
  held = {};
  errno = error;
  return {};
}

template <typename Prepare>
Descriptor HoldIpv4Udp(uint16_t port, const Prepare& prepare) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  // Nobody answers a datagram to a group, so none need come here: of a super-frame each such socket would
  // have a copy, cut into packets.
  const auto prepare_all = [&prepare](int fd) {
    const int off = 0;
    setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off);
    return prepare(fd);
  };
  return HoldUdp(AF_INET, address, prepare_all);
}

ipv6_mreq MembershipOf(uint32_t interface_index, Ip group) {
  ipv6_mreq request{};
  std::ranges::copy(group.bytes(), request.ipv6mr_multiaddr.s6_addr);
  request.ipv6mr_interface = interface_index;
  return request;
}

ip_mreqn MembershipOf(uint32_t interface_index, Ipv4 group) {
  return {.imr_multiaddr = {htonl(Raw(group))},
          .imr_address = {},
          .imr_ifindex = static_cast<int>(interface_index)};
}

int ChangeMembership(int udp_fd, uint32_t interface_index, Ip group, int v4_option, int v6_option) {
  if (group.is_v4()) {
    const ip_mreqn request = MembershipOf(interface_index, group.v4());
    return setsockopt(udp_fd, IPPROTO_IP, v4_option, &request, sizeof request) == 0 ? 0 : errno;
  }
  const ipv6_mreq request = MembershipOf(interface_index, group);
  return setsockopt(udp_fd, IPPROTO_IPV6, v6_option, &request, sizeof request) == 0 ? 0 : errno;
}

}  // namespace

StatusOr<std::unique_ptr<PacketSocket>> PacketSocket::Open(const Options& options) {
  const std::optional<InterfaceState> state = TryReadInterface(options.interface);
  if (!state) return Error(options.interface, "open", errno);
  if (!state->exists) return Error(options.interface, "open", ENODEV);
  std::unique_ptr<PacketSocket> port(new PacketSocket(options, state->mtu));
  const Status opened = port->OpenSocket(&port->short_, options.ring_bytes, port->max_frame_bytes_);
  if (!opened.ok()) return opened;
  if (options.super_frames) {
    const Status status =
        port->OpenSocket(&port->long_, options.super_frame_ring_bytes, roce::kMaxSuperFrameBytes);
    if (!status.ok()) return status;
  }
  if (Status s = port->SetQpnBlocks(options.qpn_blocks); !s.ok()) return s;
  const uint32_t index = port->index_ = if_nametoindex(options.interface.c_str());
  for (const Socket* one : {&port->short_, &port->long_}) {
    if (!one->fd) continue;
    if (Status s = port->Bind(*one, index); !s.ok()) return s;
  }
  port->sender_ = std::make_unique<FrameSender>(
      port->short_.fd.get(), port->max_frame_bytes_ + kTagBytes, options.super_frames,
      options.everything ? FrameSender::Queue::kLong : FrameSender::Queue::kShort);
  return port;
}

PacketSocket::PacketSocket(const Options& options, uint32_t mtu)
    : options_(options), mtu_(mtu), max_frame_bytes_(kEthernetBytes + std::min(mtu, options.max_mtu)) {}

Status PacketSocket::OpenSocket(Socket* socket, size_t ring_bytes, size_t max_frame_bytes) {
  // Protocol 0: nothing arrives before filter and ring stand.
  socket->fd = Descriptor(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket->fd) return Error(options_.interface, "packet socket", errno);
  const int fd = socket->fd.get(), on = 1;
  // Without it every frame that is sent comes back as a clone.
  if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0)
    return Error(options_.interface, "PACKET_IGNORE_OUTGOING", errno);
  if (options_.super_frames && setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0)
    return Error(options_.interface, "PACKET_VNET_HDR", errno);
  if (Status s = socket->ring.Map(fd, ring_bytes, max_frame_bytes, options_.super_frames); !s.ok())
    return MakeStatus(s.code(),
                      fmt::format("interface {}: {}", options_.interface, std::string(s.message())));
  return Status();
}

Status PacketSocket::Bind(const Socket& socket, uint32_t index) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(index);
  if (bind(socket.fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return Error(options_.interface, "bind", errno);
  if (!options_.everything) return Status();
  packet_mreq all{};
  all.mr_ifindex = static_cast<int>(index);
  all.mr_type = PACKET_MR_PROMISC;
  if (setsockopt(socket.fd.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) != 0)
    return Error(options_.interface, "promiscuous mode", errno);
  return Status();
}

Status PacketSocket::SetQpnBlocks(const std::vector<uint16_t>& blocks) {
  const auto program = [&](const FrameLengths& lengths) {
    if (options_.shard) return ShardFilter(*options_.shard, lengths);
    if (options_.everything) return LengthFilter(lengths);
    return RoceFilter(
        {.udp_port = options_.udp_port, .arp_replies = options_.arp_replies, .lengths = lengths}, blocks);
  };
  const auto attach = [&](const Socket& socket, const FrameLengths& lengths) {
    return AttachFilter(socket.fd.get(), program(lengths));
  };
  if (!options_.super_frames) {
    if (attach(short_, {})) return Status();
  } else {
    const auto most = static_cast<uint32_t>(max_frame_bytes_);
    if (attach(short_, {.max_bytes = most}) && attach(long_, {.min_bytes = most + 1})) return Status();
  }
  return Error(options_.interface, "filter", errno);
}

std::vector<int> PacketSocket::fds() const {
  if (!long_.fd) return {short_.fd.get()};
  return {short_.fd.get(), long_.fd.get()};
}

PacketRing* PacketSocket::Next() {
  uint64_t came_short = 0, came_long = 0;
  bool has_short = short_.ring.Ready(&came_short);
  if (!long_.ring.mapped()) return has_short ? &short_.ring : nullptr;
  const bool has_long = long_.ring.Ready(&came_long);
  // What came before it by the ring that was looked at first is there by now, if not at the first look.
  if (has_long && !has_short) has_short = short_.ring.Ready(&came_short);
  if (!has_long && has_short && !long_.ring.Ready(&came_long)) return &short_.ring;
  if (!has_short) return has_long ? &long_.ring : nullptr;
  return came_long <= came_short ? &long_.ring : &short_.ring;
}

StatusOr<int> PacketSocket::Receive(int max_packets, FrameHandler handler, void* user) {
  int count = 0;
  while (count < max_packets) {
    PacketRing* const ring = Next();
    if (ring == nullptr) break;
    ReceivedFrame frame;
    ++count;
    const bool whole = ring->Take(&frame);
    if (!whole || (frame.segment_bytes == 0 && frame.bytes.size() > max_frame_bytes_ + kTagBytes)) {
      ++received_.rx_too_long;
      continue;
    }
    if (frame.segment_bytes > 0) {
      ++received_.rx_super_frames;
      count += static_cast<int>(frame.bytes.size() / frame.segment_bytes);
    }
    handler(user, frame);
  }
  if (count > 0 || !options_.everything) return count;
  // The kernel says so once, on every socket of an interface that has gone or is down. One that is not asked
  // stays readable for ever, and who waits for both would not sleep again.
  int error = TakeSocketError(short_.fd.get());
  if (long_.fd) {
    const int other = TakeSocketError(long_.fd.get());
    if (error == 0) error = other;
  }
  if (error == 0) return 0;
  // One that is down comes up again by itself; a new one of the same name is another.
  if (error == ENETDOWN && if_nametoindex(options_.interface.c_str()) == index_) return 0;
  return MakeStatus(StatusCode::kUnavailable, std::strerror(error));
}

void PacketSocket::Release() {
  short_.ring.Release();
  if (long_.ring.mapped()) long_.ring.Release();
}

void PacketSocket::FlushOrDrop() {
  sender().Flush();
  for (int retries = 0; sender().waiting() && retries < kMaxSendRetries; ++retries) {
    pollfd writable{short_.fd.get(), POLLOUT, 0};
    poll(&writable, 1, kSendRetryMs);
    sender().Resume();
  }
  if (sender().waiting()) sender().Discard();
}

uint64_t PacketSocket::CountDropped() {
  for (Socket* one : {&short_, &long_}) {
    tpacket_stats stats{};
    socklen_t length = sizeof stats;
    // Reading resets the kernel's count.
    if (one->fd && getsockopt(one->fd.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0)
      one->dropped += stats.tp_drops;
  }
  return short_.dropped + long_.dropped;
}

int TakeSocketError(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

Descriptor HoldUdpPort(uint16_t port) {
  return HoldIpv4Udp(port, [](int) { return true; });
}

Descriptor HoldUdpPortForSuperFrames(uint16_t port, const std::string& interface) {
  return HoldIpv4Udp(port, [&interface](int fd) {
    const int on = 1;
    return setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface.data(),
                      static_cast<socklen_t>(interface.size())) == 0 &&
           setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on) == 0;
  });
}

Descriptor HoldIpv6UdpPort(uint16_t port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  return HoldUdp(AF_INET6, address, [](int fd) {
    const int on = 1;
    return setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0 &&
           setsockopt(fd, SOL_UDP, UDP_NO_CHECK6_RX, &on, sizeof on) == 0;
  });
}

Descriptor OpenMembership() { return Descriptor(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

int JoinGroup(int udp_fd, uint32_t interface_index, Ip group) {
  return ChangeMembership(udp_fd, interface_index, group, IP_ADD_MEMBERSHIP, IPV6_ADD_MEMBERSHIP);
}

void LeaveGroup(int udp_fd, uint32_t interface_index, Ip group) {
  ChangeMembership(udp_fd, interface_index, group, IP_DROP_MEMBERSHIP, IPV6_DROP_MEMBERSHIP);
}

}  // namespace epic::io
