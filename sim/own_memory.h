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

// What peers may read and write by which keys.
class PeerAccess {
 public:
  virtual ~PeerAccess() = default;
  // As roce::Memory's Map.
  virtual std::optional<std::span<uint8_t>> MapForPeers(uint32_t rkey, uint64_t address, uint32_t length) = 0;
};

class OwnMemory final : public roce::Memory {
 public:
  // Without `peers` they may do nothing. Borrowed.
  explicit OwnMemory(PeerAccess* peers) : peers_(peers) {}
  std::optional<std::span<uint8_t>> Map(roce::Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override {
    const bool local = access == roce::Access::kLocalRead || access == roce::Access::kLocalWrite;
    if (!local) return peers_ == nullptr ? std::nullopt : peers_->MapForPeers(key, address, length);
    if (key != kOwnLkey) return std::nullopt;
    return std::span(std::bit_cast<uint8_t*>(address), length);
  }

 private:
  PeerAccess* peers_;
};

// All of a buffer, as a work request names it.
inline roce::SgeList SgesOf(const uint8_t* address, size_t bytes) {
  roce::SgeList list;
  list.count = 1;
  list.sge[0] = {std::bit_cast<uint64_t>(address), static_cast<uint32_t>(bytes), kOwnLkey};
  return list;
}

}  // namespace epic::sim
