// A network interface or device as a place where Ethernet frames come from and go to, however the kernel, or
// a driver in this process, is asked for them. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "io/port_counters.h"
#include "io/port_sender.h"

namespace epic::io {

// A frame that has arrived.
struct ReceivedFrame {
  std::span<const uint8_t> bytes;
  size_t segment_bytes = 0;  // of a UDP super-frame: of all its packets but the last (gso_size); else 0
};

class FramePort {
 public:
  virtual ~FramePort() = default;
  FramePort(const FramePort&) = delete;
  FramePort& operator=(const FramePort&) = delete;

  // For epoll; readable also when the interface has gone. The first is writable when the sender's Resume may
  // be called, but for a port that is polled.
  virtual std::vector<int> fds() const = 0;
  // What comes makes no descriptor readable: Receive is called again and again, and with it Resume.
  virtual bool polled() const { return false; }
  // Of a port that is polled, before its reader sleeps: whether one of its descriptors tells of what comes
  // from now on. Then it looks once more, and sleeps; else it sleeps shortly.
  virtual bool Arm() { return true; }

  using FrameHandler = void (*)(void* user, const ReceivedFrame& frame);
  // Hands over frames that have arrived, of at most max_packets packets, but at least one frame if there is
  // one. Returns the number of packets. UNAVAILABLE: the interface is gone; the port is of no more use.
  virtual StatusOr<int> Receive(int max_packets, FrameHandler handler, void* user) = 0;
  // Whether frames stay as they are until Release; otherwise each is valid only during the handler's call.
  virtual bool keeps_received() const = 0;
  // Nobody looks any more at what has been received. Once in a while, or the kernel runs out of room.
  virtual void Release() = 0;

  // The MTU that the interface had when it was opened.
  virtual uint32_t mtu() const = 0;
  // Super-frames are received, and leave as such.
  virtual bool super_frames() const = 0;

  PortSender& sender() { return *sender_; }

  // Reads the kernel's, or the driver's, drop counter, so not for every packet.
  PortCounters counters();

 protected:
  FramePort() = default;
  // The kernel's or driver's count of dropped frames since the port was opened.
  virtual uint64_t CountDropped() = 0;

  std::unique_ptr<PortSender> sender_;
  PortCounters received_;  // of what comes, but for what CountDropped says
};

}  // namespace epic::io
