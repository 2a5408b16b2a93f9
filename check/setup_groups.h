// Setups of several groups that share a block in every switch (--groups).
#pragma once

#include <vector>

#include "base/status.h"
#include "check/setup.h"

namespace epic::check {

// An error names the first value that groups which share blocks do not have. Of a system whose tree and
// modes are known, and the number of groups.
Status CheckGroups(const Setup& setup, const SystemConfig& config);

// Puts in front of each call with data its request; the calls are then the invocations that hosts make.
Status AskForMemory(std::vector<ControlHeader>* calls);

}  // namespace epic::check
