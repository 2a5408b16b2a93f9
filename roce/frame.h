// A RoCEv2 packet in its Ethernet frame: the one place where bytes from the wire become a Packet, and back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "roce/icrc.h"
#include "roce/packet.h"

namespace epic::roce {

// What a frame says beside its Packet.
struct FrameAddress {
  MacAddress dst{};
  MacAddress src{};
  uint16_t ip_id = 0;            // IPv4 identification; the ICRC covers it. IPv6 has none
  std::optional<uint16_t> vlan;  // 802.1Q tag control information: priority (3 bits), DEI, VLAN id (12 bits)

  friend bool operator==(const FrameAddress&, const FrameAddress&) = default;
};

// Why a frame is not taken as a RoCEv2 packet. kNotRoce is anything else, such as ordinary traffic; the
// others, but for kTruncated of a frame too short to tell, are RoCEv2 packets (IPv4, UDP port 4791) that are
// broken or not spoken here.
enum class ParseResult : uint8_t {
  kOk,
  kNotRoce,
  kTruncated,    // the frame ends before the packet does
  kBadIpHeader,  // IP version or header length wrong, or IP options
  kBadIpChecksum,
  kFragment,
  kBadLength,  // the IP and UDP lengths disagree, or are too short for the opcode or too long without a
               // payload
  kBadTver,    // transport header version is not 0
  kUnknownOpcode,
  kBadPad,  // pad count with no payload to be padded, or the padded payload is not a multiple of 4 bytes
  kBadIcrc,
};
inline constexpr int kParseResults = static_cast<int>(ParseResult::kBadIcrc) + 1;

// The result in snake_case, as used in counters: "bad_icrc".
const char* Name(ParseResult result);

// Parses one Ethernet frame, with at most one 802.1Q tag. On kOk *address and *out are set, out->payload
// viewing the frame; otherwise both are unspecified. Bytes after the IP packet (Ethernet padding) are
// ignored. With check_icrc == false the ICRC is not looked at; the IPv4 checksum always is, the UDP checksum
// never (the ICRC does its work).
ParseResult ParseFrame(std::span<const uint8_t> frame, FrameAddress* address, Packet* out,
                       bool check_icrc = true);

// The same for a frame with IPv6 (annex A17: no extension headers), which to ParseFrame is kNotRoce: switches
// speak IPv4 and forward it. kBadIpHeader also if an address only stands for an IPv4 one. The UDP checksum is
// never looked at; 0, "none", is what rdma_rxe sends (RFC 6935).
ParseResult ParseIpv6Frame(std::span<const uint8_t> frame, FrameAddress* address, Packet* out,
                           bool check_icrc = true);

// Length of the whole frame: headers, payload, pad and ICRC; with vlan also the tag.
size_t FrameBytes(const Packet& packet, bool vlan = false);

// The longest frame over IPv4 with a payload of `payload` bytes, whatever the opcode: for sizing buffers.
// IPv6 takes kIpv6MoreBytes more.
constexpr size_t MaxFrameBytes(size_t payload) {
  return 14 + 4 + 20 + 8 + 12 + 28 + (payload + 3) / 4 * 4 + kIcrcBytes;
}

inline constexpr size_t kIpv6MoreBytes = 20;

// The CRC of a payload with its pad, for sending the same payload under several headers. shift.bytes() is the
// padded length; shift is borrowed.
struct PayloadCrc {
  const CrcShift* shift;
  uint32_t crc;
};

// A frame in pieces, for a sender that leaves the payload where it lies: head (Ethernet to extension
// headers), the packet's payload, tail (pad and ICRC), one after the other.
struct FramePieces {
  std::array<uint8_t, MaxFrameBytes(0) + kIpv6MoreBytes> head_bytes;
  size_t head_size = 0;
  std::span<const uint8_t> payload;  // borrowed, as in Packet
  std::array<uint8_t, 3 + kIcrcBytes> tail_bytes;
  size_t tail_size = 0;

  std::span<const uint8_t> head() const { return std::span(head_bytes).first(head_size); }
  std::span<const uint8_t> tail() const { return std::span(tail_bytes).first(tail_size); }
  size_t size() const { return head_size + payload.size() + tail_size; }
};

// In one piece.
std::vector<uint8_t> Join(const FramePieces& pieces);

// Serialises: Ethernet, IPv4 (DF, checksum) or IPv6 as the addresses are, UDP (checksum 0), BTH and extension
// headers, payload, pad, ICRC. crc: none, or the payload's, of which shift->bytes() is the padded length. The
// caller keeps the rules that checks enforce: the opcode is known, the payload is empty for an opcode without
// one, and the whole fits an IP packet.
void WritePieces(const FrameAddress& address, const Packet& packet, const PayloadCrc* crc, FramePieces* out);

}  // namespace epic::roce
