// The arguments of a call, checked and put into a control header. Everything that is wrong with them is found
// here, before anything is sent.
#pragma once

#include <cstddef>

#include "epic/epic.h"
#include "protocol/control.h"

namespace epic::internal {

// In ControlHeader::flags of an average: a SUM that every receiver divides by the number of ranks. Ranks that
// call one with SUM and one with AVG are told of a mismatch by it.
inline constexpr uint32_t kAverageFlag = 1;

// As the caller gave them; `root` and `op` are 0 and kSum where the collective has none.
struct CallArguments {
  Collective collective = Collective::kBarrier;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  Datatype type = Datatype::kFloat32;
  RedOp op = RedOp::kSum;
  int root = 0;
};

// Fills in *header but for the invocation. kInvalidArgument (root, buffer, overlap, size) or kUnsupported
// (type, operation), with the culprit's name.
Error CheckArguments(const CallArguments& arguments, int rank, int size, ControlHeader* header);

}  // namespace epic::internal
