#include "commlib/core/slices.h"

#include <algorithm>

#include "base/check.h"

namespace epic {
namespace {

// Elements that slices begin at multiples of.
uint64_t GrainOf(uint64_t most) { return most >= kSliceGrain ? kSliceGrain : 1; }

}  // namespace

uint64_t SlicesOf(uint64_t count, uint64_t most) {
  EPIC_CHECK(most > 0);
  const uint64_t grain = GrainOf(most);
  const uint64_t grains = count / grain + (count % grain != 0 ? 1 : 0), most_grains = most / grain;
  return std::max<uint64_t>(1,
                            count <= most ? 1 : grains / most_grains + (grains % most_grains != 0 ? 1 : 0));
}

Slice SliceAt(uint64_t count, uint64_t most, uint64_t at) {
  const uint64_t slices = SlicesOf(count, most), grain = GrainOf(most);
  EPIC_CHECK(at < slices);
  if (slices == 1) return {.first = 0, .count = count};
  const uint64_t grains = count / grain + (count % grain != 0 ? 1 : 0);
  // The first `longer` of them have one grain more than the others.
  const uint64_t each = grains / slices, longer = grains % slices;
  const uint64_t first = (at * each + std::min(at, longer)) * grain;
  const uint64_t end = first + (each + (at < longer ? 1 : 0)) * grain;
  return {.first = first, .count = std::min(end, count) - first};
}

ControlHeader HeaderOfSlice(const ControlHeader& call, uint64_t most, uint64_t at) {
  const uint64_t left = SlicesOf(call.count, most) - 1 - at;
  EPIC_CHECK(left < kMaxSlices);
  ControlHeader header = call;
  header.count = SliceAt(call.count, most, at).count;
  header.flags |= static_cast<uint32_t>(left) << kSlicesLeftShift;
  return header;
}

}  // namespace epic
