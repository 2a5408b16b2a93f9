// A network interface through libpcap: whole Ethernet frames in and out. Immediate mode, because the default
// batches for a millisecond; promiscuous; the interface's own outgoing frames are not seen again. Needs
// CAP_NET_RAW.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/frame_port.h"
#include "io/packet_filter.h"

struct pcap;

namespace epic::io {

class PcapPort final : public FramePort {
 public:
  // Opens the interface; ring_bytes of unswappable kernel memory receive its frames, or those of the shard.
  // With the interface's name: NOT_FOUND, UNAVAILABLE (it is down), PERMISSION_DENIED, INVALID_ARGUMENT (not
  // Ethernet) or INTERNAL.
  static StatusOr<std::unique_ptr<PcapPort>> Open(const std::string& interface, size_t ring_bytes,
                                                  const std::optional<FrameShard>& shard = {});
  ~PcapPort() override;

  std::vector<int> fds() const override { return {fd_}; }
  StatusOr<int> Receive(int max_packets, FrameHandler handler, void* user) override;
  bool keeps_received() const override { return false; }
  void Release() override {}
  uint32_t mtu() const override { return mtu_; }
  bool super_frames() const override { return false; }

 protected:
  uint64_t CountDropped() override;

 private:
  PcapPort(pcap* handle, uint32_t mtu);

  pcap* handle_;
  int fd_;
  uint32_t mtu_;
  size_t max_frame_bytes_;
};

}  // namespace epic::io
