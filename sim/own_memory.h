// What the queue pairs of simulated hosts read and write: the simulating process' own memory, at its own
// addresses.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>

#include "roce/transport/memory.h"

namespace epic::sim {

// The keys of all of it: for the host itself, and for peers.
inline constexpr uint32_t kOwnLkey = 1;
inline constexpr uint32_t kOwnRkey = 2;

class OwnMemory final : public roce::Memory {
 public:
  // open_to_peers: they may read and write it by kOwnRkey.
  explicit OwnMemory(bool open_to_peers) : open_to_peers_(open_to_peers) {}
  std::optional<std::span<uint8_t>> Map(roce::Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override {
    const bool local = access == roce::Access::kLocalRead || access == roce::Access::kLocalWrite;
    if (local ? key != kOwnLkey : !open_to_peers_ || key != kOwnRkey) return std::nullopt;
    return std::span(std::bit_cast<uint8_t*>(address), length);
  }

 private:
  bool open_to_peers_;
};

// All of a buffer, as a work request names it.
inline roce::SgeList SgesOf(const uint8_t* address, size_t bytes) {
  roce::SgeList list;
  list.count = 1;
  list.sge[0] = {std::bit_cast<uint64_t>(address), static_cast<uint32_t>(bytes), kOwnLkey};
  return list;
}

}  // namespace epic::sim
