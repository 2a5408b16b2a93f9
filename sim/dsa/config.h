// Training jobs that share one switch by the rules that papers publish: what is simulated. "Preemptive Switch
// Memory Usage to Accelerate Training Jobs with Shared In-Network Aggregation" (DSA) has the jobs and the
// words; docs/REPRODUCED.md has what it leaves open.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sim/clock.h"

namespace epic::sim::dsa {

// How the switch's memory is shared.
enum class System : uint8_t {
  kSwitchMl,  // each job has a region for its life; there is no server
  kAtp,       // a pool; who comes first keeps a place until the server's result passes
  kDsa,       // a pool; the higher priority takes the place, and a failed attempt halves what it met
  kAlways,    // a pool; the packet takes the place (the paper's first strawman)
  kCoin,      // a pool; the packet takes it in one of two cases (the second)
};
inline constexpr System kSystems[] = {System::kSwitchMl, System::kAtp, System::kDsa, System::kAlways,
                                      System::kCoin};
// "switchml", "atp", "dsa", "always", "coin".
std::string_view NameOf(System system);
std::optional<System> SystemNamed(std::string_view name);

// Of two layers, each of two tensor partitions of one size.
struct Dnn {
  int64_t partition_bytes = 0;
  Picos layer_time = 0;  // of computation
};
inline constexpr int kPartitions = 4;
inline constexpr Dnn kCommunicationIntensive = {4'000'000, 320 * kMicrosecond* kPicosPerNano};  // A
inline constexpr Dnn kComputationIntensive = {2'000'000, 640 * kMicrosecond* kPicosPerNano};    // B

// What is drawn from 0 to the jitter, and delays when partitions may be sent.
enum class JitterOf : uint8_t {
  kWorker,  // once for each worker
  kJob,     // once for all workers of a job
  kTensor,  // for each partition of each worker
};

struct JobsConfig {
  System system = System::kDsa;
  std::vector<Dnn> jobs = std::vector<Dnn>(8, kCommunicationIntensive);
  int workers = 8;                  // of each job, on hosts of their own; 16 at most
  int64_t pool_bytes = 5'000'000;   // of payload: the switch's memory for sums
  int64_t payload_bytes = 256;      // of a packet
  int64_t header_bytes = 50;        // of a packet, all layers
  int64_t window_bytes = 60'000;    // of packets, that a worker may have sent from its oldest open one on
  bool aimd = false;                // else the window is fixed; it is where it begins
  int64_t most_window = 2'000'000;  // of AIMD, bytes
  int64_t ecn_bytes = 100'000;      // queue of a port of the switch from which packets are marked
  int64_t bits_per_second = 100'000'000'000;
  Picos round_trip = 10 * kMicrosecond * kPicosPerNano;  // between two hosts: four links
  Picos start_spread = kMillisecond * kPicosPerNano;     // a job starts at a time from 0 to this
  Picos jitter = 300 * kMicrosecond * kPicosPerNano;
  JitterOf jitter_of = JitterOf::kWorker;
  int forward_percent = 0;  // of a layer's computation that is the forward pass, behind its results
  Picos least_timeout = kMillisecond * kPicosPerNano;  // of a worker's packet and of a server's entry
  // The switch sends what it has of an index as soon as the last contribution has come, if the server has the
  // rest. Not published; else the server's timeout fetches it.
  bool last_at_once = false;
  // A worker that sees so many results beyond an open index repeats the index's packet; 0: only a timeout
  // does.
  int repeat_after = 0;
  // A result lies where the gradients were, so that a worker with a result has no original any more.
  bool in_place = false;
  // A server adds a partial sum to one that has workers in common with it. Else it drops the second.
  bool adds_overlaps = false;
  uint64_t worker_loss = 0;  // packets of a million that the first job's first worker's link loses, each way
  uint64_t server_loss = 0;  // and the link of the first job's server
  uint64_t seed = 1;         // of starts, jitters, the hash and losses
  Picos most_time = kSecond * kPicosPerNano;  // then a run ends
};

// What cannot be simulated is named.
Status Validate(const JobsConfig& config);

inline int64_t PacketBytes(const JobsConfig& config) { return config.payload_bytes + config.header_bytes; }
inline uint32_t PartitionPackets(const JobsConfig& config, int job) {
  const int64_t bytes = config.jobs[static_cast<size_t>(job)].partition_bytes;
  return static_cast<uint32_t>((bytes + config.payload_bytes - 1) / config.payload_bytes);
}
// Packets of a job's gradient: its indices, from 0.
inline uint32_t JobPackets(const JobsConfig& config, int job) {
  return kPartitions * PartitionPackets(config, job);
}
// The share of the pool that a place of the switch is: one of pool_bytes / payload_bytes.
inline uint32_t Places(const JobsConfig& config) {
  return static_cast<uint32_t>(config.pool_bytes / config.payload_bytes);
}
// Of a job's region without a pool. Half of it are the sums of a window, the other half the results of that
// before, which are kept until all have them.
inline uint32_t RegionPlaces(const JobsConfig& config) {
  return Places(config) / static_cast<uint32_t>(config.jobs.size());
}

}  // namespace epic::sim::dsa
