#include "io/pcap_port.h"

#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <pcap/pcap.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"

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
  PcapPort::FrameHandler handler;
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
  receiver->handler(receiver->user, {bytes, header->caplen});
}

}  // namespace

StatusOr<std::unique_ptr<PcapPort>> PcapPort::Open(const std::string& interface, size_t ring_bytes) {
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
  return std::unique_ptr<PcapPort>(new PcapPort(handle.release(), state.mtu));
}

PcapPort::PcapPort(pcap* handle, uint32_t mtu)
    : handle_(handle),
      fd_(pcap_get_selectable_fd(handle)),
      mtu_(mtu),
      max_frame_bytes_(mtu + kEthernetBytes) {
  queue_.reserve(kMaxWaitingBytes);
  queue_ends_.reserve(kMaxWaitingFrames);
}

PcapPort::~PcapPort() { pcap_close(handle_); }

StatusOr<int> PcapPort::Receive(int max_frames, FrameHandler handler, void* user) {
  Receiver receiver{handler, user, max_frame_bytes_, &counters_.rx_too_long};
  const int count = pcap_dispatch(handle_, max_frames, OnPcapFrame, reinterpret_cast<u_char*>(&receiver));
  if (count < 0) return MakeStatus(StatusCode::kUnavailable, pcap_geterr(handle_));
  return count;
}

void PcapPort::Send(std::span<const uint8_t> frame) {
  if (frame.size() > max_frame_bytes_) {
    ++counters_.tx_too_long;
    return;
  }
  if (queue_ends_.size() >= kBatchFrames) Flush();
  if (queue_.size() + frame.size() > kMaxWaitingBytes || queue_ends_.size() == kMaxWaitingFrames) {
    ++counters_.tx_no_buffer;
    return;
  }
  queue_.insert(queue_.end(), frame.begin(), frame.end());
  queue_ends_.push_back(queue_.size());
}

void PcapPort::Flush() {
  if (waiting_) return;
  size_t done = 0;
  while (done < queue_ends_.size()) {
    const size_t sent = SendBatch(done);
    done += sent;
    if (sent > 0 || errno == EINTR) continue;
    waiting_ = errno == EAGAIN;
    if (waiting_) break;
    // ENOBUFS: the device's own queue was full, and the frame is gone.
    ++(errno == ENOBUFS    ? counters_.tx_no_buffer
       : errno == EMSGSIZE ? counters_.tx_too_long
                           : counters_.tx_failed);
    ++done;
  }
  DropFirst(done);
}

void PcapPort::Resume() {
  waiting_ = false;
  Flush();
}

void PcapPort::DropFirst(size_t frames) {
  if (frames == 0) return;
  const size_t bytes = queue_ends_[frames - 1];
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(bytes));
  queue_ends_.erase(queue_ends_.begin(), queue_ends_.begin() + static_cast<ptrdiff_t>(frames));
  for (size_t& end : queue_ends_) end -= bytes;
}

// Sends a batch of frames from `first` on; returns how many left. If none, errno says why.
size_t PcapPort::SendBatch(size_t first) {
  std::array<iovec, kBatchFrames> parts;
  std::array<mmsghdr, kBatchFrames> messages{};
  const size_t count = std::min(queue_ends_.size() - first, kBatchFrames);
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = first + i == 0 ? 0 : queue_ends_[first + i - 1];
    parts[i] = {&queue_[begin], queue_ends_[first + i] - begin};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  const int sent = sendmmsg(fd_, messages.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
  return sent > 0 ? static_cast<size_t>(sent) : 0;
}

PcapPortCounters PcapPort::counters() {
  pcap_stat stats{};
  if (pcap_stats(handle_, &stats) == 0) counters_.rx_dropped = stats.ps_drop;
  return counters_;
}

}  // namespace epic::io
