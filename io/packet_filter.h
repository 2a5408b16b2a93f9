// Which frames a packet socket receives, as classic BPF programs for SO_ATTACH_FILTER. Nothing here opens a
// socket.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <span>
#include <vector>

namespace epic::io {

struct FilterOptions {
  uint16_t udp_port = 0;
  bool arp_replies = false;
};

// Passes whole IPv4 datagrams (no fragments) to the UDP port whose InfiniBand destination QPN has one of the
// blocks in its upper 16 bits, or is the multicast QPN; and ARP replies, if they are asked for. For at most
// kMaxFilterBlocks blocks.
std::vector<sock_filter> RoceFilter(const FilterOptions& options, std::span<const uint16_t> qpn_blocks);
inline constexpr size_t kMaxFilterBlocks = 256;

// Passes nothing.
std::vector<sock_filter> EmptyFilter();

}  // namespace epic::io
