#include "commlib/core/chunk_map.h"

#include <algorithm>
#include <bit>

#include "base/ceil_div.h"

namespace epic {

void ChunkMap::Reset(uint32_t parts, uint32_t chunks) {
  chunks_ = chunks;
  words_ = static_cast<uint32_t>(CeilDiv(chunks, 64u));
  parts_missing_ = chunks > 0 ? parts : 0;
  bits_.assign(size_t{parts} * words_, 0);
  missing_.assign(parts, chunks);
}

bool ChunkMap::Set(uint32_t part, uint32_t chunk) {
  if (Has(part, chunk)) return false;
  bits_[size_t{part} * words_ + chunk / 64] |= uint64_t{1} << chunk % 64;
  if (--missing_[part] == 0) --parts_missing_;
  return true;
}

void ChunkMap::SetPart(uint32_t part) {
  for (uint32_t chunk = 0; chunk < chunks_; ++chunk) Set(part, chunk);
}

ChunkMap::Run ChunkMap::NextMissing(uint32_t part, uint32_t from, uint32_t most) const {
  uint32_t first = from;
  while (first < chunks_ && Has(part, first)) {
    // Where all of a word are there, its last one is passed at once.
    const uint64_t left = ~Word(part, first) >> first % 64;
    first += left == 0 ? 64 - first % 64 : static_cast<uint32_t>(std::countr_zero(left));
  }
  if (first >= chunks_) return {.first = chunks_};
  uint32_t end = first;
  while (end < chunks_ && end - first < most && !Has(part, end)) ++end;
  return {.first = first, .count = end - first};
}

}  // namespace epic
