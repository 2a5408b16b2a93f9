// An IP address of either version, as a queue pair has one: its GID, by another name. IPv4 is the short case,
// one word that is compared and copied as such; IPv6 addresses that only stand for an IPv4 one
// (::ffff:0:0/96) are that one.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace epic {

class Ip {
 public:
  static constexpr size_t kBytes = 16;

  constexpr Ip() = default;  // 0.0.0.0
  // Implicit: whoever speaks IPv4 only, as switches and the host library do, need not know of the other.
  constexpr Ip(Ipv4 ip) : low_(Raw(ip)) {}

  // Of 16 bytes in network order, as in an IPv6 header or a GID.
  static constexpr Ip Of(const uint8_t* bytes) {
    Ip ip;
    for (size_t i = 0; i < 8; ++i) ip.high_ = ip.high_ << 8 | bytes[i];
    for (size_t i = 8; i < kBytes; ++i) ip.low_ = ip.low_ << 8 | bytes[i];
    ip.low_ ^= kMapped;
    return ip;
  }
  constexpr std::array<uint8_t, kBytes> bytes() const {
    std::array<uint8_t, kBytes> out{};
    const uint64_t low = low_ ^ kMapped;
    for (size_t i = 0; i < 8; ++i) {
      out[i] = static_cast<uint8_t>(high_ >> (56 - 8 * i));
      out[8 + i] = static_cast<uint8_t>(low >> (56 - 8 * i));
    }
    return out;
  }

  constexpr bool is_v4() const { return high_ == 0 && low_ >> 32 == 0; }
  // Only if is_v4().
  constexpr Ipv4 v4() const { return Ipv4{static_cast<uint32_t>(low_)}; }

  // 224.0.0.0/4 (RFC 1112) or ff00::/8 (RFC 4291, 2.7).
  constexpr bool is_multicast() const { return is_v4() ? low_ >> 28 == 0xe : high_ >> 56 == 0xff; }
  // fe80::/10: means something on one link only (RFC 4291, 2.5.6).
  constexpr bool is_link_local() const { return high_ >> 54 == 0x3fa; }

  friend constexpr bool operator==(const Ip&, const Ip&) = default;
  friend constexpr auto operator<=>(const Ip&, const Ip&) = default;

 private:
  // Kept inverted: then an IPv4 address is its own number, and what is all zero is 0.0.0.0.
  static constexpr uint64_t kMapped = 0x0000ffff'00000000;

  uint64_t high_ = 0, low_ = 0;
};

}  // namespace epic
