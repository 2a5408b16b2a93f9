// What a switch and a group's fallback server say to each other over their RC connection, the leg: Sends with
// immediate (docs/PROTOCOL-MODE-V.md, section 4).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "protocol/control.h"

namespace epic {

// The upper four bits of the immediate; the lower 28 are those of the index.
enum class LegMessage : uint8_t {
  kOpen = 1,   // from the switch: what an invocation is, before its first part
  kPart = 2,   // from the switch: a partial sum, as an accumulator
  kLast = 3,   // from the switch: the same, and nothing more comes of the index
  kFetch = 4,  // from the switch: the sum of the index is to be sent
  kSum = 5,    // from the server: the sum, in wire form
};

inline constexpr uint32_t kLegIndexMask = 0x0fffffff;

constexpr uint32_t LegImmediate(LegMessage kind, int64_t index) {
  return static_cast<uint32_t>(kind) << 28 | (static_cast<uint32_t>(index) & kLegIndexMask);
}

// What kOpen carries.
struct LegOpen {
  ControlHeader header;
  int64_t control_index = 0;  // of the invocation's control packet
};
inline constexpr uint32_t kOpenBytes = kControlBytes + 8;

std::array<uint8_t, kOpenBytes> EncodeOpen(const LegOpen& open);
// Empty if the length is another, the header is none (DecodeControl), or the index is negative.
std::optional<LegOpen> DecodeOpen(std::span<const uint8_t> bytes);

// Messages of the switch that a server has receives for at one time, and sums that it sends at one time; it
// holds as many again that wait for that. A switch has less of both under way.
inline constexpr uint32_t kLegReceives = 32;
inline constexpr uint32_t kLegSums = 32;

// Bytes of the longest message of a leg: an accumulator.
constexpr uint64_t LegMessageBytes(uint32_t path_mtu, uint32_t accumulator_mtus) {
  return uint64_t{path_mtu} * accumulator_mtus;
}
// Of these the memory with which the NIC works: what comes, then what goes.
constexpr uint64_t LegMemoryBytes(uint32_t path_mtu, uint32_t accumulator_mtus) {
  return kLegReceives * LegMessageBytes(path_mtu, accumulator_mtus) + uint64_t{kLegSums} * path_mtu;
}
// Bytes that a host lends to a group with so many slots: sums of them all, and what is on its way.
constexpr uint64_t LentBytes(uint32_t path_mtu, uint32_t accumulator_mtus, uint32_t slots) {
  return slots * LegMessageBytes(path_mtu, accumulator_mtus) + LegMemoryBytes(path_mtu, accumulator_mtus) +
         uint64_t{kLegSums} * path_mtu;
}

}  // namespace epic
