// Which of two groups that share a switch's pool has a place that both want (mode V; docs/HOST.md, "Priorities").
#pragma once

#include "epic/epic.h"

namespace epic {

// For Communicator::SetPriority: the priority of a tensor of a training job, as DSA computes it (ICNP 2023,
// Eq. 1): 1 / remaining · layers / layer · comm / comp, from 2^-16 to 65,535. `remaining`: seconds to the end of
// the epoch; `layer`: of the model, counted from 1, the first; `comm`, `comp`: seconds that the job communicates
// and computes in each iteration, of which 2^-16 is the least for `comp`. What is no number is 2^-16.
EPIC_API double TensorPriority(double remaining, int layers, int layer, double comm, double comp);

}  // namespace epic
