// The command line of epic-perf: nccl-tests' flags, so that fingers need not learn anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/collective.h"
#include "epic/epic.h"

namespace epic::perf {

// So many calls of one size, one after the other.
struct Series {
  uint64_t bytes = 0;  // of all shares
  int iterations = 0;  // timed
  int warmup = 0;      // before them

  bool operator==(const Series&) const = default;
};

struct PerfOptions {
  epic::Options communicator;
  std::vector<Kind> kinds{Kind::kAllReduce};
  std::vector<RedOp> ops{RedOp::kSum};
  int root = 0;
  uint64_t min_bytes = 4096;
  uint64_t max_bytes = 4 << 20;
  uint64_t step_bytes = 1 << 20;  // used when step_factor is 1
  uint64_t step_factor = 2;
  int iterations = 20;
  int warmup = 1;
  int checks = 1;      // verified runs of each size and placement
  int aggregated = 1;  // calls outstanding at a time
  bool registered = false;
  bool parallel = false;  // by a ParallelCommunicator
  bool json = false;
  bool each = false;    // the time of each call is kept
  std::string counted;  // network device whose bytes are counted, if any
  std::vector<Datatype> types{Datatype::kFloat32};
  std::vector<Series> series;  // of --calls; if empty, sizes, iterations and warm-up are as above
};

// Empty after --help or an error; *exit_code is then what to exit with (0 or 2) and everything has been
// printed.
std::optional<PerfOptions> ParsePerfOptions(int argc, const char* const* argv, int* exit_code);

// "4K" is 4096; K, M and G are powers of 1024. Empty if it is no such number.
std::optional<uint64_t> ParseSize(const std::string& text);

// What is to run, in order: the series of --calls, or one of each size from min_bytes to max_bytes. A
// barrier, which has no size, has one series in place of the latter.
std::vector<Series> SeriesOf(const PerfOptions& options, Kind kind);

// Elements of one rank's share in a call of so many bytes, rounded down.
uint64_t CountOf(uint64_t bytes, Kind kind, Datatype type, int ranks);

}  // namespace epic::perf
