// Which devices there are, and what they are called.
#pragma once

#include <memory>
#include <vector>

#include "softnic/verbs/abi.h"

namespace epic::softnic {

// EPIC_SOFTNIC_DEVICES, or without it every interface that is up, has an IPv4 address and is not loopback.
// The variable lists interfaces with commas between, each with a name of the device in front if need be:
// "eth0,rdma1=eth1,lo". Without a name it is "softnic_eth0". Entries that cannot be had are told on stderr.
std::vector<std::unique_ptr<Device>> ListDevices();

// The largest RoCE path MTU that the interface's frames hold, as rdma_rxe reckons it: 80 bytes for headers.
uint32_t PathMtuOf(const Device& device);

}  // namespace epic::softnic
