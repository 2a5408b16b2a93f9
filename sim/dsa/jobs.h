// A run of jobs by published rules in virtual time: a star of hosts with one switch, as packets. It is no
// part of the product: what figures of a paper are held against. The same on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/dsa/config.h"
#include "sim/dsa/records.h"

namespace epic::sim::dsa {

// The value below which 10, 50, 90 and 99 of a hundred lie; 0 if there is none.
struct Spread {
  Nanos p10 = 0;
  Nanos p50 = 0;
  Nanos p90 = 0;
  Nanos p99 = 0;
};

// What did not end in the time there was.
struct Open {
  int64_t jobs = 0;
  int64_t indices = 0;  // that some worker has no result of
  // Of these hang for ever: others have the result, and with it no original any more.
  int64_t hung = 0;
};

struct JobsRun {
  explicit JobsRun(const JobsConfig& config) : records(config) {}

  Nanos completion = 0;  // from a job's start to the end of its last worker: mean of the jobs that ended
  // A worker's payload over what its link could have carried, until the last result: mean of the same jobs.
  double utilisation = 0;
  Spread claims;      // from claim to release of a place
  Spread whole;       // from an index's first packet at the switch to its sum: of indices that kept a place
  Spread split;       // of indices of which a part went to the server
  Spread split_rest;  // of these: from the last worker's packet on
  std::array<int64_t, kTaskTypes> types = {};       // indices
  std::array<int64_t, kTaskTypes> lost_types = {};  // packets lost, by the type of their index
  Open open;
  int64_t leaked = 0;   // places that are taken when all has ended
  int64_t stalled = 0;  // split indices whose rest took half of the least timeout and more
  Records records;      // counters
};

// `config` is valid (Validate).
JobsRun RunJobs(const JobsConfig& config);

}  // namespace epic::sim::dsa
