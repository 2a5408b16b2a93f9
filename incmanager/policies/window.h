// Sizes of a group: message (M), window (W) and slots (N), from the rate and delay of its tree. A pure
// function.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "incmanager/failure.h"

namespace epic::manager {

inline constexpr uint32_t kDefaultMessagePackets = 8;

struct WindowRequest {
  uint32_t path_mtu = 0;         // bytes
  double rate_gbps = 0;          // of the slowest link of the tree
  double round_trip_us = 0;      // host to root and back, on links
  uint32_t crossings = 0;        // of switches on that way
  uint32_t window_packets = 64;  // upper bound of M*W
  uint32_t nic_packets = 0;      // what the weakest NIC can have unacknowledged; 0 if unknown
  uint32_t message_packets = 0;  // M as wished; 0: the policy's choice
  uint32_t window_messages = 0;  // W as wished; 0: the policy's choice
};

struct Window {
  uint32_t message_packets = 0;  // M
  uint32_t window_messages = 0;  // W
  uint32_t slots = 0;  // N: the next power of two that is at least 2MW (docs/PROTOCOL.md, section 4)
  std::string reason;  // how W came about, for people
};

// Twice the bandwidth-delay product, between 16 packets and the bound. Errors: kInvalidArgument if the wished
// M and W exceed the bound.
std::variant<Window, Failure> ChooseWindow(const WindowRequest& request);

}  // namespace epic::manager
