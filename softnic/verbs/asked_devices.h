// The devices that EPIC_SOFTNIC_DEVICES asks for, as words: interfaces of the kernel, and devices that it
// does not know.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "softnic/port/device_address.h"

namespace epic::softnic {

struct AskedDevice {
  std::string name;       // of the device; empty: after the interface
  std::string interface;  // of the kernel's; empty: it is none
  std::string device;     // as PortDevice has it, if it is none
  DeviceAddress address;  // of one that is none
};

// "eth0,rdma1=eth1,rdma2=memif:/run/epic/h0.sock,ip=10.0.0.7/16,mac=02:00:00:00:00:07": with commas between.
// What a device is that is no interface stands behind its name: memif:SOCKET, virtio-user:SOCKET or
// pci:ADDRESS. Behind it are ip=ADDRESS/BITS, which it needs, mac=, without which it is 02:e1 and the
// address, gateway=, and of a memif role= (a client without it), id=, secret=, rsize= and socket-abstract=,
// as DPDK has them. Empty entries count for nothing. INVALID_ARGUMENT quotes the entry.
std::vector<StatusOr<AskedDevice>> ParseAskedDevices(std::string_view text);

}  // namespace epic::softnic
