// Reads a daemon's trace (docs/TRACE.md) and has a Monitor judge it.
#pragma once

#include <istream>
#include <string>

#include "base/status.h"
#include "check/conform/monitor.h"

namespace epic::conform {

struct TraceResult {
  std::string switch_name;
  uint64_t lines = 0;
  uint64_t groups = 0;  // installed
  uint64_t steps = 0;   // packets in and timers
  bool cut = false;     // the daemon stopped writing when the trace was full
  Verdict verdict;
};

// INVALID_ARGUMENT, with the line, if this is no trace of a version that is known.
StatusOr<TraceResult> JudgeTrace(std::istream& trace);

}  // namespace epic::conform
