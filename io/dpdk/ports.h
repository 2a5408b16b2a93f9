// Devices of DPDK's as the ports of a process.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/dpdk/device.h"
#include "io/dpdk/ethdev.h"
#include "io/dpdk_ports.h"
#include "io/port_source.h"

namespace epic::io::dpdk {

class DpdkPorts final : public PortSource {
 public:
  // Starts DPDK, once in a process. As LoadDpdkPorts.
  static StatusOr<std::unique_ptr<PortSource>> Make(const DpdkOptions& options);

  bool Has(const std::string& name) const override { return ports_.contains(name); }
  std::string Wrong(const std::string& name) override;
  StatusOr<std::unique_ptr<FramePort>> Open(const PortRequest& request) override;
  InterfaceState State(const std::string& name) override;
  std::optional<uint32_t> TimesDown(const std::string& name) override;
  uint32_t RateMbps(const std::string& name) override;
  std::string Describe(const std::string& name, bool single_frames) override;

 private:
  struct Port {
    Device device;
    std::unique_ptr<Ethdev> ethdev;  // from the first time that it is opened
  };

  explicit DpdkPorts(const DpdkOptions& options) : options_(options) {}
  // Nobody is at the socket that this server is to listen at.
  Status ClaimSocket(const Device& device) const;

  const DpdkOptions options_;
  std::map<std::string, Port> ports_;
};

}  // namespace epic::io::dpdk
