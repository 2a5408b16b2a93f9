// A block: a region of the arena with several owners, of whom one at a time has it (docs/PROTOCOL-BLOCKS.md;
// EPIC paper, sections 6.1 and 6.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace epic::engine {

struct Block {
  size_t offset = 0;
  size_t bytes = 0;
  // The recorder: the group that has the memory.
  std::optional<uint64_t> holder;
  // Groups whose memory it is, with the bytes that each wants it to have. It gets the most of these as soon
  // as nobody holds it and the arena has room.
  std::map<uint64_t, size_t> owners;
};

}  // namespace epic::engine
