// Identifiers and units that every layer shares. Plain values without behaviour.
#pragma once

#include <cstdint>

namespace epic {

// A point in time or a duration in nanoseconds. Cores never read a clock: the world around them passes time
// in.
using Nanos = int64_t;

inline constexpr Nanos kMicrosecond = 1'000;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;
inline constexpr Nanos kNever = INT64_MAX;

// A RoCE queue pair number, 24 bits on the wire. A type of its own so that it cannot be taken for a PSN.
enum class Qpn : uint32_t {};
inline constexpr uint32_t kQpnMask = 0xffffff;
constexpr uint32_t Raw(Qpn qpn) { return static_cast<uint32_t>(qpn); }

// An IPv4 address in host byte order: 10.0.0.1 is 0x0a000001.
enum class Ipv4 : uint32_t {};
constexpr uint32_t Raw(Ipv4 ip) { return static_cast<uint32_t>(ip); }

// A switch port, numbered from 0 in the order of the daemon's --port options.
using PortId = uint16_t;
inline constexpr PortId kNoPort = UINT16_MAX;

// A group's own packet number (docs/PROTOCOL.md, "Index"): counts every packet of the group, control packets
// included, over all invocations. Never wraps.
using Index = int64_t;

}  // namespace epic
