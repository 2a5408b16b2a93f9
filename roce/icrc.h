// The invariant CRC that ends every RoCEv2 packet (InfiniBand Architecture Specification 1.4, 7.8.1 and
// A17.3.3): the CRC-32 of Ethernet over eight bytes of ones (the place of a local route header), the IP
// header with type of service, time to live and checksum (IPv6: traffic class, flow label and hop limit) as
// ones, the UDP header with checksum as ones, the BTH with its fifth byte as ones, and everything after it up
// to the ICRC itself, which is stored little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace epic::roce {

inline constexpr size_t kIcrcBytes = 4;
// IPv4 header without options, UDP header and BTH: what an ICRC masks lies within these. And with IPv6,
// without extension headers.
inline constexpr size_t kIcrcHeaderBytes = 20 + 8 + 12;
inline constexpr size_t kIcrcIpv6HeaderBytes = 40 + 8 + 12;

// Which of them it is, by the version in the first byte.
constexpr size_t IcrcHeaderBytes(std::span<const uint8_t> ip_packet) {
  return ip_packet[0] >> 4 == 6 ? kIcrcIpv6HeaderBytes : kIcrcHeaderBytes;
}

// CRC-32 (polynomial 0xedb88320, as in zlib) of bytes that follow those whose CRC is `before`; 0 for none.
uint32_t Crc32(uint32_t before, std::span<const uint8_t> bytes);

// The CRC of the masked headers alone; go on with Crc32() over what follows the BTH. headers: IPv4 or IPv6,
// UDP and BTH, at least IcrcHeaderBytes, of which the first so many count.
uint32_t IcrcOfHeaders(std::span<const uint8_t> headers);

// The ICRC of an IPv4 packet without options, or an IPv6 packet without extension headers. ip_packet ends
// with the place of the ICRC, which is not read. At least IcrcHeaderBytes + kIcrcBytes long.
uint32_t Icrc(std::span<const uint8_t> ip_packet);

// Whether the last four bytes of ip_packet are its ICRC. False for what is too short to have one.
bool IcrcOk(std::span<const uint8_t> ip_packet);

// Joins CRCs: Join(crc(a), crc(b)) is crc(a then b), for every b of one fixed length. A CRC is linear over
// GF(2), so that appending n bytes multiplies by the constant x^(8n) mod P; the table turns that product into
// four look-ups. 4 KB: make one per payload length (at set-up, about 3 µs), not per packet.
class CrcShift {
 public:
  // bytes: the length of the second part.
  explicit CrcShift(size_t bytes);
  size_t bytes() const { return bytes_; }
  uint32_t Join(uint32_t first, uint32_t second) const {
    return table_[0][first & 0xff] ^ table_[1][first >> 8 & 0xff] ^ table_[2][first >> 16 & 0xff] ^
           table_[3][first >> 24] ^ second;
  }

 private:
  size_t bytes_;
  std::array<std::array<uint32_t, 256>, 4> table_;
};

}  // namespace epic::roce
