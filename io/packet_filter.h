// Which frames a packet socket receives, as classic BPF programs for SO_ATTACH_FILTER. Nothing here opens a
// socket.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "roce/packet.h"

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

// Passes whole IPv4 and IPv6 datagrams (no fragments) to the UDP port whose InfiniBand destination QPN has
// one of the blocks in its upper 16 bits, or is the multicast QPN; and ARP replies, if they are asked for.
// For at most kMaxFilterBlocks blocks.
std::vector<sock_filter> RoceFilter(const FilterOptions& options, std::span<const uint16_t> qpn_blocks);
inline constexpr size_t kMaxFilterBlocks = 256;

// Passes every frame of these lengths.
std::vector<sock_filter> LengthFilter(const FrameLengths& lengths);

// One of `count` sockets at which the same frames arrive, and of which exactly one is to take each frame.
struct FrameShard {
  uint32_t number = 0;  // below count
  uint32_t count = 1;
  // Of the switch whose RoCE packets are shared out.
  roce::MacAddress mac{};
  Ipv4 address{};
};

// The shard, of so many, that RoCE packets to a queue pair belong to.
constexpr uint32_t ShardOf(Qpn qpn, uint32_t count) { return (Raw(qpn) & 0xff) % count; }

// Passes, of the frames of these lengths, those of this shard. Whole IPv4 datagrams (no fragments) to RoCE's
// UDP port and the switch's two addresses, untagged or with a priority tag, belong to ShardOf their
// destination QPN; of a super-frame that of the first packet. All other frames belong to shard 0.
std::vector<sock_filter> ShardFilter(const FrameShard& shard, const FrameLengths& lengths);

// Passes nothing.
std::vector<sock_filter> EmptyFilter();

// From now on the socket receives only what the program passes. False, and errno.
bool AttachFilter(int fd, std::vector<sock_filter> program);

}  // namespace epic::io
