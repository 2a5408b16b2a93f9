#include "incengine/state/arena.h"

#include "base/check.h"

namespace epic::engine {

std::optional<size_t> Arena::Allocate(size_t bytes) {
  if (bytes > memory_.size()) return std::nullopt;
  bytes = RoundUp(bytes);
  size_t begin = 0;
  for (const auto& [offset, taken] : taken_) {
    if (offset - begin >= bytes) break;
    begin = offset + taken;
  }
  if (begin > memory_.size() || memory_.size() - begin < bytes) return std::nullopt;
  taken_[begin] = bytes;
  used_ += bytes;
  return begin;
}

void Arena::Free(size_t offset) {
  const auto it = taken_.find(offset);
  EPIC_CHECK(it != taken_.end());
  used_ -= it->second;
  taken_.erase(it);
}

void Arena::CheckInvariants() const {
  size_t end = 0;
  size_t used = 0;
  for (const auto& [offset, bytes] : taken_) {
    EPIC_CHECK(offset >= end && offset % kAlignment == 0 && bytes % kAlignment == 0);
    end = offset + bytes;
    used += bytes;
  }
  EPIC_CHECK(end <= memory_.size() && used == used_);
}

}  // namespace epic::engine
