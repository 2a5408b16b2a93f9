// What a switch must make of its children's contributions (docs/PROTOCOL.md, sections 3 and 8).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "incengine/state/config.h"
#include "protocol/control.h"

namespace epic::conform {

using PacketBytes = std::vector<uint8_t>;

struct Contribution {
  size_t child = 0;
  PacketBytes payload;
};

// The merged control packet, in this order of contributions. ranks: the first rank below each child.
// A header that the switch cannot serve makes it UNSUPPORTED. Contributions must begin with one; the data
// behind it are not looked at.
PacketBytes MergedControl(const std::vector<Contribution>& contributions, const std::vector<uint32_t>& ranks,
                          const engine::GroupConfig& group);

// Whether a switch can serve such a call in the group.
bool CanServe(const ControlHeader& header, const engine::GroupConfig& group);

// Empty if `seen` is what comes of the contributions in the header's operation, each once; else what was
// expected. One contribution that is not reduced must be there unchanged, of inlined ones their bitwise OR.
// exact: the order of contributions is given, and the bits with it; else sums of floats may differ as much as
// another order makes them.
std::string WrongPayload(const ControlHeader& header, const std::vector<Contribution>& contributions,
                         const PacketBytes& seen, bool exact);

// The first bytes as hexadecimal digits, for messages.
std::string Digits(const PacketBytes& bytes);
// Where two that differ do so first: "byte 1023 as 4e". For messages.
std::string FirstByteOf(const PacketBytes& expected, const PacketBytes& seen);

}  // namespace epic::conform
