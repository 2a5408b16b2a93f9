// What ranks give to calls in blocks (protocol/number_blocks.h), and what may come of it: numbers whose magnitudes
// differ from block to block, so that a scale of another block shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "protocol/control.h"

namespace epic::sim {

class BlockValues {
 public:
  // `small`: 0 to 15, of a rank, a part and an element of it.
  using Small = std::function<uint32_t(int rank, int64_t part, uint64_t element)>;
  BlockValues(const ControlHeader& header, int ranks, Small small);

  // A rank's part, in the type of the callers' data.
  void Fill(int rank, int64_t part, std::span<uint8_t> out) const;
  // Elements of a result of the part that are further from the exact sum than `levels` of blocks allow, or none.
  size_t CountWrong(int64_t part, int levels, std::span<const uint8_t> result) const;

 private:
  float ValueOf(int rank, int64_t part, uint64_t element) const;

  ControlHeader header_;
  int ranks_;
  Small small_;
};

}  // namespace epic::sim
