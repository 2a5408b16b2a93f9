// The world of nic_fuzz: an arena with guard bytes around regions of every kind of right, and what the trial
// remembers of regions, buffers and queue pairs.
#pragma once

#include <array>
#include <cstdint>

#include "roce/transport/types.h"
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
// Bits: local write, remote read, remote write, remote atomics.
inline MemoryRights Rights(int bits) {
  return {.local_write = (bits & 1) != 0,
          .remote_read = (bits & 2) != 0,
          .remote_write = (bits & 4) != 0,
          .remote_atomic = (bits & 8) != 0};
}
inline constexpr std::array<uint8_t, kFixed> kFixedRights = {15, 3, 1, 0, 15, 15};
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

}  // namespace epic::softnic::testing
