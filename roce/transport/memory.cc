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

// The list's first piece, if [offset, offset + length) lies in it, as it mostly does; else null.
const Sge* FirstHolds(const SgeList& list, uint64_t offset, uint64_t length) {
  const Sge& first = list.sge[0];
  return list.count > 0 && offset + length <= first.length ? &first : nullptr;
}

}  // namespace

bool Gather(const SgeList& list, uint64_t offset, uint32_t length, Memory& memory, std::span<uint8_t> scratch,
            std::span<const uint8_t>* out) {
  *out = {};
  if (length == 0) return true;
  if (const Sge* const sge = FirstHolds(list, offset, length)) {
    const auto bytes = memory.Map(Access::kLocalRead, sge->lkey, sge->address + offset, length);
    if (bytes) *out = *bytes;
    return bytes.has_value();
  }
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
  if (const Sge* const sge = FirstHolds(list, offset, data.size()); sge != nullptr && !data.empty()) {
    const auto bytes =
        memory.Map(Access::kLocalWrite, sge->lkey, sge->address + offset, static_cast<uint32_t>(data.size()));
    if (bytes) std::memcpy(bytes->data(), data.data(), data.size());
    return bytes.has_value();
  }
  return ForPieces(list, offset, data.size(),
                   [&](uint64_t address, uint32_t lkey, uint32_t here, uint64_t at) {
                     const auto bytes = memory.Map(Access::kLocalWrite, lkey, address, here);
                     if (!bytes) return false;
                     std::memcpy(bytes->data(), data.data() + at, here);
                     return true;
                   });
}

}  // namespace epic::roce
