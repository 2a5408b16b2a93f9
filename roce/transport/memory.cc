#include "roce/transport/memory.h"

#include <algorithm>
#include <cstring>

namespace epic::roce {
namespace {

// Calls piece(sge address, lkey, length, position in the range) for the parts of the list that make up
// [offset, offset + length), until it returns false.
template <typename Piece>
bool ForPieces(const SgeList& list, uint64_t offset, uint64_t length, const Piece& piece) {
  uint64_t done = 0;
  for (size_t i = 0; i < list.count && done < length; ++i) {
    const Sge& sge = list[i];
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const uint64_t here = std::min(length - done, sge.length - offset);
    if (!piece(sge.address + offset, sge.lkey, static_cast<uint32_t>(here), done)) return false;
    done += here;
    offset = 0;
  }
  return done == length;
}

}  // namespace

bool Gather(const SgeList& list, uint64_t offset, uint32_t length, Memory& memory, std::span<uint8_t> scratch,
            std::span<const uint8_t>* out) {
  *out = {};
  if (length == 0) return true;
  return ForPieces(list, offset, length, [&](uint64_t address, uint32_t lkey, uint32_t here, uint64_t at) {
    const auto bytes = memory.Map(Access::kLocalRead, lkey, address, here);
    if (!bytes) return false;
    if (here == length) {
      *out = *bytes;
      return true;
    }
    std::memcpy(scratch.data() + at, bytes->data(), here);
    *out = scratch.first(length);
    return true;
  });
}

bool Scatter(const SgeList& list, uint64_t offset, std::span<const uint8_t> data, Memory& memory) {
  return ForPieces(list, offset, data.size(),
                   [&](uint64_t address, uint32_t lkey, uint32_t here, uint64_t at) {
                     const auto bytes = memory.Map(Access::kLocalWrite, lkey, address, here);
                     if (!bytes) return false;
                     std::memcpy(bytes->data(), data.data() + at, here);
                     return true;
                   });
}

}  // namespace epic::roce
