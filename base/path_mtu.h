// The path MTUs that RoCE has: bytes of payload in a packet.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace epic {

inline constexpr std::array<uint32_t, 5> kPathMtus = {256, 512, 1024, 2048, 4096};  // ascending
inline constexpr uint32_t kMinPathMtu = kPathMtus.front();
inline constexpr uint32_t kMaxPathMtu = kPathMtus.back();

constexpr bool IsPathMtu(uint32_t bytes) { return std::ranges::find(kPathMtus, bytes) != kPathMtus.end(); }

// For messages that refuse what is none.
inline constexpr char kPathMtusInWords[] = "256, 512, 1024, 2048 or 4096";

}  // namespace epic
