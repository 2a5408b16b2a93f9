// Devices that the kernel does not know, as a network to open ports on. They are DPDK's (io/dpdk_ports.h),
// whose module is loaded when the first is opened.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/dpdk_ports.h"
#include "softnic/port/device_address.h"
#include "softnic/port/port.h"

namespace epic::softnic {

class DeviceNetwork final : public Network {
 public:
  struct Device {
    std::string name;    // here, and no other's
    std::string device;  // as io::PortDevice has it
    DeviceAddress address;
  };

  // All that this process may open: DPDK is told of them once. `folders`: where its module is looked for.
  DeviceNetwork(const std::vector<Device>& devices, std::vector<std::string> folders);
  ~DeviceNetwork() override;

  // In the order in which they were asked for, with the address that each was given; they have no index.
  std::vector<io::AddressedInterface> Interfaces() override;
  // Up only while it is open.
  io::InterfaceState State(const io::AddressedInterface& interface) override;
  // UNAVAILABLE also if this process has opened it already.
  StatusOr<std::unique_ptr<Port>> Open(const io::AddressedInterface& interface) override;

 private:
  struct Entry;
  class Opened;
  Entry* Find(const std::string& name);
  Status Load();

  const std::vector<std::string> folders_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::mutex mutex_;  // of the source
  std::unique_ptr<io::PortSource> source_;
};

}  // namespace epic::softnic
