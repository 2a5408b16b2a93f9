// The RoCE ports of this host: what verbs say of each.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"

namespace epic::verbs {

// An active port with an IPv4 RoCE v2 GID.
struct Port {
  std::string device;  // "rxe0"
  uint8_t number = 0;  // of the device's ports, from 1 on
  uint8_t gid_index = 0;
  Ipv4 ip{};                  // of the GID
  std::string ifname;         // the network device of the GID
  uint32_t max_path_mtu = 0;  // bytes
  uint32_t rate_mbps = 0;     // as the device states it; 0 if it states none
};

// Of RoCE v2 over IPv4: ::ffff:10.0.0.1. Of a group's address too.
ibv_gid GidOf(Ipv4 ip);

// Those of an open device, in the order of its GIDs: a port for each such GID.
std::vector<Port> PortsOf(ibv_context* context);

// Those of all devices.
std::vector<Port> AllPorts();

}  // namespace epic::verbs
