// How a communicator cuts a call into slices, for both of its ways.
#pragma once

#include <algorithm>

#include "commlib/comm.h"
#include "commlib/core/slices.h"
#include "protocol/flow.h"

namespace epic::internal {

template <typename Start>
void Comm::Slice(Call* call, uint64_t most_bytes, const Start& start) {
  const ControlHeader& header = call->header;
  if (CallBytes(header) <= most_bytes) return start(header, 0, 0);
  const uint64_t element = ElementBytes(header.type);
  const uint64_t most = std::max<uint64_t>(1, most_bytes / element / header.parts);
  call->slices = SlicesOf(header.count, most);
  const uint64_t stride = header.parts > 1 ? header.count * element : 0;
  for (uint64_t k = 0; k < call->slices; ++k)
    start(HeaderOfSlice(header, most, k), SliceAt(header.count, most, k).first * element, stride);
}

}  // namespace epic::internal
