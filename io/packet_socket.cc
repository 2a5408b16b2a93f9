#include "io/packet_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "io/interface.h"
#include "io/packet_filter.h"

namespace epic::io {
namespace {

constexpr size_t kEthernetBytes = 14;
constexpr size_t kRingBlock = 1 << 16;
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

bool Attach(int fd, std::vector<sock_filter> code) {
  const sock_fprog program{static_cast<uint16_t>(code.size()), code.data()};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

}  // namespace

StatusOr<std::unique_ptr<PacketSocket>> PacketSocket::Open(const Options& options) {
  // Protocol 0: nothing arrives before filter and ring stand.
  Descriptor opened(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!opened) return Error(options.interface, "packet socket", errno);
  const InterfaceState state = ReadInterface(options.interface, opened.get());
  if (!state.exists) return Error(options.interface, "open", ENODEV);
  std::unique_ptr<PacketSocket> port(new PacketSocket(std::move(opened), options, state.mtu));
  const int fd = port->fd();
  if (Status s = port->SetQpnBlocks(options.qpn_blocks); !s.ok()) return s;
  const int on = 1;
  // Without it every frame that is sent comes back as a clone.
  if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0)
    return Error(options.interface, "PACKET_IGNORE_OUTGOING", errno);
  if (Status s = port->MapRing(options.ring_bytes); !s.ok()) return s;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(options.interface.c_str()));
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return Error(options.interface, "bind", errno);
  return port;
}

PacketSocket::PacketSocket(Descriptor fd, const Options& options, uint32_t mtu)
    : fd_(std::move(fd)),
      options_(options),
      mtu_(mtu),
      max_frame_bytes_(kEthernetBytes + std::min(mtu, 9000u)) {
  queue_.resize(kMaxQueued * max_frame_bytes_);
  lengths_.resize(kMaxQueued);
}

PacketSocket::~PacketSocket() {
  if (ring_ != nullptr) munmap(ring_, ring_bytes_);
}

// TPACKET_V2: version 3 hands frames over in blocks, a millisecond late.
Status PacketSocket::MapRing(size_t ring_bytes) {
  const int version = TPACKET_V2;
  if (setsockopt(fd(), SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0)
    return Error(options_.interface, "PACKET_VERSION", errno);
  slot_bytes_ = std::bit_ceil(TPACKET2_HDRLEN + kEthernetBytes + 16 + max_frame_bytes_);
  const size_t block = std::max(kRingBlock, slot_bytes_);
  ring_bytes_ = std::max(ring_bytes / block, size_t{1}) * block;
  slots_ = ring_bytes_ / slot_bytes_;
  tpacket_req request{};
  request.tp_block_size = static_cast<unsigned>(block);
  request.tp_block_nr = static_cast<unsigned>(ring_bytes_ / block);
  request.tp_frame_size = static_cast<unsigned>(slot_bytes_);
  request.tp_frame_nr = static_cast<unsigned>(slots_);
  if (setsockopt(fd(), SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0)
    return Error(options_.interface, "PACKET_RX_RING", errno);
  void* const at = mmap(nullptr, ring_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd(), 0);
  if (at == MAP_FAILED) return Error(options_.interface, "mmap", errno);
  ring_ = static_cast<uint8_t*>(at);
  return Status();
}

Status PacketSocket::SetQpnBlocks(const std::vector<uint16_t>& blocks) {
  const FilterOptions filter{.udp_port = options_.udp_port, .arp_replies = options_.arp_replies};
  if (!Attach(fd(), RoceFilter(filter, blocks))) return Error(options_.interface, "filter", errno);
  return Status();
}

// Slots do not cross blocks: a block holds a whole number of them, because both are powers of two.
uint8_t* PacketSocket::Slot(size_t index) const { return ring_ + index * slot_bytes_; }

int PacketSocket::Receive(int max_frames, FrameHandler handler, void* user) {
  int count = 0;
  for (; count < max_frames; ++count) {
    auto* header = reinterpret_cast<tpacket2_hdr*>(Slot(next_slot_));
    const uint32_t status = __atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE);
    if ((status & TP_STATUS_USER) == 0) break;
    if (header->tp_snaplen < header->tp_len || header->tp_len > max_frame_bytes_) {
      ++counters_.rx_cut;
    } else {
      handler(user, {reinterpret_cast<const uint8_t*>(header) + header->tp_mac, header->tp_snaplen});
    }
    __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    next_slot_ = next_slot_ + 1 == slots_ ? 0 : next_slot_ + 1;
  }
  return count;
}

std::span<uint8_t> PacketSocket::Queue(size_t bytes) {
  if (bytes > max_frame_bytes_) {
    ++counters_.tx_failed;
    return {};
  }
  if (queued_ == kMaxQueued) Flush();
  lengths_[queued_] = bytes;
  return std::span(queue_).subspan(queued_++ * max_frame_bytes_, bytes);
}

void PacketSocket::Flush() {
  if (queued_ == 0) return;
  std::array<iovec, kMaxQueued> parts;
  std::array<mmsghdr, kMaxQueued> messages{};
  for (size_t i = 0; i < queued_; ++i) {
    parts[i] = {&queue_[i * max_frame_bytes_], lengths_[i]};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  int retries = 0;
  for (size_t next = 0; next < queued_;) {
    const int sent = sendmmsg(fd(), &messages[next], static_cast<unsigned>(queued_ - next), MSG_DONTWAIT);
    if (sent > 0) {
      next += static_cast<size_t>(sent);
      continue;
    }
    if (errno == EINTR) continue;
    if ((errno == EAGAIN || errno == ENOBUFS) && retries++ < kMaxSendRetries) {
      pollfd writable{fd(), POLLOUT, 0};
      poll(&writable, 1, kSendRetryMs);
      continue;
    }
    ++counters_.tx_failed;
    ++next;
  }
  queued_ = 0;
}

PacketSocketCounters PacketSocket::counters() {
  tpacket_stats stats{};
  socklen_t length = sizeof stats;
  // Reading resets the kernel's count.
  if (getsockopt(fd(), SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0)
    counters_.rx_dropped += stats.tp_drops;
  return counters_;
}

Descriptor HoldUdpPort(uint16_t port) {
  Descriptor held(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!held) return {};
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  // Both: with the first alone, only processes of one user can share the port.
  setsockopt(held.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  if (setsockopt(held.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      Attach(held.get(), EmptyFilter()) &&
      bind(held.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return held;
  }
  const int error = errno;
  held = {};
  errno = error;
  return {};
}

int JoinGroup(int udp_fd, uint32_t interface_index, Ipv4 group) {
  const ip_mreqn request{.imr_multiaddr = {htonl(Raw(group))},
                         .imr_address = {},
                         .imr_ifindex = static_cast<int>(interface_index)};
  return setsockopt(udp_fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request) == 0 ? 0 : errno;
}

void LeaveGroup(int udp_fd, uint32_t interface_index, Ipv4 group) {
  const ip_mreqn request{.imr_multiaddr = {htonl(Raw(group))},
                         .imr_address = {},
                         .imr_ifindex = static_cast<int>(interface_index)};
  setsockopt(udp_fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &request, sizeof request);
}

}  // namespace epic::io
