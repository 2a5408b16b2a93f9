// One run of a scenario: random calls of up to three groups, first while things go wrong, then after the
// faults have ended, when every call must end right within a bound of virtual time.
#pragma once

#include <cstdint>
#include <string>

#include "sim/scenario.h"
#include "sim/trace.h"

namespace epic::sim {

// Virtual time from the end of the faults, and the start of the last call, to the end of every call. The
// longest timer is a host's of one second; several may have to run out one after the other.
inline constexpr Nanos kLivenessBound = 30 * kSecond;

enum class Verdict : uint8_t {
  kRight,
  kWrong,  // a rank got a wrong element, or an error
  kHung,   // a call did not end within the bound
};
const char* Name(Verdict verdict);

struct Counts {
  int64_t runs = 0;
  int64_t calls = 0;  // one per group and call, not per rank
  int64_t packets = 0;
  int64_t lost = 0;
  int64_t corrupted = 0;
  int64_t repeated = 0;
  int64_t delayed = 0;
  int64_t unheard = 0;  // by hosts that stood still
  Nanos time = 0;

  Counts& operator+=(const Counts& other);
};
// In words, on one line.
std::string Describe(const Counts& counts);

struct Outcome {
  Verdict verdict = Verdict::kRight;
  std::string detail;  // what is wrong, or where every switch stands; empty if right
  Counts counts;
};

// The scenario must have come from Complete or ParseReplayLine. The same scenario has the same outcome and
// trace, byte for byte. Aborts where a check of the engine or the host fails.
Outcome RunTrial(const Scenario& scenario, const TraceSink& trace = {});

}  // namespace epic::sim
