// The kernel's network interfaces as ports: those that carry super-frames (io/offloads.h) by packet sockets,
// others by libpcap.
#pragma once

#include "io/port_source.h"

namespace epic::io {

class KernelPorts final : public PortSource {
 public:
  bool Has(const std::string&) const override { return true; }
  std::string Wrong(const std::string& name) override;
  StatusOr<std::unique_ptr<FramePort>> Open(const PortRequest& request) override;
  InterfaceState State(const std::string& name) override { return ReadInterface(name); }
  std::optional<uint32_t> TimesDown(const std::string& name) override { return ReadTimesDown(name); }
  uint32_t RateMbps(const std::string& name) override { return ReadRateMbps(name); }
  std::string Describe(const std::string& name, bool single_frames) override;
};

}  // namespace epic::io
