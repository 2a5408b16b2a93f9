// Where a rank's data lie in its own memory, for a switch that reads and writes them there by RDMA
// (docs/PROTOCOL-MODE-VI.md, section 2). It follows the header in the control message, on the edge between
// the two alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "protocol/flow.h"

namespace epic {

inline constexpr size_t kDescriptorBytes = 64;

// The parts that a rank gives, or receives. All zero if there are none.
struct RemoteParts {
  uint64_t address = 0;  // of the first byte, as the rank's NIC has it
  uint64_t stride = 0;   // bytes from one part to the next, where there are several; 0: a part's bytes
  uint32_t rkey = 0;

  friend bool operator==(const RemoteParts&, const RemoteParts&) = default;
};

struct Descriptor {
  RemoteParts source;
  RemoteParts destination;

  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

// Whether a descriptor follows the header, where the switch reads its hosts: the call has data that are
// neither inlined nor go between the hosts, and asks for nothing. Whatever WrongField says.
constexpr bool HasDescriptor(const ControlHeader& header) {
  return header.status == ControlStatus::kOk && header.count > 0 &&
         header.collective != Collective::kBarrier && !IsInlined(header) && !IsByHosts(header) &&
         !IsRequest(header);
}

// Writes the bytes that go on the wire: little-endian, unused bytes zero.
void Encode(const Descriptor& descriptor, std::span<uint8_t, kDescriptorBytes> out);

// Empty when the bytes are no descriptor of this version: another length or version, unused bytes that are
// not zero.
std::optional<Descriptor> DecodeDescriptor(std::span<const uint8_t> bytes);

// Whether the rank gives, or receives, some part of the call's over the network.
bool GivesAny(const ControlHeader& header, uint32_t rank);
bool ReceivesAny(const ControlHeader& header, uint32_t rank);
// Whether what it gives, or receives, is all parts, which have a stride then, and not one.
bool GivesAll(const ControlHeader& header);
bool ReceivesAll(const ControlHeader& header);

// Whether it is one that the rank may give to such a call, for which WrongField is kNone: all zero where the
// rank gives, or receives, nothing; else no address of a part is beyond 64 bits, and parts do not overlap. A
// stride is said of several parts alone.
bool IsSound(const Descriptor& descriptor, const ControlHeader& header, uint32_t rank);

// Where byte `offset` of a part lies, of a descriptor that is sound: in what the rank gives, or receives.
uint64_t SourceAt(const Descriptor& descriptor, const ControlHeader& header, int64_t part, uint64_t offset);
uint64_t DestinationAt(const Descriptor& descriptor, const ControlHeader& header, int64_t part,
                       uint64_t offset);

}  // namespace epic
