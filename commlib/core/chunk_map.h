// Which chunks of the parts of a call are there (docs/PROTOCOL-MULTICAST.md, section 1): a bit for each, and
// how many of each part are missing.
//
// A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/snapshot.h"

namespace epic {

class ChunkMap {
 public:
  // Neighbouring chunks of a part.
  struct Run {
    uint32_t first = 0;
    uint32_t count = 0;
  };

  // So many parts of so many chunks each, all of them missing.
  void Reset(uint32_t parts, uint32_t chunks);

  bool Has(uint32_t part, uint32_t chunk) const { return (Word(part, chunk) >> chunk % 64 & 1) != 0; }
  // The chunk is there. False if it was.
  bool Set(uint32_t part, uint32_t chunk);
  // All of the part are.
  void SetPart(uint32_t part);
  bool IsWhole(uint32_t part) const { return missing_[part] == 0; }
  // Of all parts.
  bool all_whole() const { return parts_missing_ == 0; }

  // The first run of missing chunks of the part that begins at `from` or behind it, cut after `most`; of none
  // if nothing is missing from there on.
  Run NextMissing(uint32_t part, uint32_t from, uint32_t most) const;

 private:
  friend struct epic::Snapshot;
  const uint64_t& Word(uint32_t part, uint32_t chunk) const {
    return bits_[size_t{part} * words_ + chunk / 64];
  }

  uint32_t chunks_ = 0;
  uint32_t words_ = 0;  // of a part
  uint32_t parts_missing_ = 0;
  std::vector<uint64_t> bits_;
  std::vector<uint32_t> missing_;  // by part
};

}  // namespace epic
