// The IPv6 header (RFC 8200, section 3) in two levels, as view.h has the others. No extension headers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/ip.h"
#include "roce/view.h"
#include "roce/wire.h"

namespace epic::roce {

// Of() checks the version; payload_length can be anything.
class Ipv6View {
 public:
  static constexpr size_t kBytes = 40;

  static std::optional<Ipv6View> Of(Bytes packet) {
    if (packet.size() < kBytes || packet[0] >> 4 != 6) return std::nullopt;
    return Ipv6View(packet);
  }

  uint8_t traffic_class() const { return static_cast<uint8_t>(LoadBe16(packet_.data()) >> 4); }
  uint32_t flow_label() const { return LoadBe32(packet_.data()) & 0xfffff; }
  size_t payload_length() const { return LoadBe16(&packet_[4]); }  // without this header
  uint8_t next_header() const { return packet_[6]; }
  uint8_t hop_limit() const { return packet_[7]; }
  Ip src() const { return Ip::Of(&packet_[8]); }
  Ip dst() const { return Ip::Of(&packet_[24]); }
  // All bytes after the header, Ethernet padding included.
  Bytes payload() const { return packet_.subspan(kBytes); }

 private:
  explicit Ipv6View(Bytes packet) : packet_(packet) {}
  Bytes packet_;
};

struct Ipv6Header {
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;  // 20 bits
  uint16_t payload_length = 0;
  uint8_t next_header = kIpProtocolUdp;
  uint8_t hop_limit = 64;
  Ip src, dst;

  // out: at least Ipv6View::kBytes.
  void Write(uint8_t* out) const {
    StoreBe32(6u << 28 | uint32_t{traffic_class} << 20 | (flow_label & 0xfffff), out);
    StoreBe16(payload_length, out + 4);
    out[6] = next_header;
    out[7] = hop_limit;
    std::ranges::copy(src.bytes(), out + 8);
    std::ranges::copy(dst.bytes(), out + 24);
  }
};

}  // namespace epic::roce
