// One run of a scenario: random calls of up to three groups, first while things go wrong, then after the
// faults have ended, when every call must end right within a bound of virtual time. Calls of a group that
// lost something in a crash may end in kAborted on some ranks and right on others; the group made in its
// place starts with calls of its own, for which the same holds.
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
  kWrong,  // a rank got a wrong element, or an error that no crash accounts for
  kHung,   // a call did not end within the bound
};
const char* Name(Verdict verdict);

struct Counts {
  int64_t runs = 0;
  int64_t calls = 0;     // one per group and call, not per rank
  int64_t by_hosts = 0;  // of them, whose data go between the hosts
  int64_t packets = 0;
  int64_t super_frames = 0;  // of packets, all of which count below
  int64_t lost = 0;
  int64_t cut = 0;  // off from super-frames
  int64_t corrupted = 0;
  int64_t repeated = 0;
  int64_t delayed = 0;
  int64_t unheard = 0;      // by hosts that stood still, or by what was down
  int64_t crashes = 0;      // of engines and hosts
  int64_t failed = 0;       // groups, each made anew
  int64_t aborted = 0;      // calls of one rank that ended in an error, or never, with their group
  int64_t old = 0;          // packets that came when their group had failed
  int64_t late_timers = 0;  // that were set and are late
  int64_t datagram_chunks = 0;  // of parts, that other ranks were to send, and that came as datagrams
  int64_t read_chunks = 0;      // and that were read, as their datagrams were lost or late
  int64_t unposted = 0;         // datagrams for which no receive was posted
  // Of groups that the manager's tables place.
  int64_t by_network = 0;  // with memory of their own in switches
  int64_t with_block = 0;
  int64_t by_path_hosts = 0;
  int64_t refused = 0;
  int64_t granted = 0;  // calls that asked for a block and got it
  int64_t busy = 0;     // and that found it taken
  int64_t restarts = 0;  // of the manager
  int64_t returned = 0;  // ranks that have come back to it, as often as they have
  Nanos time = 0;

  Counts& operator+=(const Counts& other);
  // What has become of a packet.
  void Add(Fate fate);
};
// In words, on one line.
std::string Describe(const Counts& counts);

struct Outcome {
  Verdict verdict = Verdict::kRight;
  std::string detail;  // what is wrong, or where every switch stands; empty if right
  Counts counts;
};

// The scenario must have come from Complete or ParseReplayLine, and its plan share nothing. The same scenario
// has the same outcome and trace, byte for byte. Aborts where a check of the engine or the host fails.
Outcome RunTrial(const Scenario& scenario, const TraceSink& trace = {});

}  // namespace epic::sim
