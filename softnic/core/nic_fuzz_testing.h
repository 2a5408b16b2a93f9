// The world of nic_fuzz: an arena with guard bytes around regions of every kind of right, and what the trial
// remembers of regions and buffers.
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
#include "softnic/core/nic_fuzz_ends.h"

namespace epic::softnic::testing {

inline constexpr uint64_t kBase = 0x10000;  // the address of the arena's first byte
inline constexpr size_t kRegion = 600, kGap = 72, kFixed = 6, kStride = kRegion + kGap;
inline constexpr size_t kArena = kGap + kFixed * kStride;
inline size_t FixedOffset(size_t i) { return kGap + i * kStride; }
inline constexpr uint8_t kGuard = 0xee, kSecret = 0xdd, kOrdinary = 0x11, kArriving = 0xab;
inline constexpr uint32_t kSecretPd = 3;
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

// Whether the peer of one of them may change the region by its key.
inline bool PeerWrites(const Mr& mr, std::span<const End> ends) {
  return std::ranges::any_of(ends, [&](const End& end) {
    const bool writes = mr.rights.remote_write && end.remote_write;
    const bool swaps = mr.rights.remote_atomic && end.remote_atomic && end.type == QpType::kRc;
    return end.pd == mr.pd && (writes || swaps) && end.type != QpType::kUd;
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
