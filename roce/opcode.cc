#include "roce/opcode.h"

namespace epic::roce {
namespace {

enum Flag : unsigned {
  kReth = 1,
  kDeth = 2,
  kAeth = 4,
  kImm = 8,
  kPayload = 16,
  kFirst = 32,
  kLast = 64,
  kOnly = 128,
  kReserved16 = 256,  // a CNP's sixteen reserved bytes
  kAtomicEth = 512,
  kAtomicAckEth = 1024,
  kIeth = 2048,
};

constexpr OpcodeInfo Row(unsigned flags) {
  OpcodeInfo row;
  row.known = true;
  row.reth = (flags & kReth) != 0;
  row.deth = (flags & kDeth) != 0;
  row.aeth = (flags & kAeth) != 0;
  row.imm = (flags & kImm) != 0;
  row.atomic_eth = (flags & kAtomicEth) != 0;
  row.atomic_ack_eth = (flags & kAtomicAckEth) != 0;
  row.ieth = (flags & kIeth) != 0;
  row.payload = (flags & kPayload) != 0;
  row.first = (flags & kFirst) != 0;
  row.last = (flags & kLast) != 0;
  row.only = (flags & kOnly) != 0;
  row.header_bytes =
      static_cast<uint8_t>(12 + (row.reth ? 16 : 0) + (row.deth ? 8 : 0) + (row.aeth ? 4 : 0) +
                           (row.imm ? 4 : 0) + (row.atomic_eth ? 28 : 0) + (row.atomic_ack_eth ? 8 : 0) +
                           (row.ieth ? 4 : 0) + ((flags & kReserved16) != 0 ? 16 : 0));
  return row;
}

constexpr std::array<OpcodeInfo, 256> MakeTable() {
  std::array<OpcodeInfo, 256> table{};
  const auto set = [&table](Opcode opcode, unsigned flags) {
    table[static_cast<uint8_t>(opcode)] = Row(flags);
  };
  set(Opcode::kRcSendFirst, kPayload | kFirst);
  set(Opcode::kRcSendMiddle, kPayload);
  set(Opcode::kRcSendLast, kPayload | kLast);
  set(Opcode::kRcSendLastImm, kImm | kPayload | kLast);
  set(Opcode::kRcSendOnly, kPayload | kOnly);
  set(Opcode::kRcSendOnlyImm, kImm | kPayload | kOnly);
  set(Opcode::kRcWriteFirst, kReth | kPayload | kFirst);
  set(Opcode::kRcWriteMiddle, kPayload);
  set(Opcode::kRcWriteLast, kPayload | kLast);
  set(Opcode::kRcWriteLastImm, kImm | kPayload | kLast);
  set(Opcode::kRcWriteOnly, kReth | kPayload | kOnly);
  set(Opcode::kRcWriteOnlyImm, kReth | kImm | kPayload | kOnly);
  set(Opcode::kRcReadRequest, kReth | kOnly);
  set(Opcode::kRcReadResponseFirst, kAeth | kPayload | kFirst);
  set(Opcode::kRcReadResponseMiddle, kPayload);
  set(Opcode::kRcReadResponseLast, kAeth | kPayload | kLast);
  set(Opcode::kRcReadResponseOnly, kAeth | kPayload | kOnly);
  set(Opcode::kRcAck, kAeth | kOnly);
  set(Opcode::kRcAtomicAck, kAeth | kAtomicAckEth | kOnly);
  set(Opcode::kRcCompareSwap, kAtomicEth | kOnly);
  set(Opcode::kRcFetchAdd, kAtomicEth | kOnly);
  set(Opcode::kRcSendLastInv, kIeth | kPayload | kLast);
  set(Opcode::kRcSendOnlyInv, kIeth | kPayload | kOnly);
  for (uint8_t rc = 0; rc <= static_cast<uint8_t>(Opcode::kRcWriteOnlyImm); ++rc)
    table[static_cast<uint8_t>(UcOf(Opcode{rc}))] = table[rc];
  set(Opcode::kUdSendOnly, kDeth | kPayload | kOnly);
  set(Opcode::kUdSendOnlyImm, kDeth | kImm | kPayload | kOnly);
  set(Opcode::kCnp, kReserved16 | kOnly);
  return table;
}

}  // namespace

constinit const std::array<OpcodeInfo, 256> kOpcodes = MakeTable();

}  // namespace epic::roce
