// The data of calls in blocks (protocol/number_blocks.h), between their callers' buffers and the memory in which
// they travel.
#pragma once

#include <cstdint>

#include "protocol/control.h"

namespace epic {

// In the flags of an average: a SUM that every receiver divides by the number of ranks. Ranks that call one with
// SUM and one with AVG are told of a mismatch by it.
inline constexpr uint32_t kAverageFlag = 1;

// `parts` of the callers', from `send` on and so many bytes from one to the next (0: side by side), become blocks in
// `to`, which has room for the header's count for each.
void LoadParts(const ControlHeader& header, const uint8_t* send, uint64_t part_stride, uint32_t parts, uint8_t* to);

// The blocks of one part become what its caller is to have, of an average divided by the number of ranks: CalledBytes
// from `recv` on, and nothing behind them.
void StorePart(const ControlHeader& header, const uint8_t* blocks, uint32_t world_size, uint8_t* recv);

}  // namespace epic
