// The switch's buffer memory ("SRAM"): one block of fixed size from which groups take their payload and
// degree buffers when they are installed. First fit by offset; offsets, not pointers, so that a copy is a
// snapshot (EPIC paper, section 6.1: contexts refer to dynamic regions).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "protocol/context_memory.h"

namespace epic::engine {

class Arena {
 public:
  explicit Arena(size_t bytes) : memory_(bytes) {}

  // A region of that many bytes (rounded up to kAlignment), or nothing if no gap is large enough.
  std::optional<size_t> Allocate(size_t bytes);

  // Gives back a region that Allocate returned.
  void Free(size_t offset);

  // Moves all regions down, with what is in them, so that no gap is left between them. moved(from, to) is
  // called for each that is elsewhere then, in the order of offsets.
  template <typename Moved>
  void Compact(const Moved& moved) {
    std::map<size_t, size_t> taken;
    size_t end = 0;
    for (const auto& [offset, bytes] : taken_) {
      std::memmove(&memory_[end], &memory_[offset], bytes);
      taken[end] = bytes;
      if (end != offset) moved(offset, end);
      end += bytes;
    }
    taken_ = std::move(taken);
  }

  std::span<uint8_t> At(size_t offset, size_t bytes) { return std::span(memory_).subspan(offset, bytes); }
  std::span<const uint8_t> At(size_t offset, size_t bytes) const {
    return std::span(memory_).subspan(offset, bytes);
  }

  // Whether the bytes lie in it.
  bool Holds(std::span<const uint8_t> bytes) const {
    const auto begin = reinterpret_cast<uintptr_t>(memory_.data());
    const auto at = reinterpret_cast<uintptr_t>(bytes.data());
    return at >= begin && at + bytes.size() <= begin + memory_.size();
  }

  // Aborts if something does not hold that always does: regions do not overlap, and lie in it.
  void CheckInvariants() const;

  size_t size() const { return memory_.size(); }
  size_t free_bytes() const { return memory_.size() - used_; }

  static constexpr size_t kAlignment = kArenaPiece;
  static constexpr size_t RoundUp(size_t bytes) { return RoundUpToArena(bytes); }

 private:
  std::vector<uint8_t> memory_;
  std::map<size_t, size_t> taken_;  // offset to bytes
  size_t used_ = 0;
};

}  // namespace epic::engine
