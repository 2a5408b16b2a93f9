// RoCE opcodes and what each carries: one row per opcode, parsing without branches (compare the table in
// Linux' rxe_opcode.c). InfiniBand Architecture Specification 1.4, table 38.
#pragma once

#include <array>
#include <cstdint>

namespace epic::roce {

enum class Opcode : uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastImm = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyImm = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastImm = 0x09,
  kRcWriteOnly = 0x0a,
  kRcWriteOnlyImm = 0x0b,
  kRcReadRequest = 0x0c,
  kRcReadResponseFirst = 0x0d,
  kRcReadResponseMiddle = 0x0e,
  kRcReadResponseLast = 0x0f,
  kRcReadResponseOnly = 0x10,
  kRcAck = 0x11,
  kRcAtomicAck = 0x12,
  kRcCompareSwap = 0x13,
  kRcFetchAdd = 0x14,
  kRcSendLastInv = 0x16,
  kRcSendOnlyInv = 0x17,
  kUcSendFirst = 0x20,
  kUcSendMiddle = 0x21,
  kUcSendLast = 0x22,
  kUcSendLastImm = 0x23,
  kUcSendOnly = 0x24,
  kUcSendOnlyImm = 0x25,
  kUcWriteFirst = 0x26,
  kUcWriteMiddle = 0x27,
  kUcWriteLast = 0x28,
  kUcWriteLastImm = 0x29,
  kUcWriteOnly = 0x2a,
  kUcWriteOnlyImm = 0x2b,
  kUdSendOnly = 0x64,
  kUdSendOnlyImm = 0x65,
  kCnp = 0x81,
};

// An opcode is a transport, in its upper three bits, and an operation. UC's operations are RC's Sends and
// Writes.
constexpr bool IsUc(Opcode opcode) {
  return opcode >= Opcode::kUcSendFirst && opcode <= Opcode::kUcWriteOnlyImm;
}
// The operation in the other transport.
constexpr Opcode UcOf(Opcode rc) { return Opcode{static_cast<uint8_t>(static_cast<uint8_t>(rc) | 0x20)}; }
constexpr Opcode RcOf(Opcode uc) { return Opcode{static_cast<uint8_t>(static_cast<uint8_t>(uc) & 0x1f)}; }

// What follows the BTH for an opcode, in this order: RETH, DETH or AtomicETH, AETH, AtomicAckETH, ImmDt or
// IETH, payload.
struct OpcodeInfo {
  bool known = false;
  bool reth = false;
  bool deth = false;
  bool aeth = false;
  bool imm = false;
  bool atomic_eth = false;
  bool atomic_ack_eth = false;
  bool ieth = false;
  bool payload = false;       // a payload may follow
  bool first = false;         // opens a message of several packets
  bool last = false;          // closes a message of several packets
  bool only = false;          // a whole message
  uint8_t header_bytes = 12;  // BTH and extension headers
};

// A row for every byte.
extern const std::array<OpcodeInfo, 256> kOpcodes;

// The row of any byte; known is false for an opcode that this project does not speak.
inline const OpcodeInfo& Info(Opcode opcode) { return kOpcodes[static_cast<uint8_t>(opcode)]; }

}  // namespace epic::roce
