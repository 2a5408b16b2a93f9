// For tests of this and other folders: equality of packets, and random ones of every opcode.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "roce/frame.h"
#include "roce/packet.h"

namespace epic::roce::testing {

// Whether both mean the same packet: fields that the opcode does not carry are not compared, the payload is
// by content.
bool SamePacket(const Packet& a, const Packet& b);

// A random sane packet of any known opcode, with the payload in *storage (at most max_payload bytes).
Packet RandomPacket(std::mt19937_64& random, size_t max_payload, std::vector<uint8_t>* storage);

// Gives it random IPv6 addresses and a flow label.
void MakeIpv6(std::mt19937_64& random, Packet* packet);

// Random addresses and IP identification; tagged half of the time.
FrameAddress RandomAddress(std::mt19937_64& random);

}  // namespace epic::roce::testing
