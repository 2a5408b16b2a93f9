// One RoCEv2 packet as a plain value: what the protocol cores receive and emit. Only sane values live here;
// bytes are checked once, in frame.h. Field names follow the InfiniBand Architecture Specification 1.4,
// chapter 9, and its annex A17 (RoCEv2).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/ip.h"
#include "base/psn.h"
#include "base/types.h"
#include "roce/opcode.h"

namespace epic::roce {

inline constexpr uint16_t kUdpPort = 4791;
inline constexpr uint16_t kDefaultPkey = 0xffff;

using MacAddress = std::array<uint8_t, 6>;

// Broadcast, too.
inline bool IsGroup(const MacAddress& mac) { return (mac[0] & 1) != 0; }

// Base Transport Header. TVer is always 0.
struct Bth {
  Opcode opcode = Opcode::kRcSendOnly;
  bool solicited = false;
  bool mig_req = false;
  bool fecn = false;
  bool becn = false;
  uint16_t pkey = kDefaultPkey;
  Qpn dest_qp{};
  bool ack_req = false;
  Psn psn;
};

// ACK Extended Transport Header.
struct Aeth {
  uint8_t syndrome = 0;
  uint32_t msn = 0;  // 24 bits: messages completed by the responder
};

// The next three share a packet's memory, and so do not set themselves to zero.

// RDMA Extended Transport Header.
struct Reth {
  uint64_t virtual_address;
  uint32_t rkey;
  uint32_t dma_length;
};

// Datagram Extended Transport Header.
struct Deth {
  uint32_t qkey;
  Qpn src_qp;
};

// Atomic Extended Transport Header.
struct AtomicEth {
  uint64_t virtual_address;
  uint32_t rkey;
  uint64_t swap_or_add;
  uint64_t compare;  // of compare and swap only
};

// AETH syndromes. An RNR NAK carries a timer code in its low five bits.
inline constexpr uint8_t kSyndromeAck = 0x1f;  // ACK, credit count "invalid": end-to-end credits are not used
inline constexpr uint8_t kSyndromeRnrNak = 0x20;
inline constexpr uint8_t kSyndromeNakSequence = 0x60;
inline constexpr uint8_t kSyndromeNakInvalidRequest = 0x61;
inline constexpr uint8_t kSyndromeNakRemoteAccess = 0x62;
inline constexpr uint8_t kSyndromeNakRemoteOperational = 0x63;
constexpr bool IsAck(uint8_t syndrome) { return (syndrome & 0xe0) == 0x00; }
constexpr bool IsRnrNak(uint8_t syndrome) { return (syndrome & 0xe0) == 0x20; }
constexpr bool IsNak(uint8_t syndrome) { return (syndrome & 0xe0) == 0x60; }

struct Packet {
  Ip src_ip, dst_ip;  // of one version
  uint16_t udp_src_port = 0;
  uint8_t tos = 0;   // IPv6: traffic class
  uint8_t ttl = 64;  // IPv6: hop limit
  Bth bth;
  // Which of these mean something follows from the opcode (OpcodeInfo in opcode.h). No packet has two of
  // those that lie in one place: whoever writes or reads one knows that the opcode has it.
  Aeth aeth;
  union {
    AtomicEth atomic = {};
    Reth reth;
    Deth deth;
    uint64_t original;  // AtomicAckETH: what memory held before the operation
  };
  uint32_t imm = 0;              // immediate data, host byte order
  uint32_t invalidate_rkey = 0;  // IETH
  uint32_t flow_label = 0;       // of IPv6, 20 bits; rdma_rxe's is 0
  // Of a packet that is sent: the payload lies in registered memory, where it stays until the packet has
  // left. A sink that sends later must copy it otherwise.
  bool payload_stays = false;
  // Without pad bytes and ICRC. Borrowed: valid as long as the frame or buffer that it views.
  std::span<const uint8_t> payload;
};
// Packets are made and copied at every hop: two cache lines, which a header of rare requests does not widen.
static_assert(sizeof(Packet) == 128 && std::is_trivially_copyable_v<Packet>);

}  // namespace epic::roce
