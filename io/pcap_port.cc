#include "io/pcap_port.h"

#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <pcap/pcap.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "io/frame_sender.h"
#include "io/interface.h"

namespace epic::io {
namespace {

constexpr size_t kEthernetBytes = 14 + 4;  // header and 802.1Q tag
// Room in a received frame above what the MTU allows, so that a frame that is too long shows as such.
constexpr size_t kSpare = 46;

Status Error(StatusCode code, const std::string& interface, const std::string& what) {
  return MakeStatus(code, fmt::format("interface {}: {}", interface, what));
}

struct PcapCloser {
  void operator()(pcap_t* p) const { pcap_close(p); }
};

Status ActivationError(int result, pcap_t* p, const std::string& interface) {
  switch (result) {
    case PCAP_ERROR_NO_SUCH_DEVICE:
      return Error(StatusCode::kNotFound, interface, "no such interface");
    case PCAP_ERROR_IFACE_NOT_UP:
      return Error(StatusCode::kUnavailable, interface, "is down");
    case PCAP_ERROR_PERM_DENIED:
    case PCAP_ERROR_PROMISC_PERM_DENIED:
      return Error(StatusCode::kPermissionDenied, interface, "not allowed to open it (needs CAP_NET_RAW)");
    default:
      return Error(StatusCode::kInternal, interface,
                   fmt::format("{}: {}", pcap_statustostr(result), pcap_geterr(p)));
  }
}

struct Receiver {
  FramePort::FrameHandler handler;
  void* user;
  size_t max_frame_bytes;
  uint64_t* too_long;
};

void OnPcapFrame(u_char* user, const pcap_pkthdr* header, const u_char* bytes) {
  const auto* receiver = reinterpret_cast<const Receiver*>(user);
  if (header->len > receiver->max_frame_bytes || header->caplen < header->len) {
    ++*receiver->too_long;
    return;
  }
  receiver->handler(receiver->user, {.bytes = {bytes, header->caplen}});
}

// What came before the filter stood may be another shard's as well: nobody gets it here. False, and errno.
bool ReceiveOnly(pcap_t* p, const FrameShard& shard) {
  const int fd = pcap_get_selectable_fd(p);
  if (!AttachFilter(fd, EmptyFilter())) return false;
  const auto forget = [](u_char*, const pcap_pkthdr*, const u_char*) {};
  while (pcap_dispatch(p, -1, forget, nullptr) > 0) {
  }
  return AttachFilter(fd, ShardFilter(shard, {}));
}

}  // namespace

StatusOr<std::unique_ptr<PcapPort>> PcapPort::Open(const std::string& interface, size_t ring_bytes,
                                                   const std::optional<FrameShard>& shard) {
  const InterfaceState state = ReadInterface(interface);
  if (!state.exists) return Error(StatusCode::kNotFound, interface, "no such interface");
  std::array<char, PCAP_ERRBUF_SIZE> message{};
  std::unique_ptr<pcap_t, PcapCloser> handle(pcap_create(interface.c_str(), message.data()));
  if (handle == nullptr) return Error(StatusCode::kInternal, interface, message.data());
  pcap_set_snaplen(handle.get(), static_cast<int>(state.mtu + kEthernetBytes + kSpare));
  pcap_set_promisc(handle.get(), 1);
  pcap_set_immediate_mode(handle.get(), 1);
  pcap_set_buffer_size(handle.get(), static_cast<int>(ring_bytes));
  const int result = pcap_activate(handle.get());
  if (result < 0) return ActivationError(result, handle.get(), interface);
  if (pcap_setnonblock(handle.get(), 1, message.data()) != 0) {
    return Error(StatusCode::kInternal, interface, message.data());
  }
  if (pcap_datalink(handle.get()) != DLT_EN10MB) {
    return Error(StatusCode::kInvalidArgument, interface, "is not an Ethernet interface");
  }
  const int on = 1;
  if (setsockopt(pcap_get_selectable_fd(handle.get()), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) !=
      0) {
    return Error(StatusCode::kInternal, interface,
                 fmt::format("PACKET_IGNORE_OUTGOING: {}", std::strerror(errno)));
  }
  if (shard && !ReceiveOnly(handle.get(), *shard))
    return Error(StatusCode::kInternal, interface, fmt::format("filter: {}", std::strerror(errno)));
  return std::unique_ptr<PcapPort>(new PcapPort(handle.release(), state.mtu));
}

PcapPort::PcapPort(pcap* handle, uint32_t mtu)
    : handle_(handle),
      fd_(pcap_get_selectable_fd(handle)),
      mtu_(mtu),
      max_frame_bytes_(mtu + kEthernetBytes) {
  sender_ = std::make_unique<FrameSender>(fd_, max_frame_bytes_, /*virtio=*/false, FrameSender::Queue::kLong);
}

PcapPort::~PcapPort() { pcap_close(handle_); }

StatusOr<int> PcapPort::Receive(int max_packets, FrameHandler handler, void* user) {
  Receiver receiver{handler, user, max_frame_bytes_, &received_.rx_too_long};
  const int count = pcap_dispatch(handle_, max_packets, OnPcapFrame, reinterpret_cast<u_char*>(&receiver));
  if (count < 0) return MakeStatus(StatusCode::kUnavailable, pcap_geterr(handle_));
  return count;
}

uint64_t PcapPort::CountDropped() {
  pcap_stat stats{};
  return pcap_stats(handle_, &stats) == 0 ? stats.ps_drop : 0;
}

}  // namespace epic::io
