// This host's RoCE ports, as its daemon registers them.
#pragma once

#include "proto/manager.pb.h"

namespace epic::host {

// Fills in `ports`: every active RoCE port with an IPv4 GID, with the MAC of its network device.
void ReadPorts(proto::HostInfo* info);

}  // namespace epic::host
