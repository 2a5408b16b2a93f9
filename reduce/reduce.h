// Element-wise reduction kernels, SIMD with run-time dispatch (Highway).
#pragma once

#include <cstdint>
#include <span>

#include "protocol/types.h"

namespace epic {

// True if Accumulate knows the pair.
bool CanReduce(ReduceOp op, DataType type);

// acc[i] = acc[i] op in[i] for every element. Both spans have the same length, a multiple of the element
// size, and hold little-endian elements; no alignment is needed. INT32 wraps modulo 2^32. CanReduce(op, type)
// must hold.
void Accumulate(ReduceOp op, DataType type, std::span<uint8_t> acc, std::span<const uint8_t> in);

}  // namespace epic
