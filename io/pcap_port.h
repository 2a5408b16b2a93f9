// A network interface through libpcap: whole Ethernet frames in and out. Immediate mode, because the default
// batches for a millisecond; promiscuous; the interface's own outgoing frames are not seen again. Needs
// CAP_NET_RAW.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/interface.h"

struct pcap;

namespace epic::io {

struct PcapPortCounters {
  uint64_t rx_dropped = 0;    // by the kernel: the receive ring was full
  uint64_t rx_too_long = 0;   // longer than the MTU allows: an offload (GRO, GSO) is on
  uint64_t tx_no_buffer = 0;  // the kernel had no room, and the queue for it was full as well
  uint64_t tx_too_long = 0;   // longer than the MTU of the interface
  uint64_t tx_failed = 0;     // other errors, such as an interface that is down
};

class PcapPort {
 public:
  // Opens the interface; ring_bytes of unswappable kernel memory receive its frames. With the interface's
  // name: NOT_FOUND, UNAVAILABLE (it is down), PERMISSION_DENIED, INVALID_ARGUMENT (not Ethernet) or
  // INTERNAL.
  static StatusOr<std::unique_ptr<PcapPort>> Open(const std::string& interface, size_t ring_bytes);
  ~PcapPort();
  PcapPort(const PcapPort&) = delete;
  PcapPort& operator=(const PcapPort&) = delete;

  // For epoll; readable also when the interface has gone.
  int fd() const { return fd_; }

  using FrameHandler = void (*)(void* user, std::span<const uint8_t> frame);
  // Hands over at most max_frames frames that have arrived; each is valid only during the call. Returns their
  // number. UNAVAILABLE: the interface is gone; the port is of no more use.
  StatusOr<int> Receive(int max_frames, FrameHandler handler, void* user);

  // Queues a copy; it leaves at Flush, or earlier if many are queued. In order. What cannot be sent is
  // counted.
  void Send(std::span<const uint8_t> frame);
  // Neither waits: a port that is slower than what is sent to it must not hold up the others. What the kernel
  // has no room for stays queued, and Flush does nothing, until Resume finds that there is room: call it when
  // the descriptor is writable.
  void Flush();
  void Resume();
  // The kernel had no room, and frames are queued for Resume.
  bool waiting() const { return waiting_; }

  // The MTU that the interface had when it was opened.
  uint32_t mtu() const { return mtu_; }

  // Reads the kernel's drop counter, so not for every packet.
  PcapPortCounters counters();

 private:
  static constexpr size_t kBatchFrames = 32;
  // Two windows of 64 packets of 4096 bytes: as much as a group sends to one endpoint at once, twice.
  static constexpr size_t kMaxWaitingBytes = 576 * 1024;
  static constexpr size_t kMaxWaitingFrames = 1024;

  PcapPort(pcap* handle, uint32_t mtu);
  size_t SendBatch(size_t first);
  void DropFirst(size_t frames);

  pcap* handle_;
  int fd_;
  uint32_t mtu_;
  size_t max_frame_bytes_;
  PcapPortCounters counters_;
  std::vector<uint8_t> queue_;      // frames one after another
  std::vector<size_t> queue_ends_;  // where each ends
  bool waiting_ = false;
};

}  // namespace epic::io
