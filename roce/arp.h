// ARP for IPv4 over Ethernet (RFC 826): the request and reply that the switch's endpoints need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "roce/packet.h"

namespace epic::roce {

inline constexpr MacAddress kBroadcastMac = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

enum class ArpOp : uint16_t { kRequest = 1, kReply = 2 };

// An ARP packet and the Ethernet header round it.
struct Arp {
  MacAddress dst{};              // Ethernet destination
  MacAddress src{};              // Ethernet source
  std::optional<uint16_t> vlan;  // 802.1Q tag control information
  ArpOp op = ArpOp::kRequest;
  MacAddress sender_mac{};
  Ipv4 sender_ip{};
  MacAddress target_mac{};  // zeros in a request
  Ipv4 target_ip{};

  friend bool operator==(const Arp&, const Arp&) = default;
};

inline constexpr size_t kMaxArpFrameBytes = 14 + 4 + 28;

// The ARP packet in an Ethernet frame; none if the frame is anything else, is truncated, or is ARP of another
// kind.
std::optional<Arp> ParseArp(std::span<const uint8_t> frame);

// Serialises without padding to Ethernet's minimum (drivers do that). Returns the bytes written; out has at
// least kMaxArpFrameBytes.
size_t WriteArp(const Arp& arp, std::span<uint8_t> out);

// The answer to a request: "ip is at mac".
Arp ArpReplyTo(const Arp& request, MacAddress mac);

}  // namespace epic::roce
