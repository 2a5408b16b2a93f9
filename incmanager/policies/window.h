// Sizes of a group: message (M), window (W) and slots (N), from the rate and delay of its tree, and the send
// window that ranks begin with. A pure function.
#pragma once

#include <cstdint>
#include <string>

#include "incmanager/result.h"

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
  uint64_t max_bytes = 0;        // of the longest call that the group is for; 0: of any length
  uint64_t inline_bytes = 0;     // calls of so many bytes are one message
};

struct Window {
  uint32_t message_packets = 0;  // M
  uint32_t window_messages = 0;  // W, the bound of what ranks use
  uint32_t start_messages = 0;   // what they begin with; 0: W, for ever, since it was wished
  uint32_t slots = 0;            // N: the next power of two that is at least twice the window to begin with
                                 // (docs/PROTOCOL.md, section 4)
  std::string reason;            // how the window to begin with came about, for people
};

// To begin with twice the bandwidth-delay product, between 16 packets and what may be in flight, and no more
// than the longest call has; W is as much
// more as these slots take, 2MW <= N, and as may be in flight. Errors: kInvalidArgument if the wished M and W
// exceed that.
Result<Window> ChooseWindow(const WindowRequest& request);

}  // namespace epic::manager
