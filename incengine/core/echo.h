// ICMP echo (RFC 792) to the switch's own address, so that operators can ping it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace epic::engine {

// Makes *reply the answer to an echo request to `address` in an Ethernet frame (tagged or not). False, and
// *reply is unspecified, if the frame is anything else: fragments and requests with IP options are not
// answered.
bool EchoReply(std::span<const uint8_t> frame, Ipv4 address, std::vector<uint8_t>* reply);

}  // namespace epic::engine
