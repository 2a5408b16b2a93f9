// What ports go by that look for the hardware addresses of others.
#pragma once

#include "base/ip.h"
#include "base/types.h"
#include "roce/packet.h"

namespace epic::softnic {

// A request without an answer is repeated after this; an answer holds for so long (Linux: 15 to 45 s).
inline constexpr Nanos kRepeat = 250 * kMillisecond;
inline constexpr Nanos kValid = 30 * kSecond;

// Of a group of either version (RFC 1112, section 6.4; RFC 2464, section 7).
inline roce::MacAddress MulticastMac(Ip group) {
  const auto ip = group.bytes();
  if (group.is_v4()) return {0x01, 0x00, 0x5e, static_cast<uint8_t>(ip[13] & 0x7f), ip[14], ip[15]};
  return {0x33, 0x33, ip[12], ip[13], ip[14], ip[15]};
}

}  // namespace epic::softnic
