// Echoes to the switch's own address: ICMP echo (RFC 792), so that operators can ping it, and UDP echo (RFC
// 862), by which neighbouring switches and ranks find out whether it still lives (probe.h,
// commlib/echo_probe.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace epic::engine {

inline constexpr uint16_t kUdpEchoPort = 7;

// Makes *reply the answer to an echo request to `address` in an Ethernet frame (tagged or not). False, and
// *reply is unspecified, if the frame is anything else: fragments and requests with IP options are not
// answered, nor UDP requests from ports below 1024, where another echo server may sit.
bool EchoReply(std::span<const uint8_t> frame, Ipv4 address, std::vector<uint8_t>* reply);

}  // namespace epic::engine
