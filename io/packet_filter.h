// Which frames a packet socket receives, as classic BPF programs for SO_ATTACH_FILTER. Nothing here opens a
// socket.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <span>
#include <vector>

namespace epic::io {

// Frames of a length between these, their Ethernet header included.
struct FrameLengths {
  uint32_t min_bytes = 0;
  uint32_t max_bytes = UINT32_MAX;
};

struct FilterOptions {
  uint16_t udp_port = 0;
  bool arp_replies = false;
  FrameLengths lengths;
};

// Passes whole IPv4 datagrams (no fragments) to the UDP port whose InfiniBand destination QPN has one of the
// blocks in its upper 16 bits, or is the multicast QPN; and ARP replies, if they are asked for. For at most
// kMaxFilterBlocks blocks.
std::vector<sock_filter> RoceFilter(const FilterOptions& options, std::span<const uint16_t> qpn_blocks);
inline constexpr size_t kMaxFilterBlocks = 256;

// Passes every frame of these lengths.
std::vector<sock_filter> LengthFilter(const FrameLengths& lengths);

// Passes nothing.
std::vector<sock_filter> EmptyFilter();

}  // namespace epic::io
