// What inputs of all kinds are made of (pattern.h, block_pattern.h).
#pragma once

#include <cstdint>

#include "epic/epic.h"

namespace epic::perf {

// Of a rank's inputs in a run, for Hash.
uint64_t RunKey(int rank, uint32_t run);

// 64 bits of an element.
uint64_t Hash(uint64_t key, uint64_t element);

// A number divided, as an element of a floating-point type has it: rounded to nearest, ties to even. Of FP16 0 and
// magnitudes from 2^-14 to 65504, of no type NaN.
uint64_t ToWire(Datatype type, double value, int divisor);

}  // namespace epic::perf
