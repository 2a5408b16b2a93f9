// What happened in a run of the model: of each index, of each place, and how often.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "sim/clock.h"
#include "sim/dsa/config.h"
#include "sim/dsa/packet.h"

namespace epic::sim::dsa {

struct IndexRecord {
  Picos first = -1;   // its first packet came to the switch
  Picos last = -1;    // the last packet that was sent for the first time
  Picos whole = -1;   // its first result passed the switch
  bool met = false;   // another one has wanted its place, or it another one's
  bool lost = false;  // a packet or a sum of it went to the server for want of a place
};

// The paper's types of aggregation tasks (its IV-C).
enum class TaskType : uint8_t { kAlone, kWon, kLost };
inline constexpr int kTaskTypes = 3;
inline TaskType TypeOf(const IndexRecord& index) {
  return index.lost ? TaskType::kLost : index.met ? TaskType::kWon : TaskType::kAlone;
}

struct Records {
  explicit Records(const JobsConfig& config) : indices(config.jobs.size()) {
    for (size_t job = 0; job < indices.size(); ++job)
      indices[job].resize(JobPackets(config, static_cast<int>(job)));
  }

  IndexRecord& Of(const Packet& p) { return indices[p.job][p.index]; }
  void NoteLost(const Packet& p) {
    lost_packets.push_back(p);
    // More than one worker's contribution in one packet; a result is not one.
    if (p.kind == Kind::kPart && std::popcount(p.bitmap) > 1) ++lost_sums;
  }

  std::vector<std::vector<IndexRecord>> indices;  // by job
  std::vector<uint32_t> claims;                   // from claim to release of a place, in nanoseconds
  std::vector<Packet> lost_packets;
  int64_t lost_sums = 0;     // of these, with the contributions of several workers
  Picos longest_queue = 0;   // at a port of the switch, in time
  int64_t server_bytes = 0;  // from the switch to servers

  int64_t evictions = 0;
  int64_t own_collisions = 0;  // of two indices of one job
  int64_t repeats = 0;         // packets sent again by workers
  int64_t reminders = 0;       // requests of servers
  int64_t duplicates = 0;      // dropped as their worker's bit was set
  int64_t overlaps = 0;        // partial sums that have some of their workers in common with the server's
  int64_t gone = 0;            // originals that were asked for, of workers that have them no more
  int64_t twice = 0;           // results with a contribution more than once in them, at workers
  int64_t missing = 0;         // results that lack one
};

}  // namespace epic::sim::dsa
