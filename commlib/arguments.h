// The arguments of a call, checked and put into a control header. Everything that is wrong with them is found
// here, before anything is sent.
#pragma once

#include <cstddef>

#include "commlib/core/rank_calls.h"
#include "epic/epic.h"
#include "protocol/control.h"

namespace epic::internal {

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
