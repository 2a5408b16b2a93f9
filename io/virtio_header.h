// What stands before each frame on a packet socket with PACKET_VNET_HDR: struct virtio_net_hdr of the virtio
// specification 1.2, 5.1.6. Written out here, since <linux/virtio_net.h> is no C++, and lacks UDP in
// Debian 12.
#pragma once

#include <cstdint>

namespace epic::io {

struct VirtioHeader {
  uint8_t flags = 0;
  uint8_t gso_type = 0;
  uint16_t hdr_len = 0;   // bytes of headers; the kernel keeps at least these in one piece
  uint16_t gso_size = 0;  // payload bytes of each segment but the last
  uint16_t csum_start = 0, csum_offset = 0;
};
static_assert(sizeof(VirtioHeader) == 10);

inline constexpr uint8_t kVirtioNeedsChecksum = 1;  // flags
inline constexpr uint8_t kVirtioNoSegments = 0;     // gso_type
inline constexpr uint8_t kVirtioUdpSegments = 5;

}  // namespace epic::io
