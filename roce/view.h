// Ethernet, ARP, IPv4 and UDP headers in two levels. A *View* is made by Of() from any bytes: Of() checks
// once that the header lies within them, and the accessors then read without checks. A *Header* is the same
// as a plain value, which Write() turns into bytes. Views borrow their bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "roce/packet.h"
#include "roce/wire.h"

namespace epic::roce {

using Bytes = std::span<const uint8_t>;

inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeArp = 0x0806;
inline constexpr uint16_t kEtherTypeVlan = 0x8100;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86dd;
inline constexpr uint8_t kIpProtocolUdp = 17;

// Ethernet with at most one 802.1Q tag. A second tag shows as an ether_type of kEtherTypeVlan.
class EthernetView {
 public:
  static constexpr size_t kBytes = 14;
  static constexpr size_t kTagBytes = 4;

  static std::optional<EthernetView> Of(Bytes frame) {
    if (frame.size() < kBytes) return std::nullopt;
    const bool tagged = LoadBe16(&frame[12]) == kEtherTypeVlan;
    if (tagged && frame.size() < kBytes + kTagBytes) return std::nullopt;
    return EthernetView(frame, tagged);
  }

  MacAddress dst() const { return Mac(0); }
  MacAddress src() const { return Mac(6); }
  // Tag control information: priority, DEI and VLAN id.
  std::optional<uint16_t> vlan() const {
    return tagged_ ? std::optional<uint16_t>(LoadBe16(&frame_[14])) : std::nullopt;
  }
  uint16_t ether_type() const { return LoadBe16(&frame_[header_bytes() - 2]); }
  size_t header_bytes() const { return tagged_ ? kBytes + kTagBytes : kBytes; }
  Bytes payload() const { return frame_.subspan(header_bytes()); }

 private:
  EthernetView(Bytes frame, bool tagged) : frame_(frame), tagged_(tagged) {}
  MacAddress Mac(size_t at) const {
    MacAddress mac;
    std::copy_n(&frame_[at], mac.size(), mac.begin());
    return mac;
  }

  Bytes frame_;
  bool tagged_;
};

struct EthernetHeader {
  MacAddress dst{};
  MacAddress src{};
  std::optional<uint16_t> vlan;
  uint16_t ether_type = 0;

  size_t header_bytes() const { return EthernetView::kBytes + (vlan ? EthernetView::kTagBytes : 0); }
  // out: at least header_bytes().
  void Write(uint8_t* out) const {
    std::copy(dst.begin(), dst.end(), out);
    std::copy(src.begin(), src.end(), out + 6);
    if (vlan) {
      StoreBe16(kEtherTypeVlan, out + 12);
      StoreBe16(*vlan, out + 14);
    }
    StoreBe16(ether_type, out + header_bytes() - 2);
  }
};

// ARP for IPv4 over Ethernet. Of() also checks that it is that kind; the operation can be anything.
class ArpView {
 public:
  static constexpr size_t kBytes = 28;

  static std::optional<ArpView> Of(Bytes packet) {
    if (packet.size() < kBytes) return std::nullopt;
    if (LoadBe32(packet.data()) != kEthernetAndIpv4 || LoadBe16(&packet[4]) != kLengths) return std::nullopt;
    return ArpView(packet);
  }
  // Writes the fields that never change.
  static void WriteKind(uint8_t* out) {
    StoreBe32(kEthernetAndIpv4, out);
    StoreBe16(kLengths, out + 4);
  }

  uint16_t op() const { return LoadBe16(&packet_[6]); }
  MacAddress sender_mac() const { return Mac(8); }
  Ipv4 sender_ip() const { return Ipv4{LoadBe32(&packet_[14])}; }
  MacAddress target_mac() const { return Mac(18); }
  Ipv4 target_ip() const { return Ipv4{LoadBe32(&packet_[24])}; }

 private:
  static constexpr uint32_t kEthernetAndIpv4 = 0x0001'0800;  // hardware type 1, protocol type IPv4
  static constexpr uint16_t kLengths = 0x0604;               // 6 and 4 bytes of address

  explicit ArpView(Bytes packet) : packet_(packet) {}
  MacAddress Mac(size_t at) const {
    MacAddress mac;
    std::copy_n(&packet_[at], mac.size(), mac.begin());
    return mac;
  }

  Bytes packet_;
};

// The Internet checksum (RFC 1071) of a header of an even number of bytes: 0 for one whose checksum field is
// right.
uint16_t InternetChecksum(Bytes header);

// IPv4. Of() checks version and header length; total_length can be anything.
class Ipv4View {
 public:
  static constexpr size_t kBytes = 20;  // without options

  static std::optional<Ipv4View> Of(Bytes packet) {
    if (packet.size() < kBytes || packet[0] >> 4 != 4) return std::nullopt;
    const Ipv4View view(packet);
    if (view.header_bytes() < kBytes || view.header_bytes() > packet.size()) return std::nullopt;
    return view;
  }

  size_t header_bytes() const { return static_cast<size_t>(packet_[0] & 0x0f) * 4; }
  uint8_t tos() const { return packet_[1]; }
  size_t total_length() const { return LoadBe16(&packet_[2]); }
  uint16_t id() const { return LoadBe16(&packet_[4]); }
  bool more_fragments() const { return (packet_[6] & 0x20) != 0; }
  uint16_t fragment_offset() const { return LoadBe16(&packet_[6]) & 0x1fff; }  // in units of 8 bytes
  uint8_t ttl() const { return packet_[8]; }
  uint8_t protocol() const { return packet_[9]; }
  bool checksum_ok() const { return InternetChecksum(packet_.first(header_bytes())) == 0; }
  Ipv4 src() const { return Ipv4{LoadBe32(&packet_[12])}; }
  Ipv4 dst() const { return Ipv4{LoadBe32(&packet_[16])}; }
  // All bytes after the header, Ethernet padding included.
  Bytes payload() const { return packet_.subspan(header_bytes()); }

 private:
  explicit Ipv4View(Bytes packet) : packet_(packet) {}
  Bytes packet_;
};

// An IPv4 header without options and fragments; "don't fragment" is set.
struct Ipv4Header {
  uint8_t tos = 0;
  uint16_t total_length = 0;
  uint16_t id = 0;
  uint8_t ttl = 64;
  uint8_t protocol = kIpProtocolUdp;
  Ipv4 src{};
  Ipv4 dst{};

  // With the checksum. out: at least Ipv4View::kBytes.
  void Write(uint8_t* out) const;
};

class UdpView {
 public:
  static constexpr size_t kBytes = 8;

  static std::optional<UdpView> Of(Bytes datagram) {
    if (datagram.size() < kBytes) return std::nullopt;
    return UdpView(datagram);
  }

  uint16_t src_port() const { return LoadBe16(datagram_.data()); }
  uint16_t dst_port() const { return LoadBe16(&datagram_[2]); }
  size_t length() const { return LoadBe16(&datagram_[4]); }  // header included
  // All bytes after the header, whatever length() says.
  Bytes payload() const { return datagram_.subspan(kBytes); }

 private:
  explicit UdpView(Bytes datagram) : datagram_(datagram) {}
  Bytes datagram_;
};

// A UDP header with checksum 0, "none": RoCEv2 relies on the ICRC.
struct UdpHeader {
  uint16_t src_port = 0;
  uint16_t dst_port = 0;
  uint16_t length = 0;  // header included

  // out: at least UdpView::kBytes.
  void Write(uint8_t* out) const {
    StoreBe16(src_port, out);
    StoreBe16(dst_port, out + 2);
    StoreBe16(length, out + 4);
    StoreBe16(0, out + 6);
  }
};

}  // namespace epic::roce
