// The daemon's command line.
#pragma once

#include <string>
#include <vector>

#include "base/types.h"
#include "incengine/core/switch.h"

namespace epic::daemon {

struct Options {
  std::string name;
  engine::SwitchConfig config;
  std::vector<std::string> ports;
  std::string control_path;
  Nanos spin_ns = 0;
  size_t ring_bytes = 0;
  std::string log_level;
  std::string trace_path;  // empty: no trace
  uint64_t trace_limit = 0;
};

enum class ParseOutcome { kRun, kExitOk, kUsageError };

// Fills *options. Prints help, version or what is wrong where that is due.
ParseOutcome ParseOptions(int argc, char** argv, Options* options);

}  // namespace epic::daemon
