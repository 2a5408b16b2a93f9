// Calls that are longer than an invocation may be are made in several, one after the other: slices. Slice k
// of a call has the same stretch of elements of each of its parts. How a call is cut follows from its header
// and a bound that all ranks have, and so is the same for all of them.
#pragma once

#include <cstdint>

#include "protocol/control.h"

namespace epic {

// Elements of each part, from `first` on.
struct Slice {
  uint64_t first = 0;
  uint64_t count = 0;

  friend bool operator==(const Slice&, const Slice&) = default;
};

// In how many slices a call of `count` elements per part is made, if one may have `most` (not 0) of each: at
// least one.
uint64_t SlicesOf(uint64_t count, uint64_t most);

// Slice `at` of so many, each with at most `most` elements of a part. All are about as long, so that none of
// a long call is a short one, and begin at multiples of kSliceGrain elements of the part if `most` is not
// below.
Slice SliceAt(uint64_t count, uint64_t most, uint64_t at);
inline constexpr uint64_t kSliceGrain = 1024;

// The header of slice `at`: with its count, and in the flags how many slices follow (SlicesLeft).
ControlHeader HeaderOfSlice(const ControlHeader& call, uint64_t most, uint64_t at);
inline constexpr uint64_t kMaxSlices = 1ull << (32 - kSlicesLeftShift);

// At an offset in a buffer, which may be null where the call has none.
template <typename Byte>
Byte* At(Byte* buffer, uint64_t offset) {
  return buffer == nullptr ? nullptr : buffer + offset;
}

}  // namespace epic
