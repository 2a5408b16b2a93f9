// Devices that DPDK drives, as ports. What speaks to DPDK is in a module of its own, io/dpdk, that is loaded
// when somebody asks for it: nobody else needs DPDK, where it is built or where it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/port_source.h"

namespace epic::io {

// One device: a PCI address ("0000:3b:00.0"), or a virtual one and its arguments, as DPDK's --vdev has them
// ("net_memif0,socket=/run/epic/swp1.sock").
struct PortDevice {
  std::string name;  // of the port
  std::string device;
};

struct DpdkOptions {
  std::vector<PortDevice> devices;
  std::string eal_arguments;  // for DPDK's own start, with blanks between
  // Of the ports, where the device carries so much.
  uint32_t mtu = 0;
  // Hears what DPDK and the ports have to say, a line at a time, from any thread. Outlives the ports.
  enum class Level : uint8_t { kDebug, kInfo, kWarning, kError };
  std::function<void(Level level, const std::string& line)> say;
};

// What the module exports: *made is what LoadDpdkPorts returns.
using MakeDpdkPorts = void (*)(const DpdkOptions& options, StatusOr<std::unique_ptr<PortSource>>* made);
inline constexpr const char* kMakeDpdkPorts = "EpicMakeDpdkPorts";
inline constexpr const char* kDpdkModule = "epic_io_dpdk.so";

// Loads the module, from the first of these folders that has it, and starts DPDK: once in a process.
// NOT_FOUND: the module, or DPDK, is not there; INVALID_ARGUMENT: DPDK does not start so. The message says
// what cures it.
StatusOr<std::unique_ptr<PortSource>> LoadDpdkPorts(const std::vector<std::string>& folders,
                                                    const DpdkOptions& options);

}  // namespace epic::io
