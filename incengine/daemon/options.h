// The daemon's command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "incengine/core/switch.h"
#include "incengine/daemon/ports.h"
#include "io/dpdk_ports.h"

namespace epic::daemon {

// Longer than any daemon runs.
inline constexpr Nanos kNeverSleeps = kNever / 4;

struct Options {
  std::string name;
  engine::SwitchConfig config;
  Ports::Options ports;
  // Of which of these, `devices`, are not the kernel's. None: the module for them is not loaded.
  std::optional<io::DpdkOptions> dpdk;
  std::string control_path;
  Nanos spin_ns = 0;   // kNeverSleeps: without an end
  uint32_t cores = 1;  // shards: threads of the data path
  std::string log_level;
  int autogroup_nice = 0;     // io/autogroup.h; 0: as it is
  bool check_config = false;  // only look at the ports
  std::string trace_path;     // empty: no trace
  uint64_t trace_limit = 0;
};

enum class ParseOutcome { kRun, kExitOk, kUsageError };

// Fills *options. Prints help, version or what is wrong where that is due.
ParseOutcome ParseOptions(int argc, char** argv, Options* options);

}  // namespace epic::daemon
