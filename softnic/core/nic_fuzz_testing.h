// The world of nic_fuzz: an arena with guard bytes around regions of every kind of right, and what the trial
// remembers of regions, buffers and queue pairs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "roce/transport/transport_testing.h"
#include "softnic/core/memory_table.h"

namespace epic::softnic::testing {

inline constexpr Ipv4 kIp{0x0a000001}, kPeerIp{0x0a000002}, kGroup{0xe0000001};
inline constexpr Qpn kPeerQpn{0x99};
inline constexpr uint32_t kMtu = 256, kQkey = 5, kDepth = 6;
inline constexpr uint64_t kBase = 0x10000;  // the address of the arena's first byte
inline constexpr size_t kRegion = 600, kGap = 72, kFixed = 6, kStride = kRegion + kGap;
inline constexpr size_t kArena = kGap + kFixed * kStride;
inline constexpr uint8_t kGuard = 0xee, kSecret = 0xdd, kOrdinary = 0x11, kArriving = 0xab;
inline constexpr uint32_t kPd = 1, kOtherPd = 2, kSecretPd = 3;
inline constexpr size_t kMaxMrs = 24;
// Bits: local write, remote read, remote write, remote atomics, windows.
inline MemoryRights Rights(int bits) {
  return {.local_write = (bits & 1) != 0,
          .remote_read = (bits & 2) != 0,
          .remote_write = (bits & 4) != 0,
          .remote_atomic = (bits & 8) != 0,
          .mw_bind = (bits & 16) != 0};
}
inline constexpr std::array<uint8_t, kFixed> kFixedRights = {31, 19, 17, 16, 31, 31};
// Atomics leave nothing but these words, so that what may not be sent stays recognizable.
inline constexpr uint64_t kOrdinaryWord = 0x1111'1111'1111'1111, kArrivingWord = 0xabab'abab'abab'abab;

struct Mr {
  uint32_t pd;
  size_t offset, length;  // in the arena
  MemoryRights rights;
  uint32_t key = 0;
  bool live = false;
};

// A receive, a Read or an atomic whose buffer the adapter may write until its completion.
struct Buffer {
  uint64_t id;
  Qpn qpn;
  uint32_t pd;
  roce::Sge sge;
};

struct End {
  Qpn qpn{}, peer{};
  Ipv4 peer_ip{};
  uint32_t pd = kPd;
  bool remote_read = true, remote_write = true, remote_atomic = true, shared = false, is_ud = false;
  bool exists = false;
  uint32_t next_psn = 0;  // of the peer's requests
};

// To a peer outside; two to each other; with the shared queue; of another domain, closed to its peer; UD.
inline constexpr size_t kEnds = 6;
inline std::array<End, kEnds> Ends() {
  return {{{.qpn = Qpn{16}, .peer = kPeerQpn, .peer_ip = kPeerIp},
           {.qpn = Qpn{17}, .peer = Qpn{18}, .peer_ip = kIp},
           {.qpn = Qpn{18}, .peer = Qpn{17}, .peer_ip = kIp},
           {.qpn = Qpn{19},
            .peer = kPeerQpn,
            .peer_ip = kPeerIp,
            .remote_write = false,
            .remote_atomic = false,
            .shared = true},
           {.qpn = Qpn{20},
            .peer = kPeerQpn,
            .peer_ip = kPeerIp,
            .pd = kOtherPd,
            .remote_read = false,
            .remote_write = false,
            .remote_atomic = false},
           {.qpn = Qpn{21}, .peer = kPeerQpn, .peer_ip = kPeerIp, .is_ud = true}}};
}

// Whether the peer of one of them may change the region by its key.
inline bool PeerWrites(const Mr& mr, std::span<const End> ends) {
  return std::ranges::any_of(ends, [&](const End& end) {
    const bool writes = mr.rights.remote_write && end.remote_write;
    const bool swaps = mr.rights.remote_atomic && end.remote_atomic;
    return end.pd == mr.pd && (writes || swaps) && !end.is_ud;
  });
}

inline void CheckSent(const roce::testing::KeepingSink& sink) {
  EPIC_CHECK(sink.sent.size() <= 257 * kEnds);
  for (const roce::testing::OwnedPacket& packet : sink.sent) {
    EPIC_CHECK(packet.payload.size() <= kMtu);
    std::vector<uint8_t> said = packet.payload;
    if (packet.head.bth.opcode == roce::Opcode::kRcAtomicAck) {
      said.resize(sizeof packet.head.original);
      std::memcpy(said.data(), &packet.head.original, said.size());
    }
    EPIC_CHECK(std::ranges::none_of(said, [](uint8_t b) { return b == kGuard || b == kSecret; }));
  }
}

}  // namespace epic::softnic::testing
