// Element-wise reduction kernels, SIMD with run-time dispatch (Highway). Switches reduce packets with them,
// hosts divide sums into averages (docs/PROTOCOL.md, section 8).
//
// A reduction runs in an accumulator: Load the first contribution, Accumulate the others, Store the result in
// wire form. FP16, BF16 and blocks (blocks.h) accumulate in FP32, so that a switch rounds once however many
// children it has; MIN and MAX do the same, where it changes no value. All other types accumulate in their
// wire form.
//
// All data are little-endian and need no alignment. Results are the same on every instruction set, except for
// the payload and sign of a NaN. Which pairs of operation and type there are says CanReduce
// (protocol/types.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/types.h"

namespace epic {

// Bytes of the accumulator of wire_bytes bytes of payload: AccumulatorFactor times as many; copies (kNone)
// take what they take on the wire.
size_t AccumulatorBytes(ReduceOp op, DataType type, size_t wire_bytes);

// acc = in, for the first contribution; of a logical operation 1 for what is not zero. acc.size() must be
// AccumulatorBytes(op, type, in.size()), in.size() a multiple of the element size and CanReduce(op, type)
// true. The spans do not overlap.
void Load(ReduceOp op, DataType type, std::span<uint8_t> acc, std::span<const uint8_t> in);

// acc[i] = acc[i] op in[i] for every element; acc in accumulator form, in in wire form; conditions as for
// Load. FP: IEEE 754-2019 addition, multiplication, minimum and maximum: NaN propagates, -0 < +0. Integers of
// n bits: SUM and PRODUCT wrap modulo 2^n; LAND and LOR give 0 or 1; a saturating sum stays at its limits.
void Accumulate(ReduceOp op, DataType type, std::span<uint8_t> acc, std::span<const uint8_t> in);

// out = acc in wire form, rounded to nearest, ties to even; too large becomes infinity. acc.size() must be
// AccumulatorBytes(op, type, out.size()). out may begin where acc begins, else the spans do not overlap.
void Store(ReduceOp op, DataType type, std::span<const uint8_t> acc, std::span<uint8_t> out);

// out[i] = a[i] op b[i] for every element, all in wire form: Load, Accumulate and Store in one, of two
// contributions. FP16 and BF16 are rounded each time (docs/PROTOCOL.md, section 11.5). a and b have as many
// bytes as out, a multiple of the element size; out is a, is b, or overlaps neither. The order of a and b
// makes no difference but to the payload and sign of a NaN.
void Combine(ReduceOp op, DataType type, std::span<uint8_t> out, const uint8_t* a, const uint8_t* b);

// acc[i] |= in[i] for every byte: of inlined copies, where all but one are zeros. The spans are of the same
// length and do not overlap.
void Merge(std::span<uint8_t> acc, std::span<const uint8_t> in);

// data[i] = data[i] / divisor, in wire form, for a type that CanReduce to a sum, but no blocks. FP: divided
// in FP32, FP64 in FP64, and rounded to the type once; integers: truncated toward zero. The divisor is from 1
// to 2^24, so that FP32 holds it.
void ScaleToAverage(DataType type, std::span<uint8_t> data, uint32_t divisor);

}  // namespace epic
