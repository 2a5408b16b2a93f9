#include "commlib/core/host_algorithm.h"

#include <algorithm>
#include <array>

#include "protocol/flow.h"

namespace epic {
namespace {

// The most bytes, of all parts together, that go with the exchange, by the number of ranks. An exchange has
// log2 n messages in a row anyway, and the ring adds n - 1 or 2 (n - 1); what data cost in it depends on how
// often they are sent. Measured by bench/algorithms with 3 to 16 ranks (docs/PERFORMANCE.md): what fits
// into a message was faster inlined everywhere.
struct Row {
  Collective collective;
  uint64_t few;   // up to 8 ranks
  uint64_t many;  // more
};
constexpr std::array kMostInlined = {
    Row{Collective::kAllReduce, 32704, 32704},      // all of them in each round
    Row{Collective::kReduce, 32704, 32704},         // at most once per rank
    Row{Collective::kBroadcast, 32704, 32704},      // log2 n times by the root
    Row{Collective::kReduceScatter, 32704, 32704},  // all in each round, of which a rank needs an n-th
    Row{Collective::kAllGather, 32704, 32704},      // no byte twice
};

// Bytes, of all parts together, with which a call goes by multicast where the group has it. By
// bench/algorithms --multicast (bench/results/ring-or-multicast.md), and by virtual time on links of 56
// Gbit/s where that has the longer time: of an AllGather beyond 2 MiB. With 4 ranks a long Broadcast alone
// gains, little on such links, which is not worth a queue pair in each Init (docs/adr/0036).
struct MulticastRow {
  Collective collective;
  uint64_t least;
  uint64_t most;
};
constexpr std::array kByMulticast = {
    MulticastRow{Collective::kBroadcast, 65536, 16777216},
    MulticastRow{Collective::kAllGather, 65536, 2097152},
};
constexpr uint32_t kLeastMulticastRanks = 8;

// What passes a link while a step around the ring is on its way and does not send: 20 us at 10 Gbit/s, 2 us
// at 100 Gbit/s.
constexpr uint64_t kStepBytes = 24 << 10;

}  // namespace

const char* AlgorithmName(uint32_t flags) {
  constexpr std::array kNames = {"auto", "doubling", "ring", "multicast"};
  return kNames[(flags & kAlgorithmFlags) >> 4];
}

bool IsInlinedByHosts(const ControlHeader& header, uint32_t world_size, Algorithm algorithm,
                      uint64_t inline_bytes) {
  const uint64_t bytes = CallBytes(header);
  if (bytes == 0 || bytes > inline_bytes || algorithm == Algorithm::kRing) return false;
  if (algorithm == Algorithm::kDoubling) return true;
  if (IsByMulticast(header, algorithm)) return false;
  const auto* const row = std::ranges::find(kMostInlined, header.collective, &Row::collective);
  return row != kMostInlined.end() && bytes <= (world_size <= 8 ? row->few : row->many);
}

MulticastBytes BytesByMulticast(Collective collective, uint32_t world_size) {
  const auto* const row = std::ranges::find(kByMulticast, collective, &MulticastRow::collective);
  if (row == kByMulticast.end() || world_size < kLeastMulticastRanks) return {};
  return {.least = row->least, .most = row->most};
}

bool MayChooseMulticast(uint32_t world_size) { return world_size >= kLeastMulticastRanks; }

Algorithm ChooseAlgorithm(Collective collective, uint64_t call_bytes, uint32_t world_size, Algorithm told,
                          bool has_datagrams) {
  if (told != Algorithm::kAuto || !has_datagrams) return told;
  return BytesByMulticast(collective, world_size).Have(call_bytes) ? Algorithm::kMulticast : told;
}

bool IsByMulticast(const ControlHeader& header, Algorithm algorithm) {
  const bool copies =
      header.collective == Collective::kBroadcast || header.collective == Collective::kAllGather;
  return algorithm == Algorithm::kMulticast && copies && CallBytes(header) > 0;
}

// An n-th of the data passes a link in the time of n - 1 steps.
uint64_t LeastShorterByHosts(uint32_t world_size) {
  return uint64_t{world_size} * (world_size - 1) * kStepBytes;
}

bool IsShorterByHosts(const ControlHeader& header) {
  return header.collective == Collective::kReduceScatter && AccumulatorFactor(header.type) == 1 &&
         CallBytes(header) >= LeastShorterByHosts(header.parts);
}

}  // namespace epic
