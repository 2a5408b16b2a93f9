// LLDP (IEEE 802.1AB): what a station says of itself to whoever is at the other end of its link. Switches say
// hello with it, and hear what hosts say (docs/PROTOCOL-CONTROL.md, section 12).
//
// What is read is borrowed from the frame, and text is bytes as they came: whoever passes it on sees to it
// that it is text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "roce/packet.h"

namespace epic::roce {

inline constexpr uint16_t kEtherTypeLldp = 0x88cc;

// LLDP's own group address, "nearest bridge": no bridge forwards it.
inline constexpr MacAddress kLldpMac = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e};
// Of EPIC's hellos, locally administered: bridges flood it, and switches of EPIC's never forward it.
inline constexpr MacAddress kHelloMac = {0x03, 0x45, 0x50, 0x49, 0x43, 0x01};

// Whether a frame of kEtherTypeLldp to this address ends at the switch: these two, and the other addresses
// that LLDP may use (01:80:c2:00:00:00 and :03).
bool IsLldpAddress(const MacAddress& dst);

enum class LldpResult : uint8_t {
  kOk,
  kNotLldp,     // another EtherType, or in a VLAN
  kTruncated,   // a TLV goes on behind the frame
  kWrongOrder,  // chassis, port and time to live are not the first three
  kRepeated,    // what may be there once is there twice
  kBadLength,   // no TLV of its type has that length
  kCount,
};

// The result's name as counters show it, for example "wrong_order".
const char* Name(LldpResult result);

// How a chassis or a port is named (IEEE 802.1AB, 8.5.2 and 8.5.3): of the values those that we use.
enum class ChassisKind : uint8_t { kMac = 4, kAddress = 5, kInterface = 6, kLocal = 7 };
enum class PortKind : uint8_t { kMac = 3, kAddress = 4, kInterface = 5, kLocal = 7 };

// Of the capabilities TLV.
inline constexpr uint16_t kCapabilityBridge = 1u << 2;
inline constexpr uint16_t kCapabilityStation = 1u << 7;

// What an EPIC station adds (organisationally specific TLV 02:45:50, subtype 1).
enum class EpicRole : uint8_t { kSwitch = 1, kHost = 2 };

struct LldpCapabilities {
  uint16_t has = 0;
  uint16_t enabled = 0;

  friend bool operator==(const LldpCapabilities&, const LldpCapabilities&) = default;
};

// A frame with its Ethernet header, untagged.
struct Lldp {
  MacAddress dst{};
  MacAddress src{};
  ChassisKind chassis_kind{};
  std::string_view chassis;  // 1 to 255 bytes
  PortKind port_kind{};
  std::string_view port;  // 1 to 255 bytes
  uint16_t ttl_s = 0;     // 0: the station goes
  // At most 255 bytes each; none if not told.
  std::optional<std::string_view> port_description;
  std::optional<std::string_view> system_name;
  std::optional<std::string_view> system_description;
  std::optional<LldpCapabilities> capabilities;
  std::optional<Ipv4> management;  // the first one that is IPv4
  std::optional<EpicRole> role;    // of an EPIC station; it may be one that is not known here
  std::string_view version;        // of an EPIC station, at most 255 bytes

  friend bool operator==(const Lldp&, const Lldp&) = default;
};

// The chassis' MAC address, if that is its name.
std::optional<MacAddress> ChassisMac(const Lldp& lldp);

// Reads a frame. TLVs that are not known are passed over. *out is filled in only if kOk is returned.
LldpResult ParseLldp(std::span<const uint8_t> frame, Lldp* out);

// Of a name, description or version.
inline constexpr size_t kMaxLldpText = 255;
inline constexpr size_t kMaxLldpFrameBytes = 2048;

// Serialises without padding. Returns the bytes written; out has at least kMaxLldpFrameBytes, and the fields
// the lengths said above.
size_t WriteLldp(const Lldp& lldp, std::span<uint8_t> out);

}  // namespace epic::roce
