// DPDK's own start in this process (EAL), and what it says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/dpdk/device.h"
#include "io/dpdk_ports.h"

namespace epic::io::dpdk {

// How DPDK is started: what the operator does not say in options.eal_arguments is that this process is alone
// (no files, no other process), on one core of its own, sees the PCI devices that are ports and no others,
// and takes huge pages if so many bytes of them are free, else `bytes` of ordinary memory.
std::vector<std::string> EalArguments(const DpdkOptions& options, const std::vector<Device>& devices,
                                      uint64_t bytes, bool huge_pages);

// Bytes of huge pages that are free, as the kernel shows them in this folder, /sys/kernel/mm/hugepages.
uint64_t FreeHugePages(const std::string& sysfs);

// Starts it; the calling thread keeps its processors. INVALID_ARGUMENT with what DPDK said.
Status StartEal(const DpdkOptions& options, const std::vector<Device>& devices, uint64_t bytes);

// While one lives, what DPDK says is for debugging only, and its first error is kept: for what is tried.
class Quietly {
 public:
  Quietly();
  ~Quietly();
  Quietly(const Quietly&) = delete;
  Quietly& operator=(const Quietly&) = delete;

  // What DPDK said first that was an error; or `otherwise`.
  std::string Why(const std::string& otherwise) const;
};

// Makes the calling thread known to DPDK, if it is not yet: its buffers then come from a store of its own.
void RegisterThread();

}  // namespace epic::io::dpdk
