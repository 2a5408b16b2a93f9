// What a port's device is asked for with, and what of it can be seen to be wrong before DPDK is told of it.
// Nothing here needs DPDK.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "io/dpdk_ports.h"

namespace epic::io::dpdk {

// Bytes of a frame of this MTU, with a VLAN tag.
constexpr size_t MaxFrameBytes(uint32_t mtu) { return size_t{mtu} + 14 + 4; }

// Room in the buffers of received frames, and of those that are sent. Between the two is what memif is told
// to be a buffer's size (bsize): then its driver looks at the room of each buffer that it copies into, its
// own and the peer's. Where bsize is at most the one, or at least the other, it does not.
constexpr size_t ReceiveRoom(uint32_t mtu) { return (MaxFrameBytes(mtu) + 63) / 64 * 64; }
constexpr size_t MemifRoom(uint32_t mtu) { return ReceiveRoom(mtu) + 32; }
constexpr size_t SendRoom(uint32_t mtu) { return ReceiveRoom(mtu) + 64; }

struct Device {
  std::string port;       // the name that the operator gave
  std::string name;       // as DPDK knows it
  std::string arguments;  // behind the name: empty, or with a comma before each
  bool pci = false;
  // Of net_memif.
  bool memif = false;
  bool server = false;
  std::string socket;
  bool abstract = false;  // its socket is no file
};

// INVALID_ARGUMENT with the port's name. What an operator does not say of net_memif is role=server,
// socket-abstract=no, and a size of its buffers that fits the MTU.
StatusOr<Device> ParseDevice(const PortDevice& port, uint32_t mtu);

// What is wrong with a PCI device, and its cure; empty if nothing is, or it is none. `sysfs` is where the
// kernel shows devices, /sys/bus/pci/devices.
std::string WrongPciDevice(const Device& device, const std::string& sysfs);

}  // namespace epic::io::dpdk
